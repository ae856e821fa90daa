"""A file of measured cases that can not be evaluated, said in one sentence."""


class EvaluationError(Exception):
    """The file is missing, is not JSON lines, or is of a kind that is not held against anything."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
