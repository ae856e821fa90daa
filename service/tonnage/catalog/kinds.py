"""The kinds of catalog records: what each must say, with what sources.

A record is an envelope (id, name, aliases, sources) around facts; where the facts are what the
engine computes with, they are the engine's own values.
"""

from typing import Annotated, Literal

import msgspec

from tonnage.engine.eras import Era
from tonnage.engine.hardware import (
    Capability,
    DenseRates,
    PerSecond,
    Stack,
    UsableMemory,
)
from tonnage.engine.model import ModelArchitecture, ModelPart
from tonnage.engine.precision import CacheEncoding, WeightEncoding
from tonnage.engine.runtime import Accounting, DataFlow, FormatSupport, Message, StackSupport
from tonnage.engine.values import Bytes, Count, ParameterCount

Kind = Literal[
    "models",
    "accelerators",
    "machines",
    "links",
    "offers",
    "hosted-apis",
    "runtimes",
    "formats",
    "sites",
]

RecordId = Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$(?!\n)"),
]
Line = Annotated[str, msgspec.Meta(min_length=1, max_length=400)]
Prose = Annotated[str, msgspec.Meta(min_length=1, max_length=4000)]
Url = Annotated[str, msgspec.Meta(pattern=r"^https?://[!-~]+$(?!\n)", max_length=1000)]
UsDollars = Annotated[float, msgspec.Meta(ge=0, le=10**9)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=10**15)]
Ratio = Annotated[float, msgspec.Meta(ge=0, le=1000)]


class Source(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Where a fact was read; ``date`` is as precise as the source allows: 2026, 2026-08-22."""

    title: Prose
    url: Url | None = None
    date: Line | None = None
    fact: Line | None = None
    """Which fact of the record it supports, when not all."""


class Record(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What every kind has."""

    id: RecordId
    name: Line
    aliases: Annotated[tuple[Line, ...], msgspec.Meta(max_length=60)] = ()
    """Other names that resolve to this record; case and punctuation do not matter."""
    default_for: Annotated[tuple[Line, ...], msgspec.Meta(max_length=20)] = ()
    """Ambiguous names whose documented default this record is (``H100`` for the SXM part)."""
    sources: Annotated[tuple[Source, ...], msgspec.Meta(min_length=1, max_length=40)]
    note: Prose | None = None


class ModelRecord(Record, tag="models", tag_field="kind", frozen=True, kw_only=True):
    family: Line
    vendor: Line
    type: Literal[
        "decoder",
        "multimodal_decoder",
        "embedding",
        "reranker",
        "encoder",
        "encoder_decoder",
        "speech_to_text",
        "image_text",
        "image_generation",
        "other",
    ]
    model_type: Line | None = None
    """transformers' name of the architecture."""
    architecture: ModelArchitecture | None = None
    """None for models that are listed and that the engine cannot price yet; the note says why."""
    checkpoint_format: RecordId
    """The number format that the published checkpoint is stored in."""
    checkpoint_encoding: WeightEncoding | None = None
    """What this checkpoint stores its parts in, where that is known to differ from the format's
    usual recipe."""
    components: Annotated[dict[Line, ParameterCount], msgspec.Meta(max_length=20)] = {}
    """Parameters of the parts of an image or video generator, by name."""
    published_parameters: ParameterCount | None = None
    active_parameters: ParameterCount | None = None
    licence: Line | None = None
    released: Line | None = None
    quantized_variants: Annotated[dict[Line, tuple[Line, ...]], msgspec.Meta(max_length=40)] = {}


class Slice(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A MIG or like profile of an accelerator."""

    profile: Line
    memory_bytes: Bytes
    most_per_device: Count
    compute_share: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None


class AcceleratorRecord(Record, tag="accelerators", tag_field="kind", frozen=True, kw_only=True):
    vendor: Line
    family: Line
    chip: Line | None = None
    """The architecture's name: Hopper, CDNA 3."""
    form_factor: Line | None = None
    marketed_memory_bytes: Bytes
    driver_total_bytes: Bytes | None = None
    usable_memory: UsableMemory
    memory_type: Line | None = None
    memory_bandwidth_bytes_per_second: PerSecond | None = None
    dense_operations_per_second: DenseRates = DenseRates()
    rates_note: Prose | None = None
    stacks: tuple[Stack, ...] = ()
    compute_capability: Capability | None = None
    gfx_target: Line | None = None
    unified_memory: bool = False
    power_watts: Count | None = None
    scale_up_link: RecordId | None = None
    """The link to its neighbours (NVLink, Infinity Fabric); a record of kind ``links``."""
    host_link: RecordId | None = None
    slices: tuple[Slice, ...] = ()
    launched: Line | None = None
    list_price_usd: UsDollars | None = None
    price_note: Prose | None = None


class Measurement(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    test: Line
    bus_bandwidth_bytes_per_second: PerSecond
    sources: tuple[Source, ...]


class LinkRecord(Record, tag="links", tag_field="kind", frozen=True, kw_only=True):
    type: Literal["scale_up", "scale_up_domain", "scale_out", "pcie", "cpu_accelerator"]
    bytes_per_second_each_direction: PerSecond | None = None
    """Per accelerator."""
    domain_accelerators: Count | None = None
    latency_seconds: Positive | None = None
    latency_measured: bool = False
    measured: tuple[Measurement, ...] = ()
    used_by: tuple[Line, ...] = ()


class MachineRecord(Record, tag="machines", tag_field="kind", frozen=True, kw_only=True):
    """A server or cloud instance type: a shape, without a price (see OfferRecord)."""

    provider: Line
    instance_type: Line
    accelerator: RecordId
    accelerator_count: Count
    accelerator_share: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    """Set where the machine has a part of one accelerator."""
    accelerator_memory_bytes: Bytes | None = None
    """What the machine's provider says of each; the accelerator's record rules where both are."""
    processors: Count | None = None
    host_memory_bytes: Bytes | None = None
    local_storage_bytes: Bytes | None = None
    network_bits_per_second: PerSecond | None = None
    interconnect: Line | None = None


class OfferRecord(Record, tag="offers", tag_field="kind", frozen=True, kw_only=True):
    """A price for a machine (or for one accelerator of it) in a region, on a term."""

    provider: Line
    machine: RecordId | None = None
    accelerator: RecordId | None = None
    accelerator_count: Count | None = None
    region: Line | None = None
    term: Literal["on_demand", "spot", "reserved"]
    term_months: Count | None = None
    usd_per_hour: UsDollars | None = None
    discount_low: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    discount_high: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    """For published discounts that name no price."""
    price_date: Line | None = None


class HostedApiRecord(Record, tag="hosted-apis", tag_field="kind", frozen=True, kw_only=True):
    """US dollars per million tokens."""

    provider: Line
    model: Line
    catalog_model: RecordId | None = None
    open_weights: bool | None = None
    mode: Literal["chat", "completion", "embedding", "rerank"]
    input_usd: UsDollars
    output_usd: UsDollars | None = None
    cached_input_usd: UsDollars | None = None
    cache_write_usd: UsDollars | None = None
    batch_input_usd: UsDollars | None = None
    batch_output_usd: UsDollars | None = None
    context_tokens: Count | None = None
    longest_output_tokens: Count | None = None
    price_date: Line


class RuntimeRecord(Record, tag="runtimes", tag_field="kind", frozen=True, kw_only=True):
    purposes: tuple[Literal["inference", "fine-tuning", "training", "other"], ...]
    licence: Line | None = None
    accounting: Accounting | None = None
    default_version: Line | None = None
    eras: tuple[Era, ...] = ()
    stacks: tuple[StackSupport, ...] = ()
    least_compute_capability: Capability | None = None
    gfx_targets: tuple[Line, ...] = ()
    version_style: Literal["numbers", "builds"] = "numbers"
    operating_systems: tuple[Line, ...] = ()
    formats: tuple[FormatSupport, ...] = ()
    quantization: tuple[Line, ...] = ()
    """Schemes as the project's documents name them."""
    parallelism: tuple[Line, ...] = ()
    data_flows: tuple[DataFlow, ...] = ()
    model_parts: tuple[ModelPart, ...] = ()
    messages: tuple[Message, ...] = ()


class FormatRecord(Record, tag="formats", tag_field="kind", frozen=True, kw_only=True):
    family: Literal["float", "integer", "gguf", "exl", "mlx"]
    weights: WeightEncoding | None = None
    cache: CacheEncoding | None = None
    hardware: Annotated[dict[Line, Prose], msgspec.Meta(max_length=20)] = {}
    """In words, by vendor: where it is native."""


class SiteFact(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One published figure; ``low`` and ``high`` are equal where one value was published."""

    what: Prose
    low: float
    high: float
    unit: Line
    as_of: Line | None = None
    region: Line | None = None
    note: Prose | None = None
    sources: Annotated[tuple[Source, ...], msgspec.Meta(min_length=1)]


class SiteRecord(Record, tag="sites", tag_field="kind", frozen=True, kw_only=True):
    """Facts about owning: electricity, PUE, colocation, staff, capital, by topic or region."""

    topic: Literal[
        "electricity",
        "pue",
        "colocation",
        "staff",
        "cost_of_capital",
        "depreciation",
        "residual_value",
        "maintenance",
        "cooling",
        "server_price",
        "system_power",
        "cost_split",
        "model_example",
        "defaults",
    ]
    region: Line | None = None
    accelerator: RecordId | None = None
    facts: Annotated[tuple[SiteFact, ...], msgspec.Meta(min_length=1)]


AnyRecord = (
    ModelRecord
    | AcceleratorRecord
    | MachineRecord
    | LinkRecord
    | OfferRecord
    | HostedApiRecord
    | RuntimeRecord
    | FormatRecord
    | SiteRecord
)

RECORD_TYPES: dict[Kind, type[AnyRecord]] = {
    "models": ModelRecord,
    "accelerators": AcceleratorRecord,
    "machines": MachineRecord,
    "links": LinkRecord,
    "offers": OfferRecord,
    "hosted-apis": HostedApiRecord,
    "runtimes": RuntimeRecord,
    "formats": FormatRecord,
    "sites": SiteRecord,
}
