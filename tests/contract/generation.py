"""The contract as schemathesis reads it, with names of the catalog in the cases that it makes up.

A random id is never known, so without this hardly a case would get past a 404. Only what is valid
is replaced, and by something valid: a case that was made invalid stays so.
"""

import copy
import json
import re
import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

import httpx
import msgspec
import schemathesis
from schemathesis import AuthContext, Case, HookContext
from schemathesis.schemas import BaseSchema

from tests.contract.conftest import Target
from tonnage.api.paging import Place, cursor, place_of
from tonnage.api.problems import ApiError
from tonnage.api.surface import document
from tonnage.catalog.kinds import Kind, ModelRecord, RuntimeRecord
from tonnage.catalog.release import Release
from tonnage.catalog.seed import seed_release

T = TypeVar("T")

AnyCase = Case[Any]

# As it is served: tuples are arrays there.
BUILT: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document()))
FORMATS = ("auto", "auto", "auto", "bf16", "fp8", "q8_0", "q4_k_m", "awq")
COUNTS = (1, 1, 2, 4, 8)
MOST_ACCELERATORS = 4096
ONE_IN = {"publishRelease": 5, "fitInference": 3}
"""Of the invalid bodies: one for each bound of each field makes thousands, much alike."""
RELEASE = re.compile(r'"[1-9][0-9]{0,8}"')


def contract_schema(target: Target) -> BaseSchema:
    """The built contract, its cases mapped, its requests for a service."""
    schema = load(closed(BUILT), target)
    schema.hook(filter_case)
    schema.hook(map_case)
    return schema


def closed(contract: dict[str, Any]) -> dict[str, Any]:
    """Answers may get new fields without breaking anyone; here one that is not told of is wrong."""
    found = copy.deepcopy(contract)
    for component in found["components"]["schemas"].values():
        if "properties" in component:
            component.setdefault("additionalProperties", False)
    return found


def load(contract: dict[str, Any], target: Target) -> BaseSchema:
    # A copy, as links that are inferred are written into it.
    schema = schemathesis.openapi.from_dict(copy.deepcopy(contract))
    schema.config.update(base_url=target.url)
    if target.key is not None:
        schema.auth()(_key(target.key))
    return schema


def _key(key: str) -> type:
    class Key:
        """`ignored_auth` takes the key away again, to see a 401."""

        def get(self, case: AnyCase, context: AuthContext) -> str:
            return key

        def set(self, case: AnyCase, data: str, context: AuthContext) -> None:
            case.headers["Authorization"] = f"Bearer {data}"

    return Key


@cache
def seed() -> Release:
    return seed_release()


@cache
def ids(kind: Kind) -> tuple[str, ...]:
    return tuple(seed().records[kind])


@cache
def priced_models() -> tuple[str, ...]:
    records = seed().records["models"].values()
    return tuple(r.id for r in records if isinstance(r, ModelRecord) and r.architecture)


@cache
def versions(runtime: str) -> tuple[str, ...]:
    record = seed().records["runtimes"].get(runtime)
    assert isinstance(record, RuntimeRecord)
    return tuple(era.since for era in record.eras)


def pick(options: Sequence[T], *key: object) -> T:
    """The same for the same key, so that a run repeats."""
    return options[share(*key) % len(options)]


def share(*key: object) -> int:
    return zlib.crc32(repr(key).encode())


def filter_case(context: HookContext, case: AnyCase) -> bool:
    """JSON Schema calls 1.0 an integer; a strict decoder does not (RFC 8259 leaves it open)."""
    if has_whole_float(case.body):
        return False
    return is_positive(case) or share(case.body) % ONE_IN.get(operation_id(case), 1) == 0


def has_whole_float(value: object) -> bool:
    match value:
        case float():
            return value.is_integer()
        case dict():
            return any(map(has_whole_float, value.values()))
        case list():
            return any(map(has_whole_float, value))
    return False


def map_case(context: HookContext, case: AnyCase) -> AnyCase:
    if is_name(case.path_parameters.get("id")):
        case.path_parameters = {**case.path_parameters, "id": _known_id(case)}
    for number in ("number", "older", "newer"):
        if is_count(case.path_parameters.get(number)):
            case.path_parameters = {**case.path_parameters, number: _release(case, number)}
    if is_count(case.query.get("release")):
        case.query = {**case.query, "release": _release(case, "release")}
    return map_what_is_not_named(context, case)


def map_what_is_not_named(context: HookContext, case: AnyCase) -> AnyCase:
    """For sequences, which take their names from answers."""
    if operation_id(case).startswith("list") and _is_text(case.query.get("after")):
        case.query = {**case.query, "after": _cursor(case)}
        if is_count(case.query.get("release")):
            # A cursor keeps to its release, and is refused with another one.
            del case.query["release"]
    if isinstance(case.body, dict):
        if operation_id(case) == "fitInference":
            case.body = estimable(case.body)
        if operation_id(case) == "publishRelease" and is_positive(case):
            case.body = publishable(case.body)
    return case


def operation_id(case: AnyCase) -> str:
    return str(case.operation.definition.raw["operationId"])


def is_positive(case: AnyCase) -> bool:
    return case.meta is not None and case.meta.generation.mode.is_positive


def is_name(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= 200


def is_count(value: object, most: int = 10**9) -> bool:
    """A number, or one as it is written into an address."""
    if isinstance(value, str) and re.fullmatch(r"[1-9][0-9]{0,9}", value):
        value = int(value)
    return type(value) is int and 1 <= value <= most


def _known_id(case: AnyCase) -> str:
    given: str = case.path_parameters["id"]
    kind = case.path_parameters.get("kind", case.path.split("/")[2])
    # One in five stays unknown; a negative kind has no ids.
    if share(given) % 5 == 0 or kind not in seed().records:
        return given
    return pick(ids(kind), "id", given)


def _release(case: AnyCase, name: str) -> int:
    given = int(str(case.path_parameters.get(name, case.query.get(name))))
    return pick((1, 1, 1, given), name, given)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= 1000


def _cursor(case: AnyCase) -> str:
    """Always one of the service's: others are refused with 400, which the schema can not say."""
    given: str = case.query["after"]
    try:
        place_of(given)
    except ApiError:
        kind = case.path.split("/")[2]
        return cursor(Place(1, pick(ids(kind), "after", given)))
    return given


def estimable(body: dict[str, Any]) -> dict[str, Any]:
    """A question about what the catalog has, four times in five."""
    key = json.dumps(body, sort_keys=True, default=repr)
    if share(key) % 5 == 0:
        return body
    found = dict(body)
    if is_name(found.get("model")):
        found["model"] = pick(priced_models(), "model", key)
    count = pick(COUNTS, "count", key)
    if isinstance(found.get("hardware"), dict):
        found["hardware"] = _hardware(found["hardware"], count, key)
    if isinstance(found.get("runtime"), dict):
        found["runtime"] = _runtime(found["runtime"], key)
    if isinstance(found.get("formats"), dict):
        found["formats"] = {
            field: pick(FORMATS, field, key) if is_name(value) else value
            for field, value in found["formats"].items()
        }
    parallel = found.get("parallel")
    if isinstance(parallel, dict) and all(map(_is_size, parallel.values())):
        found["parallel"] = {name: count if name == "tensor" else 1 for name in parallel}
    return found


def _hardware(hardware: dict[str, Any], count: int, key: str) -> dict[str, Any]:
    found = dict(hardware)
    for field, kind in (("accelerator", "accelerators"), ("machine", "machines")):
        if is_name(found.get(field)):
            found[field] = pick(ids(kind), field, key)
    if _is_size(found.get("count")) and share("limit", key) % 8:
        found["count"] = 1 if "machine" in found else count
    return found


def _is_size(value: object) -> bool:
    return type(value) is int and 1 <= value <= MOST_ACCELERATORS


RUNTIMES = (
    "vllm",
    "sglang",
    "tensorrt-llm",
    "tgi",
    "llama.cpp",
    "transformers",
    "ollama",
    "mlx-lm",
)


def _runtime(runtime: dict[str, Any], key: str) -> dict[str, Any]:
    if runtime.get("name") not in RUNTIMES:
        return runtime
    found = dict(runtime)
    if is_name(found.get("version")):
        found["version"] = pick(versions(found["name"]), "version", key)
    return found


def publishable(body: dict[str, Any]) -> dict[str, Any]:
    """Changes to real records, three times in four: made-up ones refer to what is not there."""
    key = json.dumps(body, sort_keys=True, default=repr)
    if share(key) % 4 == 0:
        return body
    changes = []
    for number, change in enumerate(body["changes"][:3]):
        if change["op"] == "put":
            kind = change["record"]["kind"]
            record = msgspec.to_builtins(seed().records[kind][pick(ids(kind), number, key)])
            changes.append({"op": "put", "record": {**record, "note": f"case {share(key)}"}})
        else:
            # What other records refer to can not be retired.
            offer = pick(ids("offers"), number, key)
            changes.append({"op": "retire", "kind": "offers", "id": offer})
    return {**body, "changes": changes}


def against_latest(case: AnyCase, target: Target) -> None:
    """Make If-Match the latest release, where it is a release at all; one in four stays stale."""
    given = case.headers.get("If-Match")
    named = isinstance(given, str) and RELEASE.fullmatch(given) is not None
    if named and is_positive(case) and share(repr(case.body)) % 4:
        latest = httpx.get(f"{target.url}/v1/catalog/releases/latest")
        case.headers["If-Match"] = latest.headers["ETag"]
