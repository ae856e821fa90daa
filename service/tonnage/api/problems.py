"""Every error as an RFC 9457 problem: what is wrong, where (a JSON pointer), what would be right.

Domain errors carry no HTTP; the table here gives each its status and title. Nothing of the input is
repeated beyond the offending value, and that only up to 200 characters.
"""

import http
from typing import NamedTuple

import msgspec
from litestar import Response
from litestar.exceptions import HTTPException

from tonnage.catalog.errors import CatalogError, Unavailable, UnknownRecord, UnsoundChange
from tonnage.database import AWAY
from tonnage.decoding import FieldError
from tonnage.engine.errors import EngineError
from tonnage.plans.errors import UnknownName

from .call import Call

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 5


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """RFC 9457. ``code`` is stable and meant for programs, ``detail`` for people."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: tuple[FieldError, ...] = ()
    request_id: str | None = None


class ApiError(Exception):
    """An error of the HTTP surface itself, by its code in the table."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: tuple[FieldError, ...] = (),
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.errors = errors
        self.headers = headers or {}


class Meaning(NamedTuple):
    status: int
    title: str


TABLE: dict[str, Meaning] = {
    "malformed_json": Meaning(400, "The body is not JSON"),
    "invalid_field": Meaning(400, "A field is missing, unknown, of the wrong type or out of range"),
    "invalid_query": Meaning(400, "A query parameter is unknown or not what it must be"),
    "invalid_header": Meaning(400, "A header is not what it must be"),
    "invalid_cursor": Meaning(400, "The cursor was not made by this service"),
    "bad_request": Meaning(400, "The request can not be understood"),
    "key_required": Meaning(401, "An API key is needed"),
    "scope_required": Meaning(403, "The API key may not do this"),
    "not_found": Meaning(404, "There is nothing at this address"),
    "unknown_record": Meaning(404, "The catalog has no such record"),
    "unknown_name": Meaning(404, "A name in the request is not in the catalog"),
    "unknown_release": Meaning(404, "The catalog has no such release"),
    "method_not_allowed": Meaning(405, "This address has no such method"),
    "request_timeout": Meaning(408, "The request took too long"),
    "idempotency_key_reused": Meaning(409, "The Idempotency-Key belongs to another request"),
    "stale_release": Meaning(412, "The catalog has moved on"),
    "body_too_large": Meaning(413, "The body is too large"),
    "unsupported_media_type": Meaning(415, "The body's media type is not supported"),
    "contradiction": Meaning(422, "Parts of the request exclude each other"),
    "not_modelled": Meaning(422, "The engine has no accounting for this"),
    "unknown_architecture": Meaning(422, "The architecture is not known"),
    "not_estimable": Meaning(422, "The question has no answer"),
    "unsound_change": Meaning(422, "The change set does not hold up"),
    "unreadable_file": Meaning(422, "The file's header can not be read"),
    "precondition_required": Meaning(428, "If-Match is needed"),
    "internal_error": Meaning(500, "Something went wrong here"),
    "catalog_error": Meaning(500, "Something went wrong in the catalog"),
    "catalog_unavailable": Meaning(503, "The database is away; estimates go on, writes do not"),
}
"""Code to status and title. A test holds that every code in the code is here."""

_HTTP_CODES = {
    400: "bad_request",
    401: "key_required",
    403: "scope_required",
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "unsupported_media_type",
}


def problem(
    code: str,
    detail: str,
    *,
    errors: tuple[FieldError, ...] = (),
    headers: dict[str, str] | None = None,
    request_id: str | None = None,
) -> Response[bytes]:
    meaning = TABLE[code]
    body = Problem(
        type=f"/docs/problems#{code}",
        title=meaning.title,
        status=meaning.status,
        code=code,
        detail=detail,
        errors=errors,
        request_id=request_id,
    )
    return Response(
        msgspec.json.encode(body),
        status_code=meaning.status,
        media_type=MEDIA_TYPE,
        headers=headers or {},
    )


def answer_error(request: Call, error: Exception) -> Response[bytes]:
    """The one exception handler of the application."""
    request_id = request.scope.get("state", {}).get("request_id")
    code, detail, errors, headers = _read(error)
    if TABLE[code].status == 500:
        request.scope["state"]["error"] = error
    return problem(code, detail, errors=errors, headers=headers, request_id=request_id)


def _say(code: str, headers: dict[str, str]) -> str:
    """What Litestar's own refusals leave unsaid."""
    match code:
        case "not_found":
            return "nothing is at this address; /docs lists what there is"
        case "method_not_allowed":
            return f"this address answers {', '.join(headers.values()) or 'other methods'}"
        case "body_too_large":
            return "the body is larger than this service takes (TONNAGE_LARGEST_BODY_BYTES)"
        case _:
            return http.HTTPStatus(TABLE[code].status).phrase


Parts = tuple[str, str, tuple[FieldError, ...], dict[str, str]]


def _read(error: Exception) -> Parts:
    match error:
        case ApiError():
            return error.code, error.detail, error.errors, error.headers
        case UnknownName():
            field = FieldError(
                pointer=error.pointer, message=str(error), suggestions=error.suggestions
            )
            return error.code, str(error), (field,), {}
        case EngineError():
            field = FieldError(
                pointer=error.pointer,
                message=error.message,
                suggestions=(error.remedy,) if error.remedy else (),
            )
            return error.code, error.message, (field,), {}
        case UnknownRecord():
            field = FieldError(pointer="", message=error.message, suggestions=error.suggestions)
            return error.code, error.message, (field,), {}
        case UnsoundChange():
            found = tuple(FieldError(pointer=p, message=m) for p, m in error.findings)
            return error.code, error.message, found, {}
        case Unavailable():
            return error.code, error.message, (), {"Retry-After": str(RETRY_SECONDS)}
        case CatalogError():
            return error.code, error.message, (), {}
        case _ if isinstance(error, AWAY):
            return (
                "catalog_unavailable",
                "the database does not answer; try again shortly",
                (),
                {"Retry-After": str(RETRY_SECONDS)},
            )
        case HTTPException():
            code = _HTTP_CODES.get(error.status_code, "bad_request")
            if error.status_code >= 500:
                code = "internal_error"
            headers = {k: v for k, v in (error.headers or {}).items() if k.lower() == "allow"}
            return code, _say(code, headers), (), headers
        case _:
            return "internal_error", "an error of ours; the request id finds it in the log", (), {}
