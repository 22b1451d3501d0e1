"""The one way from a value to JSON, by its type, and back."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET

JsonObject: TypeAlias = dict[str, Any]
"""JSON-serializable object."""

_Value = TypeVar("_Value")


class FlatDocument:
    """Values whose keys stand in the document around it: those of `x` as `x`, `x_low`, `x_high`.

    No struct, so that nothing but this codec can encode it.
    """

    def __init__(self, **values: object) -> None:
        """Create it of values by what stands after the key; `value` has the key itself."""
        self.values: Final = values


class _FlatDocumentError(TypeError):
    """A flat document is somewhere in a value."""


def encode(value: object) -> bytes:
    """Encode a value: structs by their keys, non-finite numbers as null, unknown types as text.

    Raises:
        TypeError: a flat document is in no other one.
    """
    try:
        return _ENCODER.encode(value)
    except _FlatDocumentError:
        return _ENCODER.encode(_lifted(value))


def plain(document: msgspec.Struct | Mapping[str, object]) -> JsonObject:
    """Convert a document to JSON values, which are those that `encode` writes."""
    fields: JsonObject = msgspec.json.decode(encode(document))
    return fields


def indented(value: object) -> str:
    """Encode as lines for people; all but ASCII is escaped, which any terminal can show."""
    import json  # noqa: PLC0415 - its reader is needed by few.

    text = json.dumps(msgspec.json.decode(encode(value)))
    return msgspec.json.format(text, indent=1)


def _lifted(value: object) -> object:
    """Return a value whose flat documents stand in their place, as mappings and lists."""
    if isinstance(value, FlatDocument):
        raise TypeError("a flat document stands alone; make it a field of another document")
    if isinstance(value, msgspec.Struct):
        fields = (getattr(value, name) for name in value.__struct_fields__)
        return dict(_pairs(zip(value.__struct_encode_fields__, fields, strict=True)))
    if isinstance(value, Mapping):
        return dict(_pairs(value.items()))
    return [_lifted(inside) for inside in value] if isinstance(value, (list, tuple)) else value


def _pairs(pairs: Iterable[tuple[Any, object]]) -> Iterator[tuple[Any, object]]:
    """Yield keys and values, those of flat documents in their place, and none of `UNSET`."""
    for key, value in pairs:
        if isinstance(value, FlatDocument):
            named = value.values.items()
            yield from _pairs((key if name == "value" else f"{key}_{name}", x) for name, x in named)
        elif value is not UNSET:
            yield key, _lifted(value)


def _known(value: object) -> object:
    """Convert a read-only view of a mapping to a mapping; anything else to its text."""
    if isinstance(value, FlatDocument):
        raise _FlatDocumentError
    return dict(value) if isinstance(value, Mapping) else str(value)


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_known)


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
