"""What a caller sends to have a model imported, and what comes back."""

from typing import Annotated, Any

import msgspec

from tonnage.catalog.kinds import Line, ModelRecord, RecordId
from tonnage.engine.values import ParameterCount

JsonObject = Annotated[dict[str, Any], msgspec.Meta(max_length=500_000)]
LONGEST_HEADER = 2**26
"""Characters of base64: 48 MiB of a file."""
IMPORT_ONE_OF: dict[str, Any] = {
    "oneOf": [
        {
            "required": ["config"],
            "properties": {"config": {"type": "object"}, "gguf_header": {"type": "null"}},
        },
        {
            "required": ["gguf_header"],
            "properties": {"gguf_header": {"type": "string"}, "config": {"type": "null"}},
        },
    ]
}
"""For the JSON schema of :class:`ImportModelRequest`, which msgspec can not say it of."""


class ImportModelRequest(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A model's own description of itself: ``config`` or ``gguf_header``, one of the two.

    ``safetensors_index`` or ``safetensors_header``, beside ``config``, check its parameter count.
    """

    id: RecordId
    """The new record's id, usually ``owner/name``."""
    name: Line | None = None
    """The last part of the id if left out."""
    family: Line | None = None
    vendor: Line | None = None
    """The owner in the id if left out."""
    licence: Line | None = None
    released: (
        Annotated[str, msgspec.Meta(pattern=r"^[0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?$(?!\n)")] | None
    ) = None
    """A year, a month or a day: 2026, 2026-08, 2026-08-22."""
    config: JsonObject | None = None
    """A Hugging Face config.json, as it is."""
    safetensors_index: JsonObject | None = None
    """model.safetensors.index.json, as it is."""
    safetensors_header: JsonObject | None = None
    """The JSON at the start of a .safetensors file: each tensor's dtype, shape, data_offsets. The
    headers of several parts may be merged into one."""
    gguf_header: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_HEADER)] | None = None
    """The first bytes of a GGUF file in base64: its header, with metadata and tensors' types.
    Metadata about the tokenizer may be left out of it."""


class ImportedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A record to look over and publish with a change set; nothing is stored."""

    record: ModelRecord
    parameters: ParameterCount
    """What a runtime loads, counted from the architecture."""
    stored_parameters: ParameterCount
    """With the parts that a runtime leaves out unless asked, such as prediction layers."""
    findings: list[str]
    """What did not agree, in sentences; empty when all that was sent agrees."""
