"""Values of a requirement, read by the dataclass that they end up in."""

from collections.abc import Collection
from dataclasses import MISSING, fields
from enum import StrEnum
from functools import cache
from typing import Any, Final, TypeVar, get_args, get_type_hints

from rightsizer.catalogue.row import Row, shown
from rightsizer.edge.near import near_words

__all__ = ["read_choice", "read_fields"]

_Choice = TypeVar("_Choice", bound=StrEnum)
_MOST: Final = 1e30
_MOST_COUNT: Final = 10**15


def read_choice(row: Row, key: str, choices: type[_Choice]) -> _Choice | None:
    """One of some words, `None` where it is absent."""
    value = row.values.get(key)
    if value is None:
        return None
    known = [str(each) for each in choices]
    if isinstance(value, str) and value in known:
        return choices(value)
    near = near_words(str(value), known)
    hint = f"did you mean '{near[0]}'? Known are" if near else "take one of"
    row.fault(key, f"{shown(value)} is not known; {hint} {', '.join(known)}")
    return None


def read_fields(
    row: Row, kind: type, *, apart: Collection[str] = (), beside: Collection[str] = ()
) -> dict[str, Any]:
    """What a row says of the fields of a dataclass; those left out have their defaults.

    Args:
        row: The mapping.
        kind: The dataclass.
        apart: Fields that are read elsewhere.
        beside: Keys that are no fields and are read elsewhere.
    """
    types = _types(kind)
    row.refuse_unknown((*types, *beside))
    values = {}
    for name, kept in types.items():
        if name in apart:
            continue
        if row.values.get(name) is None:
            if name in _needed(kind):
                row.fault(name, "is required; give it as published")
            continue
        value = _value(row, name, kept)
        if value is not None:
            values[name] = value
    return values


def _value(row: Row, name: str, kept: type) -> Any:
    if kept is bool:
        value = row.values[name]
        if isinstance(value, bool):
            return value
        row.fault(name, f"must be true or false (got {shown(value)})")
        return None
    if kept is int:
        return row.count(name, -_MOST_COUNT, _MOST_COUNT)
    if kept is float:
        return row.number(name, -_MOST, _MOST)
    return row.text(name)


@cache
def _types(kind: type) -> dict[str, type]:
    """By field, without what is not written in a file."""
    hints = get_type_hints(kind)
    plain = {
        each.name: next(
            (part for part in get_args(hints[each.name]) if part is not type(None)),
            hints[each.name],
        )
        for each in fields(kind)
    }
    return {name: kept for name, kept in plain.items() if name != "assumed"}


@cache
def _needed(kind: type) -> frozenset[str]:
    return frozenset(
        each.name
        for each in fields(kind)
        if each.default is MISSING and each.default_factory is MISSING
    )
