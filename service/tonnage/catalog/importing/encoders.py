"""Encoders, which keep no cache, and encoder-decoders, whose decoder keeps two.

From transformers 5.24 ``bert``, ``roberta``, ``xlm_roberta``, ``modernbert``, ``nomic_bert``,
``whisper`` and ``t5``. What follows the token embedding (positions, types, a norm, a pooler) is a
part outside the stack.
"""

from collections.abc import Callable

import msgspec

from tonnage.engine.attention import Attention
from tonnage.engine.feed_forward import Dense
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.modules import Extra

from .decoders import Habits, attention, dense, embedding_and_head
from .fields import Fields
from .older import learned_positions
from .patterns import layer_count
from .stacks import assemble, layer

BERT = Habits(
    attention_bias=True,
    output_bias=True,
    norm_bias=True,
    gated=False,
    feed_forward_bias=True,
    tied=True,
    final_norm=False,
)


def without_cache(part: Attention) -> Attention:
    return msgspec.structs.replace(part, shares_cache=True)


def bert(fields: Fields) -> ModelArchitecture:
    if fields.flag("is_decoder"):
        fields.refuse("is_decoder", "is not known to be true")
    hidden = fields.count("hidden_size")
    one = layer(without_cache(attention(fields, BERT)), dense(fields, BERT), 4)
    types = fields.maybe_count("type_vocab_size") or 0
    return assemble(
        [one] * layer_count(fields),
        extras=(
            learned_positions(fields.count("max_position_embeddings"), hidden),
            Extra(name="token types", role="embedding", parameters=types * hidden),
            Extra(name="norm of the embedding", role="norm", parameters=2 * hidden),
            Extra(name="pooler", role="other", parameters=hidden * (hidden + 1)),
        ),
        **embedding_and_head(fields, BERT),
    )


def nomic_bert(fields: Fields) -> ModelArchitecture:
    """Rotary positions, gated units and no biases but those of the norms."""
    fields.defaults(
        {
            "hidden_size": fields.raw("n_embd"),
            "num_hidden_layers": fields.raw("n_layer"),
            "num_attention_heads": fields.raw("n_head"),
            "intermediate_size": fields.raw("n_inner"),
            "max_position_embeddings": fields.raw("n_positions"),
        }
    )
    habits = Habits(
        attention_bias=("qkv_proj_bias", False),
        feed_forward_bias=("mlp_fc1_bias", False),
        tied=True,
        final_norm=False,
    )
    hidden = fields.count("hidden_size")
    types = fields.maybe_count("type_vocab_size") or 0
    one = layer(without_cache(attention(fields, habits)), dense(fields, habits), 4)
    shapes = embedding_and_head(fields, habits)
    return assemble(
        [one] * layer_count(fields),
        extras=(
            Extra(name="token types", role="embedding", parameters=types * hidden),
            Extra(name="norm of the embedding", role="norm", parameters=2 * hidden),
        ),
        **{**shapes, "tied_embeddings": True},
    )


def modernbert(fields: Fields) -> ModelArchitecture:
    """Each n-th layer from the first sees everything. The first layer has no norm before its
    attention and the embedding has one, which makes two a layer in all."""
    habits = Habits(
        attention_bias=("attention_bias", False),
        output_bias=("attention_bias", False),
        feed_forward_bias=("mlp_bias", False),
        tied=True,
    )
    if fields.flag("norm_bias"):
        fields.refuse("norm_bias", "is not known to be true")
    every = fields.maybe_count("global_attn_every_n_layers") or 3
    window = fields.maybe_count("local_attention") or 128
    fields.ignore("layer_types", "sliding_window")
    feed_forward = dense(fields, habits)
    described = [
        layer(without_cache(attention(fields, habits, window if i % every else None)), feed_forward)
        for i in range(layer_count(fields))
    ]
    return assemble(described, **embedding_and_head(fields, habits))


def _encoder_layers(count: int, width: int, attention_width: int, feed_forward: int) -> int:
    """Attention and an ungated feed-forward block, both with biases, and two norms."""
    attending = 4 * width * attention_width + 3 * attention_width + width
    return count * (attending + 2 * width * feed_forward + feed_forward + width + 4 * width)


def whisper(fields: Fields) -> ModelArchitecture:
    width = fields.count("d_model")
    heads = fields.count("decoder_attention_heads")
    if width % heads:
        fields.refuse("decoder_attention_heads", f"does not divide the width {width}")
    frames = fields.maybe_count("max_source_positions") or 1500
    tokens = fields.maybe_count("max_target_positions") or 448
    mel = fields.maybe_count("num_mel_bins") or 80
    itself = Attention(
        query_heads=heads,
        key_value_heads=heads,
        head_dim=width // heads,
        query_key_value_bias=True,
        output_bias=True,
    )
    cross = msgspec.structs.replace(itself, encoder_tokens=frames)
    feed_forward = Dense(intermediate_size=fields.count("decoder_ffn_dim"), gated=False, bias=True)
    encoder = (
        _encoder_layers(
            fields.count("encoder_layers"), width, width, fields.count("encoder_ffn_dim")
        )
        + (3 * mel + 1) * width
        + (3 * width + 1) * width
        + frames * width
        + 2 * width
    )
    return assemble(
        [layer((itself, cross), feed_forward, 6)] * layer_count(fields, "decoder_layers"),
        hidden_size=width,
        vocabulary_size=fields.count("vocab_size"),
        tied_embeddings=True,
        longest_context_tokens=tokens,
        extras=(
            Extra(name="audio encoder", role="encoder", parameters=encoder, shard="tensor"),
            learned_positions(tokens, width),
            Extra(name="bias of the final norm", role="norm", parameters=width),
        ),
    )


def t5(fields: Fields) -> ModelArchitecture:
    """``n_positions`` (512) stands for a length that relative positions do not limit."""
    width, wide = fields.count("d_model"), fields.count("d_ff")
    heads, dim = fields.count("num_heads"), fields.count("d_kv")
    gated = (fields.maybe_text("feed_forward_proj") or "relu").startswith("gated")
    tokens = fields.maybe_count("n_positions") or 512
    layers = layer_count(fields, "num_layers")
    decoder_layers = fields.maybe_count("num_decoder_layers") or layers
    buckets = fields.maybe_count("relative_attention_num_buckets") or 32
    itself = Attention(query_heads=heads, key_value_heads=heads, head_dim=dim)
    cross = msgspec.structs.replace(itself, encoder_tokens=tokens)
    feed_forward = Dense(intermediate_size=wide, gated=gated)
    encoder = width + layers * (4 * width * heads * dim + (2 + gated) * width * wide + 2 * width)
    return assemble(
        [layer((itself, cross), feed_forward, 3)] * min(decoder_layers, 2001),
        hidden_size=width,
        vocabulary_size=fields.count("vocab_size"),
        tied_embeddings=fields.flag("tie_word_embeddings", True),
        longest_context_tokens=tokens,
        extras=(
            Extra(name="encoder", role="encoder", parameters=encoder, shard="tensor"),
            Extra(name="relative positions", role="other", parameters=2 * buckets * heads),
        ),
    )


ENCODERS: dict[str, Callable[[Fields], ModelArchitecture]] = {
    "bert": bert,
    "roberta": bert,
    "xlm-roberta": bert,
    "camembert": bert,
    "nomic_bert": nomic_bert,
    "modernbert": modernbert,
    "whisper": whisper,
    "t5": t5,
}
