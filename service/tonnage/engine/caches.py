"""What one layer keeps between two tokens, in elements (a number format gives them bytes)."""

from .values import Value


class TokenCache(Value, frozen=True, kw_only=True):
    """A cache that grows by one entry per token (up to a window, if it has one).

    ``heads`` can be divided over tensor-parallel ranks and are copied beyond their number; a
    latent cache is one head.
    """

    heads: int
    key_elements: int
    value_elements: int
    window_tokens: int | None = None
    index_bytes: int = 0
    """Bytes a token of a sparse-attention index, in its own format, on every rank."""
    fp8_bytes: int | None = None
    """Bytes a token in a layout of its own for 8-bit caches, where the runtime has one."""

    def heads_on_rank(self, tensor_parallel_size: int) -> int:
        return max(1, -(-self.heads // tensor_parallel_size))


class StateCache(Value, frozen=True, kw_only=True):
    """A state of fixed size per sequence, whatever its length."""

    convolution_elements: int
    recurrent_elements: int
    heads: int
    convolution_positions: int = 0
    """How many past positions the convolution keeps; drafting keeps as many more as it drafts."""
    recurrent_bits: int = 16
    """16 where the runtime keeps it in the model's type, 32 where the config asks for float32."""
    encoder_tokens: int = 0
    """Set for cross attention: the state is the keys and values of so many encoder positions."""


LayerCache = TokenCache | StateCache
