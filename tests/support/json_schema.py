"""The part of JSON Schema used by our own schemas of manifests."""

import re
from collections.abc import Iterator
from typing import Any, Final

__all__ = ["faults"]

_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}
_KNOWN: Final = {
    "$schema",
    "description",
    "$defs",
    "$ref",
    "type",
    "const",
    "enum",
    "pattern",
    "oneOf",
    "minimum",
    "maximum",
    "required",
    "properties",
    "additionalProperties",
    "items",
    "minItems",
}


def faults(schema: dict[str, Any], value: object) -> list[str]:
    """Violations of the schema by a value, each with its place."""
    return list(_faults(schema, value, schema, ""))


def _faults(
    schema: dict[str, Any], value: object, root: dict[str, Any], place: str
) -> Iterator[str]:
    if unknown := schema.keys() - _KNOWN:
        raise ValueError(f"this checker does not know {sorted(unknown)}")
    if "$ref" in schema:
        yield from _faults(root["$defs"][schema["$ref"].rpartition("/")[2]], value, root, place)
        return
    kind = schema.get("type")
    if kind and not _is(value, kind):
        yield f"{place or '/'}: {value!r} is no {kind}"
        return
    yield from _of_alternatives(schema, value, root, place)
    yield from _of_scalar(schema, value, place)
    if isinstance(value, dict):
        yield from _of_object(schema, value, root, place)
    elif isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{place}: too few"
        for number, item in enumerate(value):
            yield from _faults(schema.get("items", {}), item, root, f"{place}/{number}")


def _is(value: object, kind: str) -> bool:
    return isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def _of_alternatives(
    schema: dict[str, Any], value: object, root: dict[str, Any], place: str
) -> Iterator[str]:
    if "oneOf" in schema:
        found = [list(_faults(each, value, root, place)) for each in schema["oneOf"]]
        if sum(not each for each in found) != 1:
            yield f"{place}: not exactly one of the alternatives fits: {found}"


def _of_scalar(schema: dict[str, Any], value: object, place: str) -> Iterator[str]:
    if "const" in schema and value != schema["const"]:
        yield f"{place}: {value!r} is not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is none of {schema['enum']}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{place}: {value!r} is not written like {schema['pattern']}"
    if isinstance(value, int | float) and not (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
    ):
        yield f"{place}: {value!r} is out of bounds"


def _of_object(
    schema: dict[str, Any], value: dict[str, Any], root: dict[str, Any], place: str
) -> Iterator[str]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{place or '/'}: {name} is missing"
    known = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    for name, inside in value.items():
        if name in known:
            yield from _faults(known[name], inside, root, f"{place}/{name}")
        elif others is False:
            yield f"{place or '/'}: {name} is not known"
        elif isinstance(others, dict):
            yield from _faults(others, inside, root, f"{place}/{name}")
