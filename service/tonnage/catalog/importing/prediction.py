"""Multi-token-prediction layers: stored in a checkpoint, left out by a runtime unless asked.

One is a decoder layer, a projection of twice the width to the width, and three norms (DeepSeek-V3,
arXiv:2412.19437, section 2.2); some checkpoints store copies of the embedding and head with it.
"""

from tonnage.engine.model import Layer
from tonnage.engine.modules import Extra

from .fields import Fields

COUNTS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "mtp_num_layers", "num_mtp_layers")


def layer_parameters(layer: Layer, hidden_size: int) -> int:
    return sum(module.parameters for module in layer.modules(hidden_size))


def prediction_extras(
    fields: Fields, layer: Layer, *, copies: bool = False, norms: int = 3
) -> tuple[Extra, ...]:
    """``copies``: the checkpoint also stores the embedding and the head again, each layer."""
    count = fields.maybe_count(*COUNTS)
    if count is None:
        return ()
    hidden = fields.count("hidden_size")
    each = layer_parameters(layer, hidden) + 2 * hidden * hidden + norms * hidden
    if copies:
        each += 2 * fields.count("vocab_size") * hidden
    return (
        Extra(
            name="multi-token prediction",
            role="prediction",
            parameters=count * each,
            loaded=False,
        ),
    )
