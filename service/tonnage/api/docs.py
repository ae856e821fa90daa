"""The contract and its documentation page, served without the internet."""

from html import escape
from importlib.resources import files

from litestar import Response, get
from litestar.datastructures import CacheControlHeader
from litestar.params import FromPath

from .bodies import read_query
from .call import Call
from .context import context_of
from .operations import Operation, handle
from .problems import TABLE, ApiError
from .queries import NoQuery

ASSETS = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "start.js": "text/javascript",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEAD = '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
PAGE = f"""{HEAD}
<title>Tonnage API</title>
<link rel="stylesheet" href="/docs/assets/swagger-ui.css"></head>
<body><div id="page"></div>
<script src="/docs/assets/swagger-ui-bundle.js"></script>
<script src="/docs/assets/start.js"></script></body></html>
"""

CONTRACT = Operation(
    id="getContract",
    method="GET",
    path="/openapi.json",
    tag="documentation",
    summary="This contract, OpenAPI 3.1",
    query=NoQuery,
    answer=dict,
    problems=(400,),
    is_open=True,
)
DOCS = Operation(
    id="getDocumentation",
    method="GET",
    path="/docs",
    tag="documentation",
    summary="The documentation page",
    query=NoQuery,
    answer=str,
    media_type="text/html",
    problems=(400,),
    is_open=True,
)
PROBLEMS = Operation(
    id="getProblems",
    method="GET",
    path="/docs/problems",
    tag="documentation",
    summary="Every problem code and what it means",
    query=NoQuery,
    answer=str,
    media_type="text/html",
    problems=(400,),
    is_open=True,
)
ASSET = Operation(
    id="getAsset",
    method="GET",
    path="/docs/assets/{name}",
    tag="documentation",
    summary="A file of the documentation page",
    path_parameters={"name": {"type": "string", "enum": list(ASSETS)}},
    query=NoQuery,
    answer=str,
    media_type="text/*",
    problems=(400, 404),
    is_open=True,
)


@handle(CONTRACT)
async def contract(request: Call) -> Response[bytes]:
    read_query(request, NoQuery)
    return Response(context_of(request).contract, media_type="application/json")


@handle(DOCS)
async def page(request: Call) -> Response[bytes]:
    read_query(request, NoQuery)
    return _html(PAGE)


@handle(PROBLEMS)
async def problems(request: Call) -> Response[bytes]:
    read_query(request, NoQuery)
    rows = "".join(
        f'<tr id="{code}"><td>{meaning.status}</td><td><code>{code}</code></td>'
        f"<td>{escape(meaning.title)}</td></tr>"
        for code, meaning in TABLE.items()
    )
    return _html(
        f"{HEAD}<title>Problems</title></head><body><h1>Problem codes</h1>"
        f"<table><tr><th>Status</th><th>Code</th><th>Meaning</th></tr>{rows}</table></body></html>"
    )


def _html(text: str) -> Response[bytes]:
    return Response(
        text.encode(), media_type="text/html", headers={"Content-Security-Policy": POLICY}
    )


@handle(ASSET)
async def asset(request: Call, name: FromPath[str]) -> Response[bytes]:
    read_query(request, NoQuery)
    if name not in ASSETS:
        raise ApiError("not_found", f"the page's files are {', '.join(ASSETS)}")
    content = (files("tonnage.api") / "assets" / name).read_bytes()
    cached = CacheControlHeader(max_age=86400, public=True)
    return Response(content, media_type=ASSETS[name], headers={"Cache-Control": cached.to_header()})


@get("/", status_code=307)
async def home() -> Response[bytes]:
    """The address alone leads to the page."""
    return Response(b"", status_code=307, headers={"Location": "/docs"}, media_type="text/plain")


HANDLERS = [home, contract, page, problems, asset]
OPERATIONS = [CONTRACT, DOCS, PROBLEMS, ASSET]
