"""The JSON schema of the configuration file, for editors."""

from typing import Any, Final

from rightsizer.config.describe import remark
from rightsizer.config.dump import plain
from rightsizer.config.shape import Entry, Group, Many, Named, Nullable, Scalar, Shape, shape_of

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_DURATION: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d|w|y))+$"
_SIZE: Final = r"^[0-9]+(\.[0-9]+)? ?([KkMmGg][Ii]?[Bb]|[Bb]([Yy][Tt][Ee][Ss]?)?)$"
_TYPES: Final = {bool: "boolean", int: "integer", float: "number", str: "string"}


def schema(root: type) -> dict[str, Any]:
    """The JSON schema (2020-12) of the files that load as `root`."""
    shape = shape_of(root)
    return {"$schema": _DIALECT, "title": root.__name__, **_schema(shape)}


def _schema(shape: Shape) -> dict[str, Any]:
    match shape:
        case Scalar():
            return _scalar(shape)
        case Nullable(inner):
            return {"anyOf": [_schema(inner), {"type": "null"}]}
        case Many(item):
            return {"type": "array", "items": _schema(item)}
        case Named(value):
            return {"type": "object", "additionalProperties": _schema(value)}
        case Group():
            return _group(shape)


def _group(group: Group) -> dict[str, Any]:
    required = [entry.key for entry in group.entries if entry.is_required]
    return {
        **({"description": group.help} if group.help else {}),
        "type": "object",
        "properties": {entry.key: _entry(entry) for entry in group.entries},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _entry(entry: Entry) -> dict[str, Any]:
    described = _schema(entry.shape)
    if isinstance(entry.shape, Group | Many | Named) and not entry.is_required:
        # What stands under a key may all be commented out.
        described["type"] = [described["type"], "null"]
    if isinstance(entry.shape, Group):
        return described
    source = f"Source: {entry.source.rstrip('.')}." if entry.source else ""
    words = " ".join(filter(None, (entry.help, remark(entry.shape), source)))
    default = {} if entry.is_required else {"default": plain(entry.default, entry.shape)}
    return {"description": words, **described, **default}


def _scalar(scalar: Scalar) -> dict[str, Any]:
    if scalar.choices:
        return {"enum": list(scalar.choices)}
    if scalar.is_duration:
        text = {"type": "string", "pattern": _DURATION}
        allows_zero = (scalar.minimum or 0) <= 0 <= (scalar.maximum or 0)
        return {"anyOf": [text, {"const": 0}]} if allows_zero else text
    described: dict[str, Any] = {"type": _TYPES[scalar.type]}
    if scalar.is_size:
        described = {"type": [described["type"], "string"], "pattern": _SIZE}
    if scalar.minimum is not None:
        described["minimum"] = scalar.minimum
    if scalar.maximum is not None:
        described["maximum"] = scalar.maximum
    return described
