"""What a caller asks, in the words that every endpoint and the command line share."""

from typing import Annotated

import msgspec

from tonnage.engine.flags import (
    ExllamaFlags,
    LlamaCppFlags,
    MlxFlags,
    OllamaFlags,
    SglangFlags,
    TensorRtLlmFlags,
    TgiFlags,
    TransformersFlags,
    VllmFlags,
)
from tonnage.engine.hardware import Accelerator
from tonnage.engine.model import ModelArchitecture
from tonnage.engine.precision import WeightEncoding
from tonnage.engine.values import BytesOrZero
from tonnage.engine.workload import InferenceWorkload, Parallelism

Name = Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=200, description="An id or alias of a catalog record."),
]
FormatName = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=60,
        description="`auto`, or the id or alias of a number format of the catalog.",
    ),
]
VersionText = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[bv]?[0-9]{1,9}(\.[0-9]{1,9}){0,5}([.+-]?[A-Za-z0-9]{1,20}){0,4}$(?!\n)",
        max_length=60,
        description="As the runtime writes it: 0.11.0, 0.8.5.post1, b6500.",
    ),
]


class _Part(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    pass


class InlineModel(_Part, frozen=True, kw_only=True):
    """A model that is not in the catalog, by its architecture."""

    architecture: ModelArchitecture
    checkpoint_format: FormatName = "bf16"
    checkpoint_encoding: WeightEncoding | None = None
    """Bits of each part of the checkpoint, where they differ from the format's usual recipe."""
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] = "the model"


class Hardware(_Part, frozen=True, kw_only=True):
    """Either ``accelerator`` and ``count``, or a ``machine`` that has both."""

    accelerator: Name | Accelerator | None = None
    """An id or alias, or a spec sheet."""
    slice: Name | None = None
    """A partition of the accelerator by its profile (``1g.10gb`` of MIG); ``count`` then counts
    slices, and tensor parallelism over slices of one device has no link of its own."""
    machine: Name | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=4096)] | None = None
    """Accelerators; with a machine, how many of its accelerators to use (all when left out)."""
    memory_in_use_bytes: BytesOrZero = 0
    """Taken on every accelerator by other programs."""


class VllmRuntime(_Part, frozen=True, kw_only=True, tag="vllm", tag_field="name"):
    version: VersionText | None = None
    flags: VllmFlags = VllmFlags()


class SglangRuntime(_Part, frozen=True, kw_only=True, tag="sglang", tag_field="name"):
    version: VersionText | None = None
    flags: SglangFlags = SglangFlags()


class TensorRtLlmRuntime(_Part, frozen=True, kw_only=True, tag="tensorrt-llm", tag_field="name"):
    version: VersionText | None = None
    flags: TensorRtLlmFlags = TensorRtLlmFlags()


class TgiRuntime(_Part, frozen=True, kw_only=True, tag="tgi", tag_field="name"):
    version: VersionText | None = None
    flags: TgiFlags = TgiFlags()


class LlamaCppRuntime(_Part, frozen=True, kw_only=True, tag="llama.cpp", tag_field="name"):
    version: VersionText | None = None
    flags: LlamaCppFlags = LlamaCppFlags()


class TransformersRuntime(_Part, frozen=True, kw_only=True, tag="transformers", tag_field="name"):
    version: VersionText | None = None
    flags: TransformersFlags = TransformersFlags()


class OllamaRuntime(_Part, frozen=True, kw_only=True, tag="ollama", tag_field="name"):
    version: VersionText | None = None
    flags: OllamaFlags = OllamaFlags()


class MlxRuntime(_Part, frozen=True, kw_only=True, tag="mlx-lm", tag_field="name"):
    version: VersionText | None = None
    flags: MlxFlags = MlxFlags()


class ExllamaV2Runtime(_Part, frozen=True, kw_only=True, tag="exllamav2", tag_field="name"):
    version: VersionText | None = None
    flags: ExllamaFlags = ExllamaFlags()


class ExllamaV3Runtime(_Part, frozen=True, kw_only=True, tag="exllamav3", tag_field="name"):
    version: VersionText | None = None
    flags: ExllamaFlags = ExllamaFlags()


RuntimeChoice = (
    VllmRuntime
    | SglangRuntime
    | TensorRtLlmRuntime
    | TgiRuntime
    | LlamaCppRuntime
    | TransformersRuntime
    | OllamaRuntime
    | MlxRuntime
    | ExllamaV2Runtime
    | ExllamaV3Runtime
)
TENSOR_PARALLEL = (VllmRuntime, SglangRuntime, TensorRtLlmRuntime, TgiRuntime)
"""Servers that split a model over accelerators by tensor ranks unless told otherwise."""


class Formats(_Part, frozen=True, kw_only=True):
    """``auto``: the checkpoint's own format for weights, the runtime's default for the cache."""

    weights: FormatName = "auto"
    kv_cache: FormatName = "auto"
    kv_cache_values: FormatName | None = None
    """Set where values are stored otherwise than keys (llama.cpp ``--cache-type-v``)."""


class FitInferenceRequest(_Part, frozen=True, kw_only=True):
    """Does this model, so loaded, fit these accelerators under this runtime and workload?"""

    model: Name | InlineModel
    hardware: Annotated[
        Hardware,
        msgspec.Meta(
            extra_json_schema={
                "oneOf": [
                    {
                        "required": ["accelerator"],
                        "properties": {
                            "accelerator": {"not": {"type": "null"}},
                            "machine": {"type": "null"},
                        },
                    },
                    {
                        "required": ["machine"],
                        "properties": {
                            "machine": {"not": {"type": "null"}},
                            "accelerator": {"type": "null"},
                        },
                    },
                ]
            }
        ),
    ]
    runtime: RuntimeChoice
    workload: InferenceWorkload
    formats: Formats = Formats()
    parallel: Parallelism | None = None
    """Left out: tensor parallel over all accelerators where the runtime has it."""


def runtime_name(request: FitInferenceRequest) -> str:
    return str(request.runtime.__struct_config__.tag)
