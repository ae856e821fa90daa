"""Do records of hardware, prices, runtimes and sites hold up?"""

import re
from collections.abc import Callable, Iterable
from typing import Any

from tonnage.catalog.kinds import (
    AcceleratorRecord,
    AnyRecord,
    HostedApiRecord,
    Kind,
    LinkRecord,
    MachineRecord,
    OfferRecord,
    RuntimeRecord,
    SiteRecord,
    Source,
)
from tonnage.engine.version import parse_version

from .bounds import (
    BANDWIDTH_GB_S,
    BF16_WITHOUT_FP16_CHIPS,
    DEAREST_SHARE_FACTOR,
    FP8_BLOCK_SCALED_CHIPS,
    FP8_OF_BLOCK_SCALED,
    GIGA,
    HOURLY_BANDS,
    LPDDR_GB_S,
    MOST_PER_WATT,
    MOST_USD_PER_MILLION_TOKENS,
    RATE_RATIOS,
)

Lookup = Callable[[Kind, str], AnyRecord | None]

_DATE = re.compile(r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?")


def review_accelerator(record: AcceleratorRecord, lookup: Lookup) -> list[str]:
    findings = _sources(record.sources)
    usable = record.usable_memory
    if not usable.low_bytes <= usable.expected_bytes <= usable.high_bytes:
        findings.append("usable_memory is not in order: low, expected, high")
    total = record.driver_total_bytes or record.marketed_memory_bytes
    if usable.high_bytes > total:
        findings.append("usable_memory is more than the driver's total")
    if total > record.marketed_memory_bytes:
        findings.append("driver_total_bytes is more than marketed_memory_bytes")
    if usable.low_bytes < record.marketed_memory_bytes * (0.45 if record.unified_memory else 0.8):
        findings.append("usable_memory is too small a part of the marketed memory")
    for piece in record.slices:
        if piece.memory_bytes * piece.most_per_device > record.marketed_memory_bytes * 1.03:
            findings.append(f"slice {piece.profile} holds more than the device")
    if record.compute_capability is not None and "cuda" not in record.stacks:
        findings.append("compute_capability is NVIDIA's, yet the stacks have no cuda")
    if record.gfx_target is not None and not re.fullmatch(r"gfx[0-9a-f]{3,4}", record.gfx_target):
        findings.append(f"gfx_target {record.gfx_target!r} is not written like gfx942")
    findings += _bandwidth(record) + _rates(record)
    for link in (record.scale_up_link, record.host_link):
        findings += _reference("links", link, lookup)
    return findings


def _bandwidth(record: AcceleratorRecord) -> list[str]:
    rate = record.memory_bandwidth_bytes_per_second
    if rate is None or record.memory_type is None:
        return []
    kind = re.split(r"[- ]", record.memory_type)[0]
    band = LPDDR_GB_S if kind.startswith(("LPDDR", "DDR")) else BANDWIDTH_GB_S.get(kind)
    if band is None:
        return [f"memory_type {record.memory_type!r} is not known"]
    if not band[0] <= rate / GIGA <= band[1]:
        return [f"{rate / GIGA:g} GB/s is no bandwidth of {kind}"]
    return []


def _rates(record: AcceleratorRecord) -> list[str]:
    rates = record.dense_operations_per_second
    findings = []
    for name, base, most in RATE_RATIOS:
        rate, beside = getattr(rates, name), getattr(rates, base)
        if name == "fp8" and record.chip in FP8_BLOCK_SCALED_CHIPS:
            most = FP8_OF_BLOCK_SCALED
        if name == "bf16" and record.chip in BF16_WITHOUT_FP16_CHIPS:
            continue
        if beside is not None:
            beside = max(beside, rates.fp32 or 0)  # Pascal's FP16 is slower than its FP32.
        if rate is not None and beside is not None and rate > beside * most:
            findings.append(f"{name} is {rate / beside:.1f} times {base}: a sparse figure?")
    for name, most in MOST_PER_WATT.items():
        rate = getattr(rates, name)
        if rate is not None and record.power_watts and rate / record.power_watts > most:
            findings.append(f"{name} per watt is more than any part reaches: a sparse figure?")
    return findings


def review_link(record: LinkRecord, _lookup: Lookup) -> list[str]:
    findings = _sources(record.sources)
    rate = record.bytes_per_second_each_direction
    if rate is None or not GIGA <= rate <= 3000 * GIGA:
        findings.append("a link carries between 1 and 3,000 GB/s each way")
    if record.latency_seconds is not None and not 1e-7 <= record.latency_seconds <= 1e-3:
        findings.append("latency lies between 0.1 microseconds and a millisecond")
    for measured in record.measured:
        findings += _sources(measured.sources)
        # Across nodes the scale-up links carry most of a ring, so bus bandwidth exceeds the NIC's.
        most = 8 if record.type == "scale_out" else 1.15
        if rate and measured.bus_bandwidth_bytes_per_second > rate * most:
            findings.append(f"{measured.test}: more than the link carries")
    return findings


def review_machine(record: MachineRecord, lookup: Lookup) -> list[str]:
    findings = _sources(record.sources) + _reference("accelerators", record.accelerator, lookup)
    if record.accelerator_share is not None and record.accelerator_count != 1:
        findings.append("a share is of one accelerator")
    accelerator = lookup("accelerators", record.accelerator)
    stated = record.accelerator_memory_bytes
    if isinstance(accelerator, AcceleratorRecord) and stated is not None:
        label = accelerator.marketed_memory_bytes * (record.accelerator_share or 1)
        if not 0.85 <= stated / label <= 1.1:
            findings.append("accelerator_memory_bytes is not that of its accelerator")
    if record.host_memory_bytes and not 2**30 <= record.host_memory_bytes <= 32 * 2**40:
        findings.append("host memory lies between 1 GiB and 32 TiB")
    return findings


def review_offer(record: OfferRecord, lookup: Lookup) -> list[str]:
    findings = _sources(record.sources) + _date("price_date", record.price_date)
    findings += _reference("machines", record.machine, lookup)
    findings += _reference("accelerators", record.accelerator, lookup)
    low, high = record.discount_low, record.discount_high
    if (low is None) != (high is None) or (low or 0) > (high or 0):
        findings.append("a discount has a low and a high, in order")
    if record.usd_per_hour is None:
        return findings if high is not None else [*findings, "an offer has a price or a discount"]
    if record.price_date is None:
        findings.append("a price has a date")
    machine = lookup("machines", record.machine) if record.machine else None
    count, share, identity = record.accelerator_count or 1, 1.0, record.accelerator
    if isinstance(machine, MachineRecord):
        count, share = machine.accelerator_count, machine.accelerator_share or 1.0
        identity = machine.accelerator
    accelerator = lookup("accelerators", identity) if identity else None
    if isinstance(accelerator, AcceleratorRecord):
        findings += _hourly(accelerator, record.usd_per_hour / count, share)
    return findings


def _hourly(accelerator: AcceleratorRecord, usd: float, share: float) -> list[str]:
    gigabytes = accelerator.marketed_memory_bytes / GIGA
    for most_memory, least, most in HOURLY_BANDS:
        if gigabytes <= most_memory * 1.08:
            dearest = min(most, most * share * DEAREST_SHARE_FACTOR)
            if least * share <= usd <= dearest:
                return []
            return [f"${usd:.2f} an hour is implausible for one {accelerator.name}"]
    return []


def review_hosted_api(record: HostedApiRecord, lookup: Lookup) -> list[str]:
    findings = _sources(record.sources) + _date("price_date", record.price_date)
    findings += _reference("models", record.catalog_model, lookup)
    output, cached = record.output_usd, record.cached_input_usd
    if output is None and record.mode in ("chat", "completion"):
        findings.append("a model that writes has an output price")
    if max(record.input_usd, output or 0) > MOST_USD_PER_MILLION_TOKENS:
        findings.append("prices are US dollars per million tokens; this is too dear")
    if cached is not None and cached > record.input_usd:
        findings.append("cached input costs more than input")
    return findings


def review_site(record: SiteRecord, lookup: Lookup) -> list[str]:
    findings = _sources(record.sources) + _reference("accelerators", record.accelerator, lookup)
    for fact in record.facts:
        findings += _sources(fact.sources)
        if fact.low > fact.high:
            findings.append(f"{fact.what}: low is more than high")
        if fact.unit.endswith("/kWh") and not 0.01 <= fact.low <= fact.high <= 1:
            findings.append(f"{fact.what}: not a price of a kilowatt-hour")
        if record.topic == "pue" and not 1 <= fact.low <= fact.high <= 3:
            findings.append(f"{fact.what}: power usage effectiveness lies between 1 and 3")
        if fact.unit.startswith("share") and not 0 <= fact.low <= fact.high <= 1:
            findings.append(f"{fact.what}: a share lies between 0 and 1")
    return findings


def review_runtime(record: RuntimeRecord, lookup: Lookup) -> list[str]:
    findings = _sources(record.sources)
    if not record.stacks:
        findings.append("a runtime names the stacks that it runs on")
    named = {support.stack for support in record.stacks}
    for support in record.formats:
        for stack in set(support.stacks) - named:
            findings.append(f"format {support.format} names {stack}, which stacks does not")
        # "gguf", "exl" and "mlx" stand for families, "kv-fp8" for fp8 as the cache's format.
        if support.format not in ("gguf", "exl", "mlx"):
            findings += _reference("formats", support.format.removeprefix("kv-"), lookup)
    versions = [parse_version(era.since) for era in record.eras]
    if versions != sorted(set(versions)):
        findings.append("eras are not in order, oldest first")
    if (record.accounting is None) != (not record.eras):
        findings.append("accounting and eras come together")
    return findings


def _reference(kind: Kind, record_id: str | None, lookup: Lookup) -> list[str]:
    if record_id is None or lookup(kind, record_id) is not None:
        return []
    return [f"{record_id!r} is not among the {kind}"]


def _sources(sources: Iterable[Source]) -> list[str]:
    found: list[Any] = list(sources)
    if not found:
        return ["a record needs a source"]
    return [line for source in found for line in _date("date of a source", source.date)]


def _date(what: str, date: str | None) -> list[str]:
    if date is None or _DATE.fullmatch(date):
        return []
    return [f"{what} {date!r} is not written like 2026, 2026-08 or 2026-08-22"]
