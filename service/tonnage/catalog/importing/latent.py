"""Decoders of multi-head latent attention: DeepSeek V2 to V3.2, Kimi K2, GLM-4.7-Flash and GLM-5.

From transformers 5.24 ``deepseek_v2``, ``deepseek_v3``, ``deepseek_v32``, ``glm4_moe_lite`` and
``glm_moe_dsa``; only layers with an index of their own cache keys for it.
"""

from tonnage.engine.attention import LatentAttention, SparseIndex
from tonnage.engine.model import Layer, ModelArchitecture

from .decoders import Experts, Habits, embedding_and_head, feed_forwards
from .fields import Fields
from .patterns import layer_count, stated_choice, stated_kinds
from .prediction import prediction_extras
from .stacks import assemble, layer

SHARED = ("n_shared_experts", "num_shared_experts")
BIASED = Experts(shared_count=SHARED, router_bias=True)

LATENT: dict[str, Habits] = {
    "deepseek_v2": Habits(experts=Experts(shared_count=SHARED)),
    "deepseek_v3": Habits(experts=BIASED),
    "kimi_k2": Habits(experts=BIASED),
    "deepseek_v32": Habits(experts=BIASED),
    "glm_moe_dsa": Habits(experts=Experts(shared_count=SHARED, router_bias=True, first_dense=3)),
    "glm4_moe_lite": Habits(experts=Experts(shared_count=SHARED, router_bias=True, first_dense=1)),
}
COPIES_EMBEDDINGS = ("deepseek_v3", "deepseek_v32", "glm4_moe_lite")
"""Checkpoints whose prediction layer stores the embedding and the head again."""


def latent_attention(fields: Fields, index: SparseIndex | None = None) -> LatentAttention:
    if fields.flag("attention_bias"):
        fields.refuse("attention_bias", "is not known for latent attention")
    return LatentAttention(
        query_heads=fields.count("num_attention_heads"),
        query_lora_rank=fields.maybe_count("q_lora_rank"),
        key_value_lora_rank=fields.count("kv_lora_rank"),
        no_position_head_dim=fields.count("qk_nope_head_dim"),
        position_head_dim=fields.maybe_count("qk_rope_head_dim") or 0,
        value_head_dim=fields.count("v_head_dim"),
        index=index,
    )


def sparse_index(fields: Fields) -> SparseIndex | None:
    heads = fields.maybe_count("index_n_heads")
    if heads is None:
        return None
    return SparseIndex(
        heads=heads,
        head_dim=fields.count("index_head_dim"),
        selected_tokens=fields.maybe_count("index_topk") or 0,
    )


def indexed_layers(fields: Fields, layers: int) -> list[bool]:
    """Layers that run their own index; the others reuse the one before (GLM-5.2)."""
    fields.ignore(
        "index_topk_freq",
        "index_skip_topk_offset",
        "index_topk_pattern",
        "index_share_for_mtp_iteration",
    )
    kinds = stated_choice(fields, "indexer_types", layers, ("full", "shared"))
    if kinds is not None:
        return [kind == "full" for kind in kinds]
    if fields.raw("index_topk_pattern") is not None:
        fields.refuse("index_topk_pattern", "is not known without `indexer_types`")
    frequency = fields.maybe_count("index_topk_freq") or 1
    offset = fields.maybe_count("index_skip_topk_offset") or 2
    return [max(i - offset + 1, 0) % frequency == 0 for i in range(layers)]


def latent_layers(fields: Fields, habits: Habits) -> list[Layer]:
    layers = layer_count(fields)
    stated_kinds(
        fields, layers, ("full_attention", "indexed_attention", "deepseek_sparse_attention")
    )
    index = sparse_index(fields)
    plain, indexed = latent_attention(fields), latent_attention(fields, index)
    own = indexed_layers(fields, layers) if index else [False] * layers
    return [
        layer(indexed if has_index else plain, feed_forward)
        for has_index, feed_forward in zip(own, feed_forwards(fields, habits, layers), strict=True)
    ]


def latent_decoder(fields: Fields, kind: str) -> ModelArchitecture:
    layers = latent_layers(fields, LATENT[kind])
    return assemble(
        layers,
        extras=prediction_extras(fields, layers[-1], copies=kind in COPIES_EMBEDDINGS),
        **embedding_and_head(fields, LATENT[kind]),
    )
