"""From a Hugging Face ``config.json`` to the engine's architecture.

Pure: the configuration is data, and code it points to (``auto_map``) is never run. An architecture
that is not known is refused with the field that makes it so, and never priced as plain attention.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from tonnage.engine.errors import UnknownArchitecture
from tonnage.engine.model import ModelArchitecture

from .encoders import ENCODERS
from .fields import Fields
from .hybrids import HYBRIDS
from .multimodal import MULTIMODAL, TEXT_BUILDERS
from .older import OLDER

Builder = Callable[[Fields], ModelArchitecture]

BUILDERS: dict[str, Builder] = {
    **TEXT_BUILDERS,
    **HYBRIDS,
    **OLDER,
    **ENCODERS,
    **MULTIMODAL,
}


def architecture_from_config(config: dict[str, Any]) -> ModelArchitecture:
    """Raises UnknownArchitecture, with the JSON pointer of the field that is not understood."""
    fields = Fields(config)
    architecture = _build(fields)
    fields.check_understood()
    return _checked(architecture)


def _build(fields: Fields) -> ModelArchitecture:
    model_type = fields.maybe_text("model_type")
    if model_type is None:
        fields.refuse("model_type", "is missing")
    if model_type in BUILDERS:
        return BUILDERS[model_type](fields)
    remote = " and the repository's own code is not run" if fields.raw("auto_map") else ""
    raise fields.refusal("model_type", f"{model_type!r} is not known{remote}")


def _checked(architecture: ModelArchitecture) -> ModelArchitecture:
    """Once more through the decoder: sums and products of fields must stay within bounds too."""
    architecture.check()
    try:
        return msgspec.convert(msgspec.to_builtins(architecture), ModelArchitecture)
    except msgspec.ValidationError as problem:
        raise UnknownArchitecture(f"the sizes are out of bounds: {problem}") from None
