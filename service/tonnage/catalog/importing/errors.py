"""What can go wrong before an architecture is read: the file itself makes no sense."""

from tonnage.engine.errors import EngineError

GGUF_POINTER = "/gguf_header"


class UnreadableFile(EngineError):
    """The bytes are not what their format says, or say something absurd."""

    code = "unreadable_file"

    def __init__(self, message: str, *, pointer: str = GGUF_POINTER) -> None:
        super().__init__(message, pointer=pointer)


class TruncatedFile(UnreadableFile):
    """The header goes on after the last byte that was given."""
