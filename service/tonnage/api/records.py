"""GET /v1/<kind> and /v1/<kind>/<id> for every kind of record, and a record's history."""

from typing import Any, get_args
from urllib.parse import quote

import msgspec
from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from tonnage.catalog.errors import UnknownRecord
from tonnage.catalog.kinds import RECORD_TYPES, Kind
from tonnage.catalog.search import search
from tonnage.catalog.store import Version, history
from tonnage.decoding import FieldError

from .bodies import read_query
from .call import Call
from .context import context_of
from .operations import Header, Link, Operation, handle, json_answer
from .paging import Page, Place, cursor, place_of
from .preconditions import etag, is_unchanged, not_modified
from .problems import ApiError
from .queries import LISTS, AtRelease, ListQuery, NoQuery

_NOT_FILTERS = frozenset(ListQuery.__struct_fields__)
_ID = {
    "type": "string",
    "minLength": 1,
    "description": "The record's id, slashes as they are or escaped as %2F: "
    "`meta-llama/Llama-3.1-8B` or `meta-llama%2FLlama-3.1-8B`. Aliases resolve too.",
}


class History(msgspec.Struct, frozen=True):
    """Every state a record has had, oldest first."""

    items: list[Version]


def _singular(kind: Kind) -> str:
    return kind.removesuffix("s").replace("-", " ")


def _title(kind: Kind) -> str:
    return "".join(part.capitalize() for part in kind.split("-"))


def _page_of(kind: Kind) -> Any:
    generic: Any = Page
    return generic[RECORD_TYPES[kind]]


def list_operation(kind: Kind) -> Operation:
    return Operation(
        id=f"list{_title(kind)}",
        method="GET",
        path=f"/v1/{kind}",
        tag="catalog",
        summary=f"List or search {kind.replace('-', ' ')}",
        query=LISTS[kind],
        answer=_page_of(kind),
        answer_headers=(Header("Link", 'The next page, rel="next".', {"type": "string"}),),
        links=(Link("page", f"list{_title(kind)}", {"after": "$response.body#/next"}),),
        problems=(400, 404, 503),
        conditional=True,
    )


def get_operation(kind: Kind) -> Operation:
    return Operation(
        id=f"get{_title(kind).removesuffix('s')}",
        method="GET",
        path=f"/v1/{kind}/{{id}}",
        tag="catalog",
        summary=f"One {_singular(kind)}, by id or alias",
        path_parameters={"id": _ID},
        query=AtRelease,
        answer=RECORD_TYPES[kind],
        links=(Link("history", "getHistory", {"kind": kind, "id": "$response.body#/id"}),),
        problems=(400, 404, 503),
        conditional=True,
    )


HISTORY = Operation(
    id="getHistory",
    method="GET",
    path="/v1/catalog/history/{kind}/{id}",
    tag="catalog",
    summary="Every state that a record has had, and the releases it held in",
    path_parameters={"kind": {"type": "string", "enum": list(RECORD_TYPES)}, "id": _ID},
    query=NoQuery,
    answer=History,
    problems=(400, 404, 503),
)


def list_handler(kind: Kind) -> HTTPRouteHandler:
    operation = list_operation(kind)

    async def listed(request: Call) -> Response[bytes]:
        query = read_query(request, LISTS[kind])
        place = place_of(query.after) if query.after else None
        if place is not None and query.release not in (None, place.release):
            raise ApiError("invalid_cursor", "the cursor belongs to another release")
        release = await context_of(request).shelf.at(place.release if place else query.release)
        tag = etag(f"{release.number}-{release.digest[7:19]}")
        if is_unchanged(request, tag):
            return not_modified(tag)
        filters = {
            field: getattr(query, field)
            for field in query.__struct_fields__
            if field not in _NOT_FILTERS
        }
        found = search(release, kind, query.q, filters)
        start = 0
        if place is not None:
            start = sum(record.id <= place.after for record in found)
        items = found[start : start + query.limit]
        following = None
        if start + query.limit < len(found):
            following = cursor(Place(release.number, items[-1].id))
        page = Page[Any](
            items=items,
            next=following,
            total=len(found),
            release=release.number,
            suggestions=list(release.suggest(kind, query.q)) if query.q and not found else [],
        )
        headers = {"ETag": tag}
        if following:
            headers["Link"] = f'<{_next_address(request, following)}>; rel="next"'
        return json_answer(page, headers=headers)

    return handle(operation)(_named(listed, operation.id))


def _next_address(request: Call, following: str) -> str:
    kept = [(k, v) for k, v in request.query_params.multi_items() if k != "after"]
    query = "&".join(f"{quote(k)}={quote(str(v))}" for k, v in [*kept, ("after", following)])
    return f"{request.url.path}?{query}"


def get_handler(kind: Kind) -> HTTPRouteHandler:
    operation = get_operation(kind)

    async def found(request: Call, record_id: FromPath[str]) -> Response[bytes]:
        query = read_query(request, AtRelease)
        release = await context_of(request).shelf.at(query.release)
        record = release.resolve(kind, record_id.removeprefix("/")).record
        tag = etag(f"{release.number}-{release.digest[7:19]}")
        if is_unchanged(request, tag):
            return not_modified(tag)
        return json_answer(record, headers={"ETag": tag})

    return handle(operation)(_named(found, operation.id))


def _named(function: Any, name: str) -> Any:
    """Handlers of one factory need names of their own."""
    function.__name__ = function.__qualname__ = name
    return function


@handle(HISTORY)
async def record_history(
    request: Call, kind: FromPath[str], record_id: FromPath[str]
) -> Response[bytes]:
    read_query(request, NoQuery)
    known = get_args(Kind)
    if kind not in known:
        field = FieldError(pointer="/kind", message="no such kind", suggestions=known)
        raise ApiError("not_found", "no such kind of record", errors=(field,))
    wanted: Kind = known[known.index(kind)]
    name = record_id.removeprefix("/")
    context = context_of(request)
    async with context.transaction() as connection:
        versions = await history(connection, wanted, name)
        if not versions:
            resolved = context.shelf.latest.resolve(wanted, name).record
            versions = await history(connection, wanted, resolved.id)
    if not versions:
        raise UnknownRecord(wanted, name, ())
    return json_answer(History(versions))


HANDLERS = [
    *(list_handler(kind) for kind in RECORD_TYPES),
    *(get_handler(kind) for kind in RECORD_TYPES),
    record_history,
]
OPERATIONS = [
    *(list_operation(kind) for kind in RECORD_TYPES),
    *(get_operation(kind) for kind in RECORD_TYPES),
    HISTORY,
]
