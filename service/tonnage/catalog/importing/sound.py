"""Audio encoders in front of a language model, as one part outside the layer stack."""

from tonnage.engine.modules import Extra

from .fields import Fields


def conformer(audio: Fields, text: int) -> int:
    """Gemma's: two feed-forward halves, attention and a light convolution, 24 width² in all."""
    audio.defaults({"hidden_size": 1024})
    width = audio.count("hidden_size")
    layers = audio.maybe_count("num_hidden_layers", "conf_num_hidden_layers") or 12
    kernel = audio.maybe_count("conv_kernel_size", "conf_conv_kernel_size") or 5
    norms = 9
    block = 24 * width * width + (kernel + norms) * width
    out = audio.maybe_count("output_proj_dims") or width
    projection = width * out + out if out != width else 0
    return layers * block + 1024 * width + 38_000 + projection + out * text


def whisper_encoder(audio: Fields, text: int) -> int:
    """Whisper's encoder and a projection (``qwen2_audio``)."""
    width, wide = audio.count("d_model"), audio.count("encoder_ffn_dim")
    layers = audio.count("encoder_layers")
    mel = audio.maybe_count("num_mel_bins") or 128
    frames = audio.maybe_count("max_source_positions") or 1500
    block = 4 * width * width + 3 * width + 2 * width * wide + wide + width + 4 * width
    front = (3 * mel + 1) * width + (3 * width + 1) * width + (frames + 2) * width
    return layers * block + front + (width + 1) * text


def audio_extra(whole: Fields, text_width: int) -> Extra | None:
    audio = whole.maybe_child("audio_config")
    if audio is None:
        return None
    kind = audio.maybe_text("model_type") or whole.maybe_text("model_type") or ""
    if kind.startswith(("gemma3n", "gemma4_audio", "gemma4")) and "unified" not in kind:
        parameters = conformer(audio, text_width)
    elif kind == "gemma4_unified_audio":
        parameters = (audio.maybe_count("audio_embed_dim") or 640) * text_width
    elif kind in ("qwen2_audio_encoder", "qwen2_audio"):
        parameters = whisper_encoder(audio, text_width)
    else:
        audio.refuse("model_type", f"is {kind!r}, an audio encoder that is not known")
    return Extra(name="audio encoder", role="encoder", parameters=parameters, shard="tensor")
