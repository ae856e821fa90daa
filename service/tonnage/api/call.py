"""What a handler is called with."""

from typing import Any

from litestar import Request
from litestar.datastructures import State

Call = Request[Any, Any, State]
