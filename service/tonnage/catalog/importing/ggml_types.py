"""ggml's tensor types: how many bytes a block of elements takes, and which format records match.

Numbers from ``enum ggml_type`` and its type traits (ggml ``include/ggml.h`` and ``src/ggml.c``),
file types from ``enum llama_ftype`` (llama.cpp ``include/llama.h``).
"""

from typing import NamedTuple


class GgmlType(NamedTuple):
    name: str
    block_elements: int
    block_bytes: int
    format: str | None = None
    """The format record of a file in which most elements are of this type."""


GGML_TYPES: dict[int, GgmlType] = {
    0: GgmlType("F32", 1, 4, "fp32"),
    1: GgmlType("F16", 1, 2, "gguf-f16"),
    2: GgmlType("Q4_0", 32, 18, "q4_0"),
    3: GgmlType("Q4_1", 32, 20, "q4_1"),
    6: GgmlType("Q5_0", 32, 22, "q5_0"),
    7: GgmlType("Q5_1", 32, 24, "q5_1"),
    8: GgmlType("Q8_0", 32, 34, "q8_0"),
    9: GgmlType("Q8_1", 32, 36),
    10: GgmlType("Q2_K", 256, 84, "q2_k"),
    11: GgmlType("Q3_K", 256, 110, "q3_k_m"),
    12: GgmlType("Q4_K", 256, 144, "q4_k_m"),
    13: GgmlType("Q5_K", 256, 176, "q5_k_m"),
    14: GgmlType("Q6_K", 256, 210, "q6_k"),
    15: GgmlType("Q8_K", 256, 292),
    16: GgmlType("IQ2_XXS", 256, 66, "iq2_xxs"),
    17: GgmlType("IQ2_XS", 256, 74, "iq2_xs"),
    18: GgmlType("IQ3_XXS", 256, 98, "iq3_xxs"),
    19: GgmlType("IQ1_S", 256, 50, "iq1_s"),
    20: GgmlType("IQ4_NL", 32, 18, "iq4_nl"),
    21: GgmlType("IQ3_S", 256, 110, "iq3_s"),
    22: GgmlType("IQ2_S", 256, 82, "iq2_m"),
    23: GgmlType("IQ4_XS", 256, 136, "iq4_xs"),
    24: GgmlType("I8", 1, 1),
    25: GgmlType("I16", 1, 2),
    26: GgmlType("I32", 1, 4),
    27: GgmlType("I64", 1, 8),
    28: GgmlType("F64", 1, 8),
    29: GgmlType("IQ1_M", 256, 56, "iq1_m"),
    30: GgmlType("BF16", 1, 2, "gguf-f16"),
    34: GgmlType("TQ1_0", 256, 54),
    35: GgmlType("TQ2_0", 256, 66),
    39: GgmlType("MXFP4", 32, 17, "gguf-mxfp4"),
    40: GgmlType("NVFP4", 64, 36),
    41: GgmlType("Q1_0", 128, 18),
}

FILE_TYPES: dict[int, str] = {
    0: "fp32",
    1: "gguf-f16",
    2: "q4_0",
    3: "q4_1",
    7: "q8_0",
    8: "q5_0",
    9: "q5_1",
    10: "q2_k",
    11: "q3_k_s",
    12: "q3_k_m",
    13: "q3_k_l",
    14: "q4_k_s",
    15: "q4_k_m",
    16: "q5_k_s",
    17: "q5_k_m",
    18: "q6_k",
    19: "iq2_xxs",
    20: "iq2_xs",
    21: "q2_k_s",
    23: "iq3_xxs",
    24: "iq1_s",
    25: "iq4_nl",
    26: "iq3_s",
    27: "iq3_m",
    28: "iq2_s",
    29: "iq2_m",
    30: "iq4_xs",
    31: "iq1_m",
    32: "gguf-f16",
    38: "gguf-mxfp4",
}
"""``general.file_type`` to a format record's id."""

GUESSED = 1024
"""Set in a file type that the quantizer guessed."""
