"""Counting the parameters of a checkpoint from the header of its safetensors files.

The format is in the safetensors repository's README ("Format"). Packed weights are those of GPTQ
and AWQ (``qweight``), compressed-tensors (``weight_packed``), gpt-oss (``_blocks``), ModelOpt's
NVFP4 and bitsandbytes (``weight`` as U8); what goes with them (scales, zero points) is no
parameter.
"""

import math
import re
from typing import Any, NamedTuple

from .errors import UnreadableFile

DTYPE_BITS = {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}
FLOATS = frozenset(dtype for dtype in DTYPE_BITS if "F" in dtype)
WHOLE = frozenset({"U8", "I8", "I16", "U16", "I32", "U32", "I64", "U64"})

BUFFERS = re.compile(r"(^|\.)(inv_freq|position_ids|masked_bias|rotary_emb\..*|g_idx)$")
SCALES = re.compile(
    r"(^|[._])(scales?|scale_inv|scale_2|qzeros|zeros?_points?|weight_shape|g_idx|SCB|weight_format|"
    r"absmax|nested_absmax|quant_map|nested_quant_map)$|\.quant_state\."
)
PACKED = re.compile(r"\.(qweight|weight_packed)$|_(blocks|packed)$")
WEIGHT = re.compile(r"(^|[._])(weight|proj)$")


class Counted(NamedTuple):
    parameters: int
    bytes: int
    names: frozenset[str]
    unknown: tuple[str, ...]
    """Tensors of whole numbers that no known scheme explains; not counted."""


class _Tensor(NamedTuple):
    name: str
    dtype: str
    elements: int


def counted(header: dict[str, Any], packed_bits: int | None) -> Counted:
    """``packed_bits``: bits of a weight in the checkpoint's scheme, None where it has none."""
    parameters = size = 0
    unknown = []
    tensors = [_tensor(name, value) for name, value in header.items() if name != "__metadata__"]
    for tensor in tensors:
        size += math.ceil(tensor.elements * DTYPE_BITS[tensor.dtype] / 8)
        found = _parameters(tensor, packed_bits)
        if found is None:
            unknown.append(tensor.name)
        else:
            parameters += found
    return Counted(parameters, size, frozenset(t.name for t in tensors), tuple(unknown))


def _parameters(tensor: _Tensor, packed_bits: int | None) -> int | None:
    if BUFFERS.search(tensor.name):
        return 0
    if packed_bits is not None:
        if SCALES.search(tensor.name):
            return 0
        packed = PACKED.search(tensor.name) or (packed_bits < 8 and WEIGHT.search(tensor.name))
        if packed and tensor.dtype in WHOLE:
            return tensor.elements * DTYPE_BITS[tensor.dtype] // packed_bits
        if tensor.dtype == "I8" and WEIGHT.search(tensor.name):
            return tensor.elements
    return tensor.elements if tensor.dtype in FLOATS else None


def _tensor(name: str, value: Any) -> _Tensor:
    pointer = f"/safetensors_header/{name[:200].replace('~', '~0').replace('/', '~1')}"
    if not isinstance(value, dict):
        raise UnreadableFile("a tensor is an object with dtype and shape", pointer=pointer)
    dtype, shape = value.get("dtype"), value.get("shape")
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        raise UnreadableFile("the dtype is not one of safetensors", pointer=f"{pointer}/dtype")
    if (
        not isinstance(shape, list)
        or len(shape) > 16
        or not all(isinstance(size, int) and 0 <= size < 2**53 for size in shape)
    ):
        raise UnreadableFile("the shape is not a list of sizes", pointer=f"{pointer}/shape")
    elements = math.prod(shape)
    if elements > 10**14:
        raise UnreadableFile(f"the shape has {elements} elements", pointer=f"{pointer}/shape")
    _check_offsets(value.get("data_offsets"), elements * DTYPE_BITS[dtype], pointer)
    return _Tensor(name, dtype, elements)


def _check_offsets(offsets: Any, bits: int, pointer: str) -> None:
    if offsets is None:
        return
    pointer += "/data_offsets"
    if (
        not isinstance(offsets, list)
        or len(offsets) != 2
        or not all(isinstance(offset, int) for offset in offsets)
    ):
        raise UnreadableFile("the offsets are not a beginning and an end", pointer=pointer)
    if offsets[1] - offsets[0] != math.ceil(bits / 8):
        raise UnreadableFile("the offsets do not agree with dtype and shape", pointer=pointer)
