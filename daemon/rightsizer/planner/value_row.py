"""Fields of a value class, read from a row of a plan by their types."""

from collections.abc import Collection
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Any, Final, TypeVar, get_args, get_origin

from msgspec.structs import fields

from rightsizer.config.row import Row, shown
from rightsizer.io.near import near_words

_Choice = TypeVar("_Choice", bound=StrEnum)
_MOST: Final = 1e30
_MOST_COUNT: Final = 10**15


def read_choice(row: Row, key: str, choices: type[_Choice]) -> _Choice | None:
    """Read an enumerated value, `None` if absent."""
    if key not in row:
        return None
    value = row.values[key]
    known = [str(each) for each in choices]
    if isinstance(value, str) and value.lower() in known:
        return choices(value.lower())
    near = near_words(str(value), known)
    hint = f"did you mean '{near[0]}'? Known are" if near else "take one of"
    row.fault(key, f"{shown(value)} is not known; {hint} {', '.join(known)}")
    return None


def read_fields(row: Row, kind: type, beside: Collection[str] = ()) -> dict[str, Any]:
    """Read the fields of a value class from a row; keys in `beside` are read elsewhere."""
    types = _types(kind)
    row.refuse_unknown((*types, *beside))
    values = {}
    for name, (kept, is_needed) in types.items():
        if name not in row and is_needed:
            row.fault(name, "is required; give it as published")
        value = _value(row, name, kept) if name in row else None
        if value is not None:
            values[name] = value
    return values


def _value(row: Row, name: str, kept: Any) -> Any:
    if get_origin(kept) is tuple:
        return row.texts(name)
    if issubclass(kept, StrEnum):
        return read_choice(row, name, kept)
    if kept is bool:
        value = row.values[name]
        if not isinstance(value, bool):
            row.fault(name, f"must be true or false (got {shown(value)})")
        return value if isinstance(value, bool) else None
    if kept is int and isinstance(row.values[name], str):
        amount = row.amount(name, -_MOST_COUNT, _MOST_COUNT)
        return None if amount is None else int(amount)
    if kept is int:
        return row.count(name, -_MOST_COUNT, _MOST_COUNT)
    return row.amount(name, -_MOST, _MOST) if kept is float else row.text(name)


@cache
def _types(kind: type) -> dict[str, tuple[Any, bool]]:
    """Return the type of each field written in a file, and whether it is required."""
    types = {}
    for field in fields(kind):
        hint = field.type
        kept = get_args(hint)[0] if NoneType in get_args(hint) else hint
        types[field.name] = kept, field.required
    return types
