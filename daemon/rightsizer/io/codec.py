"""JSON codec of value classes, derived from their fields, for data that is only stored."""

import math
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET

JsonObject: TypeAlias = dict[str, Any]
"""JSON-serializable object."""

_Value = TypeVar("_Value")


class FlatDocument(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename=lambda name: "" if name == "value" else f"_{name}",
):
    """Document whose fields stand in the one around it: `name` of `value`, `name_low` of `low`.

    Only `plain` puts them there.
    """


def encode(value: object) -> str:
    """Encode a value: structs as objects by field name, non-finite numbers as null.

    Types unknown to JSON are encoded as their text.
    """
    return msgspec.json.encode(value, enc_hook=str).decode()


def decode(text: str | bytes, kind: type[_Value]) -> _Value:
    """Decode a JSON text to a type; ignores unknown keys.

    Raises:
        ValueError: invalid JSON, or not of this type; the message has the position.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None


def convert(value: Any, kind: type[_Value]) -> _Value:
    """Convert parsed JSON to a type, by the rules of `decode`."""
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None


def plain(value: object) -> Any:
    """Convert a document to JSON values, flat ones in their place, sets sorted; else as `to_json`.

    Raises:
        TypeError: a flat document is in no other one.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, FlatDocument):
        raise TypeError(f"{type(value).__name__} is flat; make it a field of another document")
    if isinstance(value, msgspec.Struct):
        return _add_fields({}, value)
    if isinstance(value, Mapping):
        return {str(to_json(key)): plain(inside) for key, inside in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(map(plain, value), key=str)
    if isinstance(value, (list, tuple)):
        return [plain(inside) for inside in value]
    return to_json(value)


def _add_fields(document: JsonObject, value: msgspec.Struct, prefix: str = "") -> JsonObject:
    """Add the keys of a value, those of flat ones in their place, and none of `UNSET`."""
    for name, key in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        field = getattr(value, name)
        if isinstance(field, FlatDocument):
            _add_fields(document, field, prefix + key)
        elif field is not UNSET:
            document[prefix + key] = field if field is None else plain(field)
    return document


def plain_fields(value: msgspec.Struct) -> dict[str, Any]:
    """Fields of a value, and of those in it, as JSON has them."""
    fields: dict[str, Any] = msgspec.to_builtins(value, enc_hook=_plain)
    return fields


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def to_json(document: object) -> Any:
    """Convert a document to JSON values; types unknown to JSON become their text."""
    return msgspec.json.decode(msgspec.json.encode(document, enc_hook=_unknown_to_json))


def _unknown_to_json(value: object) -> object:
    """Convert a read-only view of a mapping; anything else to its text."""
    return dict(value) if isinstance(value, Mapping) else str(value)
