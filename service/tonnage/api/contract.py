"""The OpenAPI 3.1 document, made from the operations and from msgspec's own schemas.

Schemas are those that the decoders enforce, so the document can not promise what is not kept.
"""

import http
from typing import Any

import msgspec

from tonnage import __version__
from tonnage.catalog.importing.requests import IMPORT_ONE_OF

from .operations import Header, Operation
from .problems import MEDIA_TYPE, Problem

REFERENCE = "#/components/schemas/{name}"
TAGS = {
    "fit": "Will it fit?",
    "catalog": "Models, accelerators, machines, prices and runtimes, release by release.",
    "health": "For probes and monitoring.",
    "documentation": "This contract and its page.",
}
DESCRIPTION = (
    "Plans GPU capacity for AI from a versioned catalog. Every answer names the catalog release "
    "and the engine version that it came from and can be repeated byte for byte. Errors are RFC "
    "9457 problem details with a stable `code` and a JSON pointer for each wrong field."
)


ETAG = Header("ETag", "For If-None-Match.", {"type": "string"})
PROBLEM_HEADERS = {
    401: Header("WWW-Authenticate", "How to authenticate.", {"type": "string"}),
    405: Header("Allow", "The methods that there are.", {"type": "string"}),
    503: Header("Retry-After", "Seconds to wait.", {"type": "string"}),
}
IF_NONE_MATCH = Header(
    "If-None-Match",
    "An ETag from before; 304 when nothing has changed since.",
    {"type": "string"},
)


def document(described: list[Operation]) -> dict[str, Any]:
    types = [t for op in described for t in (op.body, op.answer) if _is_schema(t)]
    queries = [op.query for op in described if op.query is not None]
    _, components = msgspec.json.schema_components(
        [*types, *queries, Problem], ref_template=REFERENCE
    )
    names = {query: _name(query) for query in queries}
    parameters = {query: _parameters(components[names[query]]) for query in queries}
    for name in set(names.values()):
        del components[name]
    _mend(components)
    paths: dict[str, dict[str, Any]] = {}
    for operation in described:
        path = paths.setdefault(operation.path, {})
        query = parameters[operation.query] if operation.query is not None else []
        path[operation.method.lower()] = _operation(operation, query)
        if operation.method == "GET":
            path["head"] = _head(operation, query)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tonnage",
            "version": __version__,
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _is_schema(of: Any) -> bool:
    return of not in (None, str, dict)


def _name(of: Any) -> str:
    name: str = of.__name__
    return name


def _schema(of: Any) -> dict[str, Any]:
    if of is str:
        return {"type": "string"}
    if of is dict:
        return {"type": "object"}
    (schema,), _ = msgspec.json.schema_components([of], ref_template=REFERENCE)
    return schema


def _parameters(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """A query struct's fields as parameters; null means left out, so it is no value to send."""
    required = schema.get("required", [])
    found = []
    for name, field in schema.get("properties", {}).items():
        options = [o for o in field.get("anyOf", [field]) if o.get("type") != "null"]
        own = {k: v for k, v in options[0].items() if k != "description"}
        described = options[0].get("description") or field.get("description")
        parameter: dict[str, Any] = {"name": name, "in": "query", "required": name in required}
        if described:
            parameter["description"] = described
        if field.get("default") is not None:
            own["default"] = field["default"]
        found.append({**parameter, "schema": own})
    return found


def _mend(components: dict[str, Any]) -> None:
    """Rules across fields that a struct can not say."""
    components["ImportModelRequest"].update(IMPORT_ONE_OF)


def _operation(operation: Operation, query: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
    }
    if operation.description:
        found["description"] = operation.description
    parameters = [
        *(
            {
                "name": name,
                "in": "path",
                "required": True,
                "schema": _plain(schema),
                **_says(schema),
            }
            for name, schema in operation.path_parameters.items()
        ),
        *query,
        *(_header_parameter(header) for header in operation.headers),
        *([_header_parameter(IF_NONE_MATCH)] if operation.conditional else []),
    ]
    if parameters:
        found["parameters"] = parameters
    if operation.body is not None:
        found["requestBody"] = _body(operation)
    found["responses"] = _responses(operation)
    found["security"] = [{"key": []}] if operation.scope else [{}, {"key": []}]
    if operation.is_open:
        found["security"] = [{}]
    return found


def _head(operation: Operation, query: list[dict[str, Any]]) -> dict[str, Any]:
    found = _operation(operation, query)
    found["operationId"] = f"{operation.id}Head"
    found["summary"] = f"{operation.summary} (headers alone)"
    for response in found["responses"].values():
        response.pop("content", None)
    return found


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "description"}


def _says(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": schema["description"]} if "description" in schema else {}


def _header_parameter(header: Header) -> dict[str, Any]:
    return {
        "name": header.name,
        "in": "header",
        "required": header.required,
        "description": header.description,
        "schema": header.schema,
    }


def _body(operation: Operation) -> dict[str, Any]:
    media: dict[str, Any] = {"schema": _schema(operation.body)}
    if operation.examples:
        media["examples"] = {
            example.name: {"summary": example.summary, "value": example.value}
            for example in operation.examples
        }
    return {"required": True, "content": {"application/json": media}}


def _responses(operation: Operation) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "description": http.HTTPStatus(operation.status).phrase,
        "content": {operation.media_type: {"schema": _schema(operation.answer)}},
    }
    headers = [*operation.answer_headers]
    if operation.conditional:
        headers.append(ETAG)
    if headers:
        answer["headers"] = _headers(headers)
    if operation.links:
        answer["links"] = {
            link.name: {"operationId": link.operation, "parameters": link.parameters}
            for link in operation.links
        }
    found = {str(operation.status): answer}
    if operation.conditional:
        found["304"] = {"description": "Not Modified", "headers": _headers([ETAG])}
    problems = {*operation.problems, 408, 500}
    if not operation.is_open:
        problems |= {401}
    for status in sorted(problems):
        found[str(status)] = {
            "description": http.HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
        if status in PROBLEM_HEADERS:
            found[str(status)]["headers"] = _headers([PROBLEM_HEADERS[status]])
    return found


def _headers(headers: list[Header]) -> dict[str, Any]:
    return {
        header.name: {"description": header.description, "schema": header.schema}
        for header in headers
    }
