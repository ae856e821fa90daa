"""One question of inference fit, with every name already resolved to its facts."""

import msgspec

from .eras import Era
from .flags import Flags
from .hardware import Accelerator
from .model import ModelArchitecture
from .precision import CacheEncoding, WeightEncoding
from .runtime import Runtime
from .workload import InferenceWorkload, Parallelism


class NamedWeights(msgspec.Struct, frozen=True):
    id: str
    family: str
    encoding: WeightEncoding


class NamedCache(msgspec.Struct, frozen=True):
    id: str
    family: str
    encoding: CacheEncoding


class InferenceCase(msgspec.Struct, frozen=True, kw_only=True):
    model: ModelArchitecture
    accelerator: Accelerator
    count: int
    runtime: Runtime
    version: str
    era: Era
    flags: Flags
    weights: NamedWeights
    key_cache: NamedCache
    value_cache: NamedCache
    parallel: Parallelism
    workload: InferenceWorkload
    in_use_bytes: int = 0
    """Taken on every accelerator by other programs."""
