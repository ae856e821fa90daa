"""What do a model's own multi-token-prediction layers take, where a runtime drafts with them?

Each is one more decoder layer of the model's growing kind, a projection of twice the width to the
width and three norms (DeepSeek-V3, arXiv:2412.19437, section 2.2). The layer is split over ranks as
the model's own; the rest is whole on each. The head and embedding are shared with the model.
"""

from functools import lru_cache

from tonnage.engine.caches import TokenCache
from tonnage.engine.memory.weights import bytes_of, layer_bytes
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.precision import WeightEncoding


def prediction_layers(model: ModelArchitecture) -> int:
    """How many the checkpoint has; 0 for a model that can not draft by itself."""
    kind = prediction_kind(model)
    if kind is None:
        return 0
    stored = sum(extra.parameters for extra in model.extras if extra.role == "prediction")
    return round(stored / _layer_parameters(model, kind)) if stored else 0


def prediction_kind(model: ModelArchitecture) -> str | None:
    """The kind of layer that predicts: the last one whose cache grows with every token."""
    for name in reversed(model.order):
        for cache in model.layer_caches[name]:
            if isinstance(cache, TokenCache) and cache.window_tokens is None:
                return name
    return None


def _layer_parameters(model: ModelArchitecture, kind: str) -> int:
    return sum(module.parameters for module in model.layer_modules[kind])


@lru_cache(maxsize=1024)
def prediction_bytes(
    model: ModelArchitecture, encoding: WeightEncoding, tensor: int, expert_ranks: int
) -> int:
    """Bytes of the prediction layers on one rank."""
    kind = prediction_kind(model)
    if kind is None:
        return 0
    layers = prediction_layers(model)
    projection = 2 * model.hidden_size * model.hidden_size + 3 * model.hidden_size
    own = layer_bytes(model, encoding, tensor, expert_ranks)[kind]
    kept_wide = 0
    wide = encoding.bits("prediction")
    for module in model.layer_modules[kind]:
        if module.shard != "expert":
            extra_bits = max(wide - encoding.bits(module.role), 0)
            kept_wide += bytes_of(module.parameters // tensor, extra_bits)
    return layers * (own + kept_wide + bytes_of(projection, wide))
