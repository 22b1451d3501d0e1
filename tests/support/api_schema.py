"""Validates values against the schemas of the API's description: the part of JSON Schema used."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rightsizer.web.api import openapi_document

__all__ = ["UNDERSTOOD", "all_schemas", "faults", "json_schema_of", "resolved"]

UNDERSTOOD: Final = frozenset(
    {"$ref", "additionalProperties", "anyOf", "default", "description", "enum", "items"}
    | {"maxLength", "maximum", "minimum", "oneOf", "properties", "required", "title", "type"}
)
"""Supported keywords. A schema with another would check nothing; a test looks for them."""

_TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
}


def resolved(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """The target of a reference, or the schema itself; keywords beside a reference hold too."""
    if "$ref" not in part:
        return part
    found: Any = openapi_document()
    for key in part["$ref"].removeprefix("#/").split("/"):
        found = found[key]
    beside = {key: value for key, value in part.items() if key != "$ref"}
    return {**resolved(found), **beside}


def json_schema_of(method: str, path: str, status: int = 200) -> Mapping[str, Any]:
    """The schema of a JSON response."""
    operation = openapi_document()["paths"][path][method.lower()]
    response = resolved(operation["responses"][str(status)])
    schema: Mapping[str, Any] = response["content"]["application/json"]["schema"]
    return schema


def all_schemas() -> Iterator[Mapping[str, Any]]:
    """Every schema of the document, nested ones too."""
    document = openapi_document()
    for part in _inside(document):
        if "schema" in part:
            yield from _whole(part["schema"])
    for schema in document["components"]["schemas"].values():
        yield from _whole(schema)


def _inside(part: Any) -> Iterator[Mapping[str, Any]]:
    """Every object of the document."""
    if isinstance(part, dict):
        yield part
    each_part = part.values() if isinstance(part, dict) else part
    for each in each_part if isinstance(part, dict | list) else ():
        yield from _inside(each)


def _whole(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A schema, and those that it combines."""
    yield schema
    parts = [*schema.get("properties", {}).values(), *_forms(schema)]
    parts += [schema.get("items"), schema.get("additionalProperties")]
    for part in parts:
        if isinstance(part, dict):
            yield from _whole(part)


def _forms(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The schemas of which one holds."""
    return (*schema.get("oneOf", ()), *schema.get("anyOf", ()))


def faults(value: Any, schema: Mapping[str, Any], at: str = "$") -> Iterator[str]:
    """Places where a value violates a schema."""
    schema = resolved(schema)
    if forms := _forms(schema):
        found = [list(faults(value, each, at)) for each in forms]
        matching = sum(not each for each in found)
        if not matching or (matching > 1 and "oneOf" in schema):
            yield f"{at}: none or several of its forms: {min(found, key=len)}"
        return
    if "type" in schema and not _has_type(value, schema["type"]):
        yield f"{at}: {value!r} is no {schema['type']}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    if isinstance(value, int | float) and not _is_within(value, schema):
        yield f"{at}: {value!r} is out of bounds"
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from faults(each, schema.get("items", {}), f"{at}[{number}]")
    if isinstance(value, dict):
        yield from _object_faults(value, schema, at)


def _object_faults(value: dict[str, Any], schema: Mapping[str, Any], at: str) -> Iterator[str]:
    properties = schema.get("properties", {})
    more = schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{at}: has no {name}"
    for name, each in value.items():
        if name in properties:
            yield from faults(each, properties[name], f"{at}.{name}")
        elif more is False:
            yield f"{at}: {name} is not described"
        elif more is not True:
            yield from faults(each, more, f"{at}.{name}")


def _has_type(value: Any, types: str | list[str]) -> bool:
    names = [types] if isinstance(types, str) else types
    if isinstance(value, bool):
        return "boolean" in names
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return any(isinstance(value, _TYPES[name]) for name in names)


def _is_within(value: float, schema: Mapping[str, Any]) -> bool:
    least = schema.get("minimum", -math.inf)
    most = schema.get("maximum", math.inf)
    return bool(least <= value <= most)
