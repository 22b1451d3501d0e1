"""The one way from a value to JSON, by its type, and back."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from operator import is_
from types import NoneType
from typing import Any, Final, TypeAlias, TypeVar, dataclass_transform

import msgspec
from msgspec import UNSET

JsonObject: TypeAlias = dict[str, Any]
"""JSON-serializable object."""

_Value = TypeVar("_Value")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class FlatDocument:
    """Document whose fields stand in the one around it: those of `x` as `x`, `x_low`, `x_high`.

    The field `value` has the key itself. No struct, so that nothing but this codec can encode it.
    """

    def __init__(self, **fields: object) -> None:
        """Create it of the fields that its class declares; a `TypeError` names others."""
        absent = [name for name in type(self).__annotations__ if name not in fields]
        wrong = [*(fields.keys() - type(self).__annotations__.keys())]
        wrong += [name for name in absent if not hasattr(self, name)]
        if wrong:
            raise TypeError(f"{type(self).__name__}: {wrong[0]!r} is missing, or no field of it")
        vars(self).update(fields)


class _Suffixes(JsonObject):
    """Values of a flat document by what stands after its key."""


def encode(value: object) -> bytes:
    """Encode a value: structs by their keys, sets in order, non-finite numbers as null.

    What is no UTF-8 in a text is replaced by question marks.

    Raises:
        TypeError: a type is unknown to JSON, or a flat document is in no other one.
    """
    return _encoded(value, _known)


def stored(value: object) -> str:
    """Encode a value to be read again as its type.

    Raises:
        TypeError: as by `encode`.
        ValueError: it cannot be read again, such as a number that is infinite.
    """
    text = encode(value)
    decode(text, type(value))
    return text.decode()


def plain(document: msgspec.Struct | Mapping[str, object]) -> JsonObject:
    """Convert a document to JSON values, which are those that `encode` writes."""
    fields: JsonObject = msgspec.json.decode(encode(document))
    return fields


def plain_evidence(evidence: Mapping[str, object]) -> JsonObject:
    """Convert values of any kind to JSON values; those of types unknown to JSON as text."""
    fields: JsonObject = msgspec.json.decode(_encoded(evidence, _known_or_text))
    return fields


def indented(value: object) -> str:
    """Encode as lines for people; all but ASCII is escaped, which any terminal can show."""
    import json  # noqa: PLC0415 - its reader is needed by few.

    text = json.dumps(msgspec.json.decode(encode(value)))
    return msgspec.json.format(text, indent=1)


def _encoded(value: object, hook: Callable[[object], object]) -> bytes:
    value = _contained(_laid_out(value))
    try:
        return msgspec.json.encode(value, enc_hook=hook)
    except UnicodeEncodeError:
        import json  # noqa: PLC0415 - few texts have surrogates.

        builtins = msgspec.to_builtins(value, str_keys=True, enc_hook=hook)
        text = json.dumps(builtins, ensure_ascii=False).encode(errors="replace")
        return msgspec.json.encode(json.loads(text))


def _laid_out(value: object) -> object:
    """Return a value with sets in order and flat documents in their place; the rest as it is."""
    if type(value) in _PLAIN_TYPES:
        return value
    if isinstance(value, msgspec.Struct):
        return _laid_out_struct(value)
    if isinstance(value, Mapping):
        fields = {
            key: inside if type(inside) in _PLAIN_TYPES else _laid_out(inside)
            for key, inside in value.items()
        }
        same = all(map(is_, fields.values(), value.values()))
        return value if same else dict(_placed(fields.items()))
    if isinstance(value, (list, tuple)):
        items = [
            inside if type(inside) in _PLAIN_TYPES else _contained(_laid_out(inside))
            for inside in value
        ]
        return value if all(map(is_, items, value)) else items
    if isinstance(value, (set, frozenset)):
        return sorted((_contained(_laid_out(inside)) for inside in value), key=str)
    if isinstance(value, FlatDocument):
        named = ((name, getattr(value, name)) for name in type(value).__annotations__)
        return _Suffixes(
            _placed(
                ("" if name == "value" else f"_{name}", _laid_out(field))
                for name, field in named
                if field is not UNSET
            )
        )
    return value


def _laid_out_struct(value: msgspec.Struct) -> object:
    """Return a struct of its type; one with flat documents as a mapping of its keys."""
    changed = {}
    for name in value.__struct_fields__:
        field = getattr(value, name)
        if type(field) not in _PLAIN_TYPES and (laid_out := _laid_out(field)) is not field:
            changed[name] = laid_out
    if not changed:
        return value
    value = copy(value)
    for name, field in changed.items():
        # Not `replace`, which checks what is for values of the declared types.
        msgspec.structs.force_setattr(value, name, field)
    if not any(isinstance(field, _Suffixes) for field in changed.values()):
        return value
    if value.__struct_config__.array_like:
        raise TypeError(_ALONE)
    # Its keys, but for those of defaults and of `UNSET` if it leaves them out.
    written = msgspec.to_builtins(value, str_keys=True, enc_hook=str)
    names = dict(zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True))
    return dict(
        _placed(
            (key, getattr(value, names[key]) if key in names else tag)
            for key, tag in written.items()
        )
    )


def _placed(fields: Iterable[tuple[Any, object]]) -> Iterator[tuple[Any, object]]:
    """Yield keys and values, those of flat documents in their place."""
    for key, value in fields:
        if isinstance(value, _Suffixes):
            yield from ((f"{key}{suffix}", inside) for suffix, inside in value.items())
        else:
            yield key, value


def _contained(value: object) -> object:
    """Return a value that has no keys for the document around it."""
    if isinstance(value, _Suffixes):
        raise TypeError(_ALONE)
    return value


_ALONE: Final = "a flat document stands alone; make it a field of another document"
_PLAIN_TYPES: Final = frozenset({str, int, float, bool, NoneType})


def _known(value: object) -> object:
    """Convert a read-only view of a mapping to a mapping."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def _known_or_text(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


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
