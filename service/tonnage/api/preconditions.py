"""ETag, If-None-Match and If-Match (RFC 9110, section 13)."""

import re

from litestar import Response

from .call import Call
from .problems import ApiError

_RELEASE = re.compile(r'^"([1-9][0-9]{0,8})"$')


def etag(text: str) -> str:
    return f'"{text}"'


def is_unchanged(request: Call, tag: str) -> bool:
    given = request.headers.get("if-none-match")
    if given is None:
        return False
    tags = [part.strip().removeprefix("W/") for part in given.split(",")]
    return "*" in tags or tag in tags


def not_modified(tag: str) -> Response[bytes]:
    return Response(b"", status_code=304, headers={"ETag": tag}, media_type="application/json")


def expected_release(request: Call) -> int:
    """The release number in If-Match. Raises ApiError: 428 without one, 400 for something else."""
    given = request.headers.get("if-match")
    if given is None:
        raise ApiError(
            "precondition_required",
            'send If-Match with the release the change was drawn up against, as "7" '
            "(the ETag of /v1/catalog/releases/latest)",
        )
    found = _RELEASE.match(given)
    if not found:
        raise ApiError("invalid_header", 'If-Match is a release number in quotes, as "7"')
    return int(found.group(1))
