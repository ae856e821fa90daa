"""Fit how much of a device's memory a runtime sees, from totals that runtimes printed.

The pairs are in ``data/usable_memory.jsonl``. ``--write`` renews the engine's constants file;
without it the fits are printed and nothing changes.

CUDA keeps back a fixed part and a share of what ``nvidia-smi`` shows, so its rule is a line; the
interval is the widest that a pair lies from it. Totals printed to a whole GiB are too coarse for
it. Elsewhere the rule is a ratio. Few devices were measured: an interval is the observed range,
not a confidence level. Pairs marked ``free`` are what was free before anything was loaded: they
widen the range downwards and leave the centre alone.
"""

import argparse
import json
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

HERE = Path(__file__).parent
PAIRS = HERE / "data" / "usable_memory.jsonl"
CONSTANTS = HERE.parent / "service/tonnage/engine/usable_memory_constants.py"
APPLE_STEP_GIB = 32
COARSE_STEP_GIB = 0.1


class Pair(NamedTuple):
    device: str
    kind: str
    label: float
    driver: float | None
    runtime: float
    step: float
    free: bool

    @property
    def low(self) -> float:
        return self.runtime - self.step / 2

    @property
    def high(self) -> float:
        return self.runtime + self.step / 2


class Line(NamedTuple):
    """``kept = fixed + share x driver total``, with ``fixed`` as a range."""

    share: float
    least: float
    expected: float
    most: float
    pairs: int
    devices: int


class Ratio(NamedTuple):
    low: float
    expected: float
    high: float
    pairs: int
    devices: int


def read_pairs(path: Path) -> list[Pair]:
    rows: list[dict[str, Any]] = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        Pair(
            row["device"],
            row["class"],
            row["label_gib"],
            row["driver_total_gib"],
            row["runtime_total_gib"],
            row["printed_step_gib"],
            row.get("free", False),
        )
        for row in rows
    ]


def one_per_device(values: list[tuple[str, float]]) -> list[float]:
    """Means by device, so that a device with many logs counts once."""
    devices = {device for device, _ in values}
    return [fmean(value for name, value in values if name == device) for device in sorted(devices)]


def fit_line(pairs: list[Pair]) -> Line:
    points = [
        (pair, pair.driver)
        for pair in pairs
        if pair.driver is not None and pair.step <= COARSE_STEP_GIB
    ]
    totals = one_per_device([(pair.device, driver) for pair, driver in points])
    kept = one_per_device([(pair.device, driver - pair.runtime) for pair, driver in points])
    middle_total, middle_kept = fmean(totals), fmean(kept)
    spread = sum((total - middle_total) ** 2 for total in totals)
    share = (
        sum((t - middle_total) * (k - middle_kept) for t, k in zip(totals, kept, strict=True))
        / spread
    )
    return Line(
        share,
        min(driver - pair.high - share * driver for pair, driver in points),
        middle_kept - share * middle_total,
        max(driver - pair.low - share * driver for pair, driver in points),
        len(points),
        len(totals),
    )


def fit_ratio(pairs: list[Pair], *, of_driver: bool = False) -> Ratio:
    """The observed range, and the median over devices."""
    whole = [
        (pair, pair.driver if of_driver and pair.driver is not None else pair.label)
        for pair in pairs
    ]
    centres = one_per_device(
        [(pair.device, pair.runtime / total) for pair, total in whole if not pair.free]
    )
    return Ratio(
        min(pair.low / total for pair, total in whole),
        median(centres),
        min(1.0, max(pair.high / total for pair, total in whole)),
        len(pairs),
        len(centres),
    )


def driver_of_label(pairs: list[Pair]) -> Ratio:
    known = {pair.device: pair.driver / pair.label for pair in pairs if pair.driver is not None}
    values = list(known.values())
    return Ratio(min(values), median(values), max(values), len(values), len(values))


def fit(pairs: list[Pair]) -> tuple[Line, dict[str, Ratio]]:
    def of(*kinds: str) -> list[Pair]:
        return [pair for pair in pairs if pair.kind in kinds]

    apple = of("apple")
    return fit_line(of("cuda", "cuda_inline_ecc")), {
        "CUDA_DRIVER_OF_LABEL": driver_of_label(of("cuda")),
        "CUDA_INLINE_ECC_DRIVER_OF_LABEL": driver_of_label(of("cuda_inline_ecc")),
        "ROCM_OF_TOTAL": fit_ratio(of("rocm")),
        "DISCRETE_OF_LABEL": fit_ratio(of("cuda", "cuda_inline_ecc", "cuda_whole", "rocm")),
        "APPLE_TO_32_GIB_OF_LABEL": fit_ratio([p for p in apple if p.label <= APPLE_STEP_GIB]),
        "APPLE_ABOVE_32_GIB_OF_LABEL": fit_ratio([p for p in apple if p.label > APPLE_STEP_GIB]),
        "AMD_APU_OF_LABEL": fit_ratio(of("amd_apu")),
        "GB10_OF_LABEL": fit_ratio(of("gb10")),
        "GB10_OF_DRIVER": fit_ratio(of("gb10"), of_driver=True),
    }


def render(line: Line, ratios: dict[str, Ratio]) -> str:
    lines = [
        '"""What runtimes see of a device\'s memory. Made by benchmarks/derive_usable_memory.py.',
        "",
        "CUDA: usable = driver total x (1 - CUDA_KEPT_SHARE) - kept GiB; on Windows none is kept.",
        "Where only the label is known, driver total = label x a DRIVER_OF_LABEL ratio. Inline",
        "ECC: GDDR boards with check bits in the same memory (T4, A10, A10G, L4, L40S, A40).",
        "Elsewhere usable = ratio x total. Ratios are (low, expected, high); DISCRETE_OF_LABEL is",
        "for any vendor.",
        '"""',
        "",
        f"# {line.pairs} pairs of {line.devices} devices",
        f"CUDA_KEPT_SHARE = {line.share:.5f}",
        f"CUDA_KEPT_GIB = ({line.least:.3f}, {line.expected:.3f}, {line.most:.3f})",
        '"""Least, expected, most."""',
        "",
    ]
    for name, ratio in ratios.items():
        lines += [
            f"# {ratio.pairs} pairs of {ratio.devices} device{'s' * (ratio.devices > 1)}",
            f"{name} = ({ratio.low:.4f}, {ratio.expected:.4f}, {ratio.high:.4f})",
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="renew the engine's constants file")
    arguments = parser.parse_args()
    text = render(*fit(read_pairs(PAIRS)))
    if arguments.write:
        CONSTANTS.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
