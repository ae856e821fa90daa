"""Accelerators and machines, as a spec sheet and a driver describe them."""

from typing import Annotated, Literal

import msgspec

from .values import Bytes, Count, ShortText, Value

Stack = Literal[
    "cuda",
    "rocm",
    "metal",
    "vulkan",
    "oneapi",
    "xla",
    "neuron",
    "gaudi",
    "cpu",
    "other",
]

PerSecond = Annotated[int, msgspec.Meta(ge=1, le=10**18)]
Capability = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,2}\.[0-9]$(?!\n)")]


class UsableMemory(Value, frozen=True, kw_only=True):
    """What a runtime sees as the device's total, and budgets from.

    It is less than the driver's total: CUDA reports 79.1-79.2 GiB on an H100 whose ``nvidia-smi``
    total is 79.65 GiB. ``basis`` says whether runtimes printed it or it was derived from the label.
    """

    low_bytes: Bytes
    expected_bytes: Bytes
    high_bytes: Bytes
    basis: Literal["measured", "derived"] = "derived"


class DenseRates(Value, frozen=True, kw_only=True):
    """Peak operations per second without sparsity, by number format."""

    fp32: PerSecond | None = None
    tf32: PerSecond | None = None
    fp16: PerSecond | None = None
    bf16: PerSecond | None = None
    fp8: PerSecond | None = None
    int8: PerSecond | None = None
    fp6: PerSecond | None = None
    fp4: PerSecond | None = None
    fp64: PerSecond | None = None


class Accelerator(Value, frozen=True, kw_only=True, cache_hash=True):
    """One device; a spec sheet sent with a request has the same fields as a catalog record's."""

    name: ShortText
    marketed_memory_bytes: Bytes
    driver_total_bytes: Bytes | None = None
    """The total that ``nvidia-smi`` or its like prints."""
    usable_memory: UsableMemory | None = None
    memory_bandwidth_bytes_per_second: PerSecond | None = None
    dense_operations_per_second: DenseRates = DenseRates()
    stacks: Annotated[tuple[Stack, ...], msgspec.Meta(max_length=10)] = ()
    compute_capability: Capability | None = None
    """NVIDIA's, as 9.0."""
    gfx_target: ShortText | None = None
    """AMD's, as gfx942."""
    unified_memory: bool = False
    """Memory shared with the processor, of which the operating system keeps a part."""
    power_watts: Count | None = None
    scale_up_link: ShortText | None = None
    """How devices of one machine are linked beyond PCIe: NVLink, Infinity Fabric."""

    @property
    def capability(self) -> tuple[int, int] | None:
        if self.compute_capability is None:
            return None
        major, minor = self.compute_capability.split(".")
        return int(major), int(minor)
