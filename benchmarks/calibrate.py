"""Fit the engine's constants on measured cases and write them down with where they come from.

``python -m benchmarks.calibrate CASES`` reads ``inference_memory.jsonl`` and ``local_memory.jsonl``
of a folder, prints each fit and, with ``--write``, renews the engine's constants file.

A constant is the 5th, 50th and 95th percentile of what rows of quality A and B show of it. Rows of
one origin weigh one together up to the square root of their number, so that a long series of
one machine does not decide. What a row is held against are the engine's own formulas.

Each origin in turn is left out of the fit, and it is counted how often the interval of the KV
cache's memory then holds for it; the excess is stretched until it does as often as aimed at.
"""

import argparse
import math
import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tonnage.catalog.release import Release
from tonnage.catalog.seed import seed_release
from tonnage.engine import calibration
from tonnage.engine.eras import VllmEra
from tonnage.engine.errors import EngineError
from tonnage.engine.flags import VllmFlags
from tonnage.engine.memory.loaded import loaded
from tonnage.engine.memory.runtimes.llama_cpp_compute import compute_bytes
from tonnage.engine.memory.runtimes.llama_cpp_terms import backend
from tonnage.engine.memory.runtimes.shared import usable
from tonnage.engine.memory.runtimes.vllm_activations import (
    activation_class,
    encoder_peak_bytes,
    encoder_vectors,
    graph_class,
    peak_bytes,
)
from tonnage.engine.memory.runtimes.vllm_terms import usual_overhead
from tonnage.engine.memory.runtimes.vllm_weights import weights_of_stages
from tonnage.engine.values import GIB, MIB
from tonnage.evaluation import inference_setup, local_setup
from tonnage.evaluation.architectures import Known
from tonnage.evaluation.beside import architectures_beside
from tonnage.evaluation.inference import evaluate_inference
from tonnage.evaluation.inference_setup import Setting
from tonnage.evaluation.local_buffers import total_of_buffers
from tonnage.evaluation.local_weights import NoSizeError
from tonnage.evaluation.rows import InferenceRow, LocalRow, read_rows
from tonnage.plans.errors import UnknownName

CONSTANTS = Path(__file__).parent.parent / "service/tonnage/engine/calibration.py"
SHARES = (0.05, 0.5, 0.95)
LEAST_ORIGINS = 2
"""What a single origin shows may be its machine's habit: the assumption stays then."""
INTERVAL = "available_kv_share_of_device"
AIM = 0.86
"""Of held-out observations within their interval. Nine in ten are wanted, 85 % are accepted, and a
wider stretch costs every answer its sharpness for a few outliers whose causes are named."""
WIDENINGS = (1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0)
SETTLING_ROUNDS = 3
"""Constants that others are measured against settle first."""

_FREE_BEFORE_LOAD = re.compile(r"free (\d+\.\d+) ->")

ASSUMED = {
    "TENSORRT_LLM_OVERHEAD_BYTES": (500 * MIB, 1000 * MIB, 4000 * MIB),
    "TGI_OVERHEAD_BYTES": (500 * MIB, 1000 * MIB, 6000 * MIB),
    "TRANSFORMERS_CONTEXT_BYTES": (300 * MIB, 500 * MIB, 900 * MIB),
    "TRANSFORMERS_ALLOCATOR_RATIO": (1.0, 1.04, 1.12),
    "MLX_STEP_RATIO": (1.0, 1.1, 1.5),
    "EXLLAMA_WORKING_RATIO": (0.5, 1.0, 1.5),
}
"""No case measures these. A CUDA context with PyTorch's kernels is commonly reported as 0.3-0.9
GiB, and a caching allocator's rounding as a few per cent; both are assumptions. What mlx-lm holds
of a prompt's step is one to one and a half of its largest tensors in its BENCHMARKS.md; ExLlama's
buffers are known from its source alone."""


ASSUMED_KINDS: dict[str, dict[str, tuple[float, float, float]]] = {
    "VLLM_GRAPH_BYTES": {"rocm": (0, 512 * MIB, 4178 * MIB)},
    "SGLANG_OVERHEAD_BYTES": {
        "one_rank": (200 * MIB, 450 * MIB, 900 * MIB),
        "many_ranks": (300 * MIB, 900 * MIB, 2400 * MIB),
    },
    "LLAMA_CPP_CONTEXT_BYTES": {
        "cuda": (400 * MIB, 850 * MIB, 930 * MIB),
        "metal": (0, 64 * MIB, 512 * MIB),
        "rocm": (0, 200 * MIB, 600 * MIB),
        "vulkan": (50 * MIB, 350 * MIB, 900 * MIB),
        "other": (0, 500 * MIB, 1024 * MIB),
    },
}
"""For classes that rows of one origin or none measure. HIP graphs: one RX 9070 XT with 4.08 GiB
is the only published figure. CUDA: 0.8-0.9 GiB beside the buffers on a
granite-8b and an RTX 5090 (ggml-org/llama.cpp issues); Metal counts buffers against the working set
alone. HIP and Vulkan: 20-410 and 50-570 MiB beside the buffers on one Strix Halo
(lhl/strix-halo-testing), 830-890 MiB under Vulkan on an RTX 5090. The rest is an assumption
between those."""

PLAUSIBLE_CONTEXT_BYTES = (150 * MIB, 1536 * MIB)
"""What a measured total leaves outside of this is no backend's context (an empty CUDA process takes
150-500 MiB) but something of the setup that its row does not say."""


class Sample(NamedTuple):
    constant: str
    value: float
    origin: str


class Fit(NamedTuple):
    values: tuple[float, float, float]
    rows: int
    origins: int


class Case(NamedTuple):
    """A row of vLLM with its setting, for the hold-out."""

    row: InferenceRow
    origin: str


def origin_of(source: str | None) -> str:
    """Whose machine a row is from: a thread's reporter, or ``github.com/owner/name``, or a host."""
    text = re.sub(r"^https?://", "", source or "not stated")
    parts = re.split(r"[/@ #]", text)
    if parts[0] != "github.com":
        return parts[0]
    return "/".join(parts[:5] if parts[3:4] in (["issues"], ["pull"]) else parts[:3])


def server_samples(cases: Iterable[Case], release: Release, known: Known) -> list[Sample]:
    found: list[Sample] = []
    for row, origin in cases:
        setting = setting_of(row, release, known)
        if setting is None or not (setting.version_known and setting.device_known):
            continue
        values = _vllm_values if row.engine == "vllm" else _sglang_values
        found += [Sample(name, value, origin) for name, value in values(row, setting)]
    return found


def setting_of(row: InferenceRow, release: Release, known: Known) -> Setting | None:
    model = known.named(row.model, row.base_model)
    if model is None or inference_setup.refusal(row):
        return None
    try:
        record = known.record(row.model, row.base_model)
        return inference_setup.setting_of(row, release, model, record)
    except (EngineError, UnknownName, msgspec.ValidationError):
        return None


def _vllm_values(row: InferenceRow, setting: Setting) -> list[tuple[str, float]]:
    observed, case = row.observed, setting.case
    assert setting.limits is not None
    many = case.parallel.tensor * case.parallel.pipeline > 1
    overhead = f"VLLM_OVERHEAD_BYTES_{'MANY_RANKS' if many else 'ONE_RANK'}"
    found: list[tuple[str, float]] = []
    if observed.non_torch_gib is not None:
        found.append((overhead, max(observed.non_torch_gib, 0) * GIB))
    graphs = _graphs(row, setting)
    if graphs is not None:
        found.append((f"VLLM_GRAPH_BYTES.{graph_class(case)}", graphs * GIB))
    rest = _left_for_activations(row, setting)
    if rest is not None:
        assert isinstance(case.era, VllmEra)
        assert isinstance(case.flags, VllmFlags)
        kind = activation_class(case)
        device = usable(case.accelerator).expected_bytes
        formula = peak_bytes(case, case.era, case.flags, setting.limits)
        encoder = encoder_peak_bytes(case, case.flags, setting.limits)
        if encoder and encoder == formula and kind == "encoder":
            vectors = encoder_vectors(case, case.flags, setting.limits)
            found.append(("VLLM_ENCODER_VECTORS", max(rest, 0) * GIB / vectors))
        if not case.accelerator.unified_memory:
            found.append((f"{EXCESS}.{kind}", (rest * GIB - formula) / device))
    return found


def _sglang_values(row: InferenceRow, setting: Setting) -> list[tuple[str, float]]:
    """What a load takes beside its weights, and what a device had lost before it, from "free 78.94
    -> 30.65" in a log."""
    case, found = setting.case, []
    if row.engine != "sglang" or case.accelerator.unified_memory:
        return []
    load = row.observed.weights_gib_per_gpu
    if load is not None and case.parallel.data == 1:
        tensor = case.parallel.tensor
        parts = max(amount.expected for amount in loaded(case, tensor, tensor))
        found.append(("SGLANG_LOAD_BYTES", load * GIB - parts))
    seen = _FREE_BEFORE_LOAD.search(row.note or "")
    if seen is None:
        return found
    many = case.parallel.tensor * case.parallel.pipeline > 1
    lost = usable(case.accelerator).expected_bytes - float(seen.group(1)) * GIB
    found.append((f"SGLANG_OVERHEAD_BYTES.{'many_ranks' if many else 'one_rank'}", max(lost, 0)))
    return found


def _graphs(row: InferenceRow, setting: Setting) -> float | None:
    """What the version takes from its budget: the graphs, or from 0.20 on their estimate."""
    observed = row.observed
    if row.setup.enforce_eager:
        return None
    assert isinstance(setting.case.era, VllmEra)
    if setting.case.era.cuda_graphs == "subtracted":
        return observed.cudagraph_estimated_gib
    return None if observed.cudagraph_gib is None else max(observed.cudagraph_gib, 0)


def _left_for_activations(row: InferenceRow, setting: Setting) -> float | None:
    """What budget, weights and cache leave for the profiled peak and all that is not known, GiB."""
    observed, case = row.observed, setting.case
    if observed.available_kv_gib_per_gpu is None or setting.unstated_draft:
        return None
    assert isinstance(case.era, VllmEra)
    usable = case.accelerator.usable_memory
    encoder = activation_class(case) == "encoder"
    assert isinstance(case.flags, VllmFlags)
    utilization = case.flags.gpu_memory_utilization or case.era.gpu_memory_utilization
    if usable is None or (case.accelerator.unified_memory and not encoder):
        return None
    predicted = max(weights_of_stages(case), key=lambda weights: weights.expected)
    weights = observed.weights_gib_per_gpu
    if weights is None:
        if predicted.low != predicted.high:
            return None
        weights = predicted.expected / GIB
    rest = usable.expected_bytes * utilization / GIB - weights - observed.available_kv_gib_per_gpu
    if case.era.cuda_graphs == "subtracted" and not row.setup.enforce_eager:
        rest -= calibration.VLLM_GRAPH_BYTES[graph_class(case)][1] / GIB
    return rest - usual_overhead(case)[1] / GIB


def llama_cpp_samples(rows: list[dict[str, Any]], release: Release, known: Known) -> list[Sample]:
    found = []
    for plain in rows:
        row = msgspec.convert(plain, LocalRow)
        model = known.of_file(row.model, row.arch)
        if model is None or local_setup.refusal(row) or row.setup.n_ctx is None:
            continue
        try:
            setting = local_setup.setting_of(row, release, model)
        except (NoSizeError, EngineError, UnknownName, msgspec.ValidationError):
            continue
        values = _llama_cpp_values(plain, row, setting)
        origin = origin_of(row.source)
        found += [Sample(name, value, origin) for name, value in values]
    return found


def _llama_cpp_values(
    plain: dict[str, Any], row: LocalRow, setting: local_setup.Setting
) -> list[tuple[str, float]]:
    """A compute buffer against its formula, device by device; a context by what is left over."""
    found: list[tuple[str, float]] = []
    case, observed = setting.case, row.observed
    known = setting.compute_known and not setting.overrides
    if not known or observed.outcome not in ("fits", "cpu_only"):
        return found
    buffers = (plain.get("extra") or {}).get("compute_per_device") or {}
    largest = max(buffers.values(), default=observed.compute_mib if case.count == 1 else None)
    if largest:
        tokens = case.workload.context_tokens * case.workload.concurrent_sequences
        found.append(("LLAMA_CPP_COMPUTE_RATIO", largest * MIB / compute_bytes(case, tokens)))
    measured = re.search(r"(?i)measured|total VRAM|nvidia-smi", row.note or "")
    if measured and observed.required_mib and case.count == 1:
        left = observed.required_mib * MIB - total_of_buffers(case, measured=True).expected
        if PLAUSIBLE_CONTEXT_BYTES[0] <= left <= PLAUSIBLE_CONTEXT_BYTES[1]:
            found.append((f"LLAMA_CPP_CONTEXT_BYTES.{backend(case)}", left))
    return found


def fit(samples: list[Sample], widening: float = 1.0) -> dict[str, Fit]:
    """``widening`` stretches the excess around its median, as the hold-out asks for."""
    found = _fits(samples)
    for name, plain in found.items():
        if name.startswith(EXCESS):
            low, middle, high = plain.values
            wide = (middle - widening * (middle - low), middle, middle + widening * (high - middle))
            found[name] = plain._replace(values=wide)
    return found


def _fits(samples: list[Sample]) -> dict[str, Fit]:
    by_constant: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_constant[sample.constant].append(sample)
    return {
        name: _fit(found)
        for name, found in by_constant.items()
        if len({sample.origin for sample in found}) >= LEAST_ORIGINS
    }


def _fit(samples: list[Sample]) -> Fit:
    sizes: dict[str, int] = defaultdict(int)
    for sample in samples:
        sizes[sample.origin] += 1
    weighted = sorted((s.value, 1 / math.sqrt(sizes[s.origin])) for s in samples)
    low, middle, high = (_percentile(weighted, share) for share in SHARES)
    return Fit((low, middle, high), len(samples), len(sizes))


def _percentile(weighted: list[tuple[float, float]], share: float) -> float:
    """Each value stands in the middle of its own weight; linear in between."""
    whole = sum(weight for _, weight in weighted)
    before, places = 0.0, []
    for value, weight in weighted:
        places.append((value, (before + weight / 2) / whole))
        before += weight
    for (left, start), (right, end) in pairwise(places):
        if start <= share <= end:
            return left + (right - left) * (share - start) / (end - start)
    return places[0][0] if share < places[0][1] else places[-1][0]


def apply(fits: dict[str, Fit]) -> None:
    """Put the fitted values where the engine reads them, for the rest of this process."""
    for name, found in fits.items():
        constant, dot, kind = name.partition(".")
        if dot:
            getattr(calibration, constant)[kind] = found.values
        else:
            setattr(calibration, constant, found.values)


def hold_out(
    cases: list[Case], release: Release, known: Known, widening: float
) -> tuple[int, int, list[str]]:
    """How many observations lie in the interval that was fitted without their origin."""
    samples = server_samples(cases, release, known)
    kept = fit(samples, widening)
    covered, missed = [], []
    for origin in sorted({case.origin for case in cases}):
        others = [sample for sample in samples if sample.origin != origin]
        apply(fit(others, widening))
        for case in cases:
            if case.origin != origin or case.row.engine != "vllm":
                continue
            for found in evaluate_inference(case.row, release, known).predictions:
                if found.quantity == INTERVAL:
                    covered.append(found.covered)
                    missed += [] if found.covered else [case.row.id]
    apply(kept)
    return sum(covered), len(covered), missed


def widening_for_aim(cases: list[Case], release: Release, known: Known) -> float:
    """By how much the excess must be stretched for the interval to hold for unseen origins."""
    for widening in WIDENINGS:
        covered, whole, missed = hold_out(cases, release, known, widening)
        print(f"widened {widening}: {covered} of {whole} held out are within; not {missed}")
        if covered >= AIM * whole:
            break
    return widening


def text_of(fits: dict[str, Fit], widening: float) -> str:
    lines = [
        '"""Constants fitted on measured cases. Generated by benchmarks/calibrate.py: do not edit.',
        "",
        "Each is the 5th percentile, the median and the 95th percentile of what was measured, or",
        "an assumption where nothing was. Rows are published server logs, reports and measurements",
        f"of quality A and B. The excess is stretched {widening} times around its median, so that",
        f"{AIM:.0%} of the rows of an origin that is left out lie within.",
        '"""',
        "",
        "Spread = tuple[float, float, float]",
        "ByteSpread = tuple[int, int, int]",
    ]
    for constant in CONSTANTS_IN_ORDER:
        own = {name: found for name, found in fits.items() if name.split(".")[0] == constant}
        if constant in own:
            found = own[constant]
            lines += ["", f"# {_basis(found)}", f"{constant} = {_values(found.values)}"]
            continue
        kind_of_spread = "ByteSpread" if "BYTES" in constant else "Spread"
        lines += ["", f"{constant}: dict[str, {kind_of_spread}] = {{"]
        for name, found in own.items():
            lines.append(f'    "{name.split(".")[1]}": {_values(found.values)},  # {_basis(found)}')
        for kind, values in ASSUMED_KINDS.get(constant, {}).items():
            if f"{constant}.{kind}" not in own:
                lines.append(f'    "{kind}": {_values(values)},  # assumed')
        lines.append("}")
    lines += ["", "# assumed, not measured"]
    lines += [f"{name} = {_values(values)}" for name, values in ASSUMED.items()]
    return "\n".join(lines) + "\n"


def _basis(found: Fit) -> str:
    where = "origin" if found.origins == 1 else "origins"
    return f"{found.rows} rows of {found.origins} {where}"


def _values(values: tuple[float, float, float]) -> str:
    if max(map(abs, values)) > MIB:
        return f"({', '.join(f'{round(v / MIB)} * 2**20' for v in values)})"
    return f"({', '.join(f'{v:.4g}' for v in values)})"


EXCESS = "VLLM_ACTIVATION_EXCESS_OF_DEVICE"
CONSTANTS_IN_ORDER = (
    EXCESS,
    "VLLM_ENCODER_VECTORS",
    "VLLM_OVERHEAD_BYTES_ONE_RANK",
    "VLLM_OVERHEAD_BYTES_MANY_RANKS",
    "VLLM_GRAPH_BYTES",
    "SGLANG_LOAD_BYTES",
    "SGLANG_OVERHEAD_BYTES",
    "LLAMA_CPP_CONTEXT_BYTES",
    "LLAMA_CPP_COMPUTE_RATIO",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", type=Path, help="the folder of the case files")
    parser.add_argument("--write", action="store_true", help="renew the engine's constants")
    arguments = parser.parse_args()
    inference = arguments.cases / "inference_memory.jsonl"
    release = seed_release()
    known = Known(release, architectures_beside(inference))
    rows = [msgspec.convert(row, InferenceRow) for row in read_rows(inference)]
    cases = [Case(row, origin_of(row.source)) for row in rows]
    local = read_rows(arguments.cases / "local_memory.jsonl")
    for _ in range(SETTLING_ROUNDS):
        first = fit(server_samples(cases, release, known))
        apply({name: found for name, found in first.items() if not name.startswith(EXCESS)})
    widening = widening_for_aim(cases, release, known)
    samples = [*server_samples(cases, release, known), *llama_cpp_samples(local, release, known)]
    text = text_of(fit(samples, widening), widening)
    print(text)
    if arguments.write:
        CONSTANTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
