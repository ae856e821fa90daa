"""Releases of the catalog: list, read, compare, publish."""

import re
from typing import Any

import msgspec
from litestar import Response
from litestar.params import FromPath

from tonnage.catalog.changes import ChangeSet
from tonnage.catalog.differences import Difference, difference_between
from tonnage.catalog.store import ReleaseInfo, latest_number, list_releases, publish, release_info

from .bodies import read_json, read_query
from .call import Call
from .context import context_of
from .operations import Example, Header, Link, Operation, handle, json_answer
from .preconditions import etag, expected_release, is_unchanged, not_modified
from .problems import ApiError
from .queries import NoQuery, ReleasesQuery

_NUMBER = {"type": "integer", "minimum": 1, "maximum": 10**9}
LONGEST_KEY = 200
_KEY = re.compile(r"[!-~]{1,200}")
CHANGED = "$request.body#/changes/0/record"


class Releases(msgspec.Struct, frozen=True):
    """Newest first; ``next`` is the ``before`` of the next page, null on the last."""

    items: list[ReleaseInfo]
    next: int | None


LIST = Operation(
    id="listReleases",
    method="GET",
    path="/v1/catalog/releases",
    tag="catalog",
    summary="List releases, newest first",
    query=ReleasesQuery,
    answer=Releases,
    links=(
        Link("release", "getRelease", {"number": "$response.body#/items/0/number"}),
        Link("page", "listReleases", {"before": "$response.body#/next"}),
    ),
    problems=(400, 503),
)
LATEST = Operation(
    id="getLatestRelease",
    method="GET",
    path="/v1/catalog/releases/latest",
    tag="catalog",
    summary="The newest release; its ETag is what If-Match wants",
    query=NoQuery,
    answer=ReleaseInfo,
    links=(Link("publish", "publishRelease", {"header.If-Match": "$response.header.ETag"}),),
    problems=(400, 404, 503),
    conditional=True,
)
GET = Operation(
    id="getRelease",
    method="GET",
    path="/v1/catalog/releases/{number}",
    tag="catalog",
    summary="Who released what, when, under which digest",
    path_parameters={"number": _NUMBER},
    query=NoQuery,
    answer=ReleaseInfo,
    problems=(400, 404, 503),
    conditional=True,
)
DIFF = Operation(
    id="compareReleases",
    method="GET",
    path="/v1/catalog/releases/{older}/diff/{newer}",
    tag="catalog",
    summary="What changed between two releases, field by field",
    path_parameters={"older": _NUMBER, "newer": _NUMBER},
    query=NoQuery,
    answer=Difference,
    problems=(400, 404, 503),
)
EXAMPLE: dict[str, Any] = {
    "message": "The spot price of p5.48xlarge in us-east-1",
    "changes": [
        {
            "op": "put",
            "record": {
                "kind": "offers",
                "id": "aws/p5.48xlarge/us-east-1/spot",
                "name": "p5.48xlarge, spot, us-east-1",
                "sources": [{"title": "EC2 spot price history", "date": "2026-11-30"}],
                "provider": "AWS",
                "machine": "aws/p5.48xlarge",
                "region": "us-east-1",
                "term": "spot",
                "usd_per_hour": 31.5,
                "price_date": "2026-11-30",
            },
        }
    ],
}
PUBLISH = Operation(
    id="publishRelease",
    method="POST",
    path="/v1/catalog/releases",
    tag="catalog",
    summary="Publish a change set as the next release, all of it or nothing",
    headers=(
        Header(
            "If-Match",
            'The release the change was drawn up against, as "7".',
            {"type": "string", "pattern": '^"[1-9][0-9]{0,8}"$'},
            required=True,
        ),
        Header(
            "Idempotency-Key",
            "The same key with the same change set is answered with the release it made.",
            {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY, "pattern": "^[!-~]+$"},
        ),
    ),
    body=ChangeSet,
    examples=(Example("price", "One new price", EXAMPLE),),
    status=201,
    answer=ReleaseInfo,
    answer_headers=(
        Header("Location", "The release's address.", {"type": "string"}),
        Header("ETag", "The release's number, for If-Match.", {"type": "string"}),
    ),
    links=(
        Link("release", "getRelease", {"number": "$response.body#/number"}),
        Link("difference", "compareReleases", {"older": "1", "newer": "$response.body#/number"}),
        Link("history", "getHistory", {"kind": f"{CHANGED}/kind", "id": f"{CHANGED}/id"}),
        Link("next", "publishRelease", {"header.If-Match": "$response.header.ETag"}),
    ),
    problems=(400, 401, 403, 409, 412, 413, 415, 422, 428, 503),
    scope="catalog:write",
)


@handle(LIST)
async def listed(request: Call) -> Response[bytes]:
    query = read_query(request, ReleasesQuery)
    async with context_of(request).transaction() as connection:
        found = await list_releases(connection, limit=query.limit + 1, before=query.before)
    items = found[: query.limit]
    return json_answer(Releases(items, items[-1].number if len(found) > query.limit else None))


@handle(LATEST)
async def latest(request: Call) -> Response[bytes]:
    read_query(request, NoQuery)
    async with context_of(request).transaction() as connection:
        info = await release_info(connection, await latest_number(connection))
    return _release(request, info)


@handle(GET)
async def one(request: Call, number: FromPath[str]) -> Response[bytes]:
    read_query(request, NoQuery)
    async with context_of(request).transaction() as connection:
        info = await release_info(connection, _number(number))
    return _release(request, info)


def _release(request: Call, info: ReleaseInfo) -> Response[bytes]:
    tag = etag(str(info.number))
    if is_unchanged(request, tag):
        return not_modified(tag)
    return json_answer(info, headers={"ETag": tag})


def _number(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 9 and int(text) >= 1:
        return int(text)
    raise ApiError("not_found", "a release is named by its number, 1 or more")


@handle(DIFF)
async def difference(request: Call, older: FromPath[str], newer: FromPath[str]) -> Response[bytes]:
    read_query(request, NoQuery)
    shelf = context_of(request).shelf
    first, second = await shelf.at(_number(older)), await shelf.at(_number(newer))
    return json_answer(difference_between(first, second))


@handle(PUBLISH)
async def publish_release(request: Call) -> Response[bytes]:
    context = context_of(request)
    principal = await context.keyring.principal(request, "catalog:write")
    read_query(request, NoQuery)
    key = request.headers.get("idempotency-key")
    if key is not None and not _KEY.fullmatch(key):
        raise ApiError(
            "invalid_header", f"Idempotency-Key is 1 to {LONGEST_KEY} visible ASCII characters"
        )
    against = expected_release(request)
    change_set = await read_json(request, ChangeSet)
    async with context.transaction() as connection:
        published = await publish(
            connection,
            change_set,
            against=against,
            author=principal.name,
            idempotency_key=key and f"{principal.name}:{key}",
        )
    if published.release is not None:
        context.shelf.adopt(published.release)
    info = published.info
    return json_answer(
        info,
        status=201,
        headers={
            "Location": f"/v1/catalog/releases/{info.number}",
            "ETag": etag(str(info.number)),
        },
    )


HANDLERS = [listed, latest, one, difference, publish_release]
OPERATIONS = [LIST, LATEST, GET, DIFF, PUBLISH]
