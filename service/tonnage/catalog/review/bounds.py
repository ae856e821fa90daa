"""What is plausible for hardware and its prices, and why.

The bounds are wide: they catch a wrong unit, a sparse figure taken for a dense one or a price for
eight taken for one, and do not judge a vendor.
"""

GIGA = 10**9
TERA = 10**12

BANDWIDTH_GB_S: dict[str, tuple[float, float]] = {
    "GDDR5": (80, 500),
    "GDDR6": (90, 1000),
    "GDDR6X": (400, 1100),
    "GDDR7": (250, 2000),
    "HBM2": (600, 1700),
    "HBM2e": (700, 3800),
    "HBM3": (1500, 5500),
    "HBM3e": (4000, 9000),
    "HBM4": (8000, 25000),
}
"""From the slowest board with one stack or a narrow bus to the widest package of the type."""

LPDDR_GB_S = (30.0, 1100.0)
"""From a phone-class bus to the 1,024 bits of an Ultra chip."""

RATE_RATIOS: tuple[tuple[str, str, float], ...] = (
    ("bf16", "fp16", 1.05),
    ("tf32", "bf16", 1.05),
    ("fp8", "bf16", 2.1),
    ("int8", "fp16", 4.1),
    ("fp6", "fp8", 2.1),
    ("fp4", "fp8", 4.1),
)
"""Halving the bits doubles a dense rate, and a figure above that counts sparsity. INT8 and FP4 get
twice more, because GeForce halves the rates that accumulate in FP32, and Blackwell Ultra has
three times the FP4 of its FP8."""

FP8_OF_BLOCK_SCALED = 4.5
FP8_BLOCK_SCALED_CHIPS = frozenset({"NeuronCore-v4", "Rubin"})
"""Chips whose FP8 figure is of a block-scaled format with paths of its own."""

BF16_WITHOUT_FP16_CHIPS = frozenset({"Gaudi 3"})
"""Chips whose BF16 matrix path has no FP16 twin."""

MOST_PER_WATT = {"bf16": 2.6 * TERA, "fp8": 5.2 * TERA, "fp4": 13 * TERA}
"""Slightly above the best of 2025 (B200: 2.25 TFLOPS of BF16 a watt)."""

HOURLY_BANDS: tuple[tuple[int, float, float], ...] = (
    (20, 0.05, 6.0),
    (50, 0.1, 8.0),
    (100, 0.3, 17.0),
    (160, 0.5, 17.0),
    (300, 0.9, 32.0),
)
"""Up to how many GB of memory, and the least and most USD an hour for one accelerator. The least
are spot prices of marketplaces; the most are small shapes with much host memory, and list prices
of large clouds. A price for the whole machine falls outside for eight accelerators."""

DEAREST_SHARE_FACTOR = 3
"""A share of an accelerator may cost this much more than its part of the price: the host is not
shared in the same proportion."""

MOST_USD_PER_MILLION_TOKENS = 1000
