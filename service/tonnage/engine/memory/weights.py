"""How many bytes of weights does one rank hold?

Splits follow Megatron-LM (arXiv:1909.08053) as vLLM 0.11 applies it: attention heads, feed-forward
columns and vocabulary over tensor ranks, experts over expert ranks, key/value heads at least one a
rank, norms, routers and latent down-projections whole on each. Left out: padding that a kernel adds
when it repacks weights on load.
"""

from functools import lru_cache
from math import ceil

from tonnage.engine.feed_forward import MixtureOfExperts
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.modules import Module, Shard
from tonnage.engine.precision import WeightEncoding
from tonnage.engine.values import ceil_div, round_up

VOCABULARY_MULTIPLE = 64
"""vLLM pads the vocabulary to this many rows (``vocab_parallel_embedding.py``)."""


def bytes_of(parameters: int, bits: float) -> int:
    return ceil(parameters * bits / 8)


def share(parameters: int, shard: Shard, tensor: int, expert_ranks: int, kv_heads: int) -> int:
    """The parameters of a module that one rank keeps."""
    match shard:
        case "tensor" | "vocabulary":
            return ceil_div(parameters, tensor)
        case "kv_heads":
            return ceil_div(parameters, min(tensor, kv_heads))
        case "expert":
            return ceil_div(parameters, expert_ranks)
        case "replicated":
            return parameters


def padded_share(
    model: ModelArchitecture, expert_ranks: int, hidden_multiple: int, intermediate_multiple: int
) -> float:
    """By how much a kernel's padding enlarges the experts of a rank; 1.0 for none."""
    for layer in model.layers:
        for part in layer.feed_forward:
            if isinstance(part, MixtureOfExperts):
                hidden = part.expert_hidden_size or model.hidden_size
                share = ceil_div(part.intermediate_size, expert_ranks)
                padded = round_up(hidden, hidden_multiple) * round_up(share, intermediate_multiple)
                return padded / (hidden * share)
    return 1.0


@lru_cache(maxsize=4096)
def expert_bytes(
    model: ModelArchitecture,
    encoding: WeightEncoding,
    expert_ranks: int,
    stage: tuple[tuple[str, int], ...],
) -> int:
    """Bytes of the routed experts' matrices on one rank of a stage."""
    return sum(
        count * module_bytes(module, encoding, 1, expert_ranks)
        for name, count in stage
        for module in model.layer_modules[name]
        if module.role in ("expert_gate_up", "expert_down")
    )


def module_bytes(module: Module, encoding: WeightEncoding, tensor: int, expert_ranks: int) -> int:
    kept = share(module.parameters, module.shard, tensor, expert_ranks, module.kv_heads)
    return bytes_of(kept, encoding.bits(module.role))


@lru_cache(maxsize=4096)
def layer_bytes(
    model: ModelArchitecture, encoding: WeightEncoding, tensor: int, expert_ranks: int
) -> dict[str, int]:
    """Bytes of one layer of each kind on one rank."""
    return {
        name: sum(module_bytes(module, encoding, tensor, expert_ranks) for module in modules)
        for name, modules in model.layer_modules.items()
    }


@lru_cache(maxsize=4096)
def vocabulary_bytes(
    model: ModelArchitecture, encoding: WeightEncoding, tensor: int, row_multiple: int
) -> tuple[int, int]:
    """Bytes of the embedding and of the output head on one rank (each as if stored alone)."""
    rows = ceil_div(round_up(model.vocabulary_size, row_multiple), tensor)
    parameters = rows * model.hidden_size
    embedding = bytes_of(parameters, encoding.embedding_bits(model.tied_embeddings))
    if model.tied_embeddings:
        return embedding, embedding
    return embedding, bytes_of(parameters, encoding.bits("output_head"))


@lru_cache(maxsize=4096)
def extra_bytes(
    model: ModelArchitecture, encoding: WeightEncoding, tensor: int, *, encoder: bool = True
) -> int:
    """Bytes of the loaded parts outside the stack, ``encoder=False`` for those of text alone."""
    return sum(
        bytes_of(share(extra.parameters, extra.shard, tensor, 1, 1), encoding.bits(extra.role))
        for extra in model.extras
        if extra.loaded and (encoder or extra.role != "encoder")
    )


@lru_cache(maxsize=4096)
def encoder_bytes(model: ModelArchitecture, encoding: WeightEncoding, tensor: int) -> int:
    """Bytes of the loaded vision and audio towers on one rank."""
    return extra_bytes(model, encoding, tensor) - extra_bytes(
        model, encoding, tensor, encoder=False
    )


def final_norm_bytes(model: ModelArchitecture, encoding: WeightEncoding) -> int:
    return bytes_of(model.hidden_size * model.final_norm, encoding.bits("norm"))


@lru_cache(maxsize=4096)
def stages(model: ModelArchitecture, pipeline: int) -> tuple[dict[str, int], ...]:
    """How many layers of each kind a pipeline stage has.

    An even split gives what is left over to the later stages but the last, which also has the
    output head (vLLM 0.11 ``get_pp_indices``).
    """
    per_stage, left = divmod(model.layer_count, pipeline)
    sizes = [per_stage] * pipeline
    for index in range(2, left + 2):
        sizes[-index] += 1
    found: list[dict[str, int]] = []
    start = 0
    for size in sizes:
        names = model.order[start : start + size]
        found.append({name: names.count(name) for name in dict.fromkeys(names)})
        start += size
    return tuple(found)


@lru_cache(maxsize=4096)
def stage_weights(
    model: ModelArchitecture,
    encoding: WeightEncoding,
    tensor: int,
    pipeline: int,
    expert_ranks: int,
) -> tuple[int, ...]:
    """Bytes of weights on one rank of each pipeline stage."""
    layers = layer_bytes(model, encoding, tensor, expert_ranks)
    embedding, head = vocabulary_bytes(model, encoding, tensor, VOCABULARY_MULTIPLE)
    amounts = [
        sum(layers[name] * count for name, count in stage.items())
        for stage in stages(model, pipeline)
    ]
    amounts[0] += embedding + extra_bytes(model, encoding, tensor)
    amounts[-1] += final_norm_bytes(model, encoding)
    if not (model.tied_embeddings and pipeline == 1):
        amounts[-1] += head
    return tuple(amounts)
