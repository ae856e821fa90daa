"""What cannot be estimated, and why.

EngineError
├── Contradiction       the request's own parts exclude each other
├── NotModelled         the engine has no accounting for this; it refuses rather than guess
└── UnknownArchitecture a config field that the engine cannot price
"""


class EngineError(Exception):
    """A question that has no answer; ``pointer`` is the JSON pointer of the field to change."""

    code = "not_estimable"

    def __init__(self, message: str, *, pointer: str = "", remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.pointer = pointer
        self.remedy = remedy


class Contradiction(EngineError):
    """The request's parts exclude each other."""

    code = "contradiction"


class NotModelled(EngineError):
    """The engine has no accounting for this, and does not guess."""

    code = "not_modelled"


class UnknownArchitecture(EngineError):
    """A field of the configuration says something that the engine cannot price."""

    code = "unknown_architecture"
