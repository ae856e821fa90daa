"""How much of a device's memory does a runtime see, when only its spec sheet is known?

The ratios come from devices of which both figures were published; see
``benchmarks/derive_usable_memory.py``. Unified memory leaves the operating system its part.
"""

from tonnage.engine import usable_memory_constants as fitted
from tonnage.engine.hardware import Accelerator, UsableMemory
from tonnage.engine.values import GIB

Ratios = tuple[float, float, float]


def usable_memory(accelerator: Accelerator) -> UsableMemory:
    """Derived from the driver's total where it is known, from the label otherwise."""
    total = accelerator.driver_total_bytes or accelerator.marketed_memory_bytes
    if accelerator.unified_memory:
        return _scaled(total, _unified(accelerator))
    if "cuda" in accelerator.stacks:
        return _cuda(accelerator)
    if "rocm" in accelerator.stacks:
        return _scaled(total, fitted.ROCM_OF_TOTAL)
    return _scaled(total, fitted.DISCRETE_OF_LABEL)


def _unified(accelerator: Accelerator) -> Ratios:
    if "metal" in accelerator.stacks:
        small = accelerator.marketed_memory_bytes <= 32 * GIB
        return fitted.APPLE_TO_32_GIB_OF_LABEL if small else fitted.APPLE_ABOVE_32_GIB_OF_LABEL
    if "cuda" in accelerator.stacks:
        known = accelerator.driver_total_bytes is not None
        return fitted.GB10_OF_DRIVER if known else fitted.GB10_OF_LABEL
    return fitted.AMD_APU_OF_LABEL


def _cuda(accelerator: Accelerator) -> UsableMemory:
    """CUDA keeps a share and a fixed part of the driver's total for itself."""
    known = accelerator.driver_total_bytes
    if known:
        totals = (known, known, known)
    else:
        label = accelerator.marketed_memory_bytes
        least = fitted.CUDA_INLINE_ECC_DRIVER_OF_LABEL[0]
        _, expected, most = fitted.CUDA_DRIVER_OF_LABEL
        totals = (int(label * least), int(label * expected), int(label * most))
    kept_least, kept, kept_most = (int(part * GIB) for part in fitted.CUDA_KEPT_GIB)
    share = 1 - fitted.CUDA_KEPT_SHARE
    return UsableMemory(
        low_bytes=max(int(totals[0] * share) - kept_most, 1),
        expected_bytes=max(int(totals[1] * share) - kept, 1),
        high_bytes=max(int(totals[2] * share) - kept_least, 1),
    )


def _scaled(total: int, ratios: Ratios) -> UsableMemory:
    low, expected, high = (max(int(total * ratio), 1) for ratio in ratios)
    return UsableMemory(low_bytes=low, expected_bytes=expected, high_bytes=high)
