"""Events in columns: numbers and texts of many events, a row each."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import DTypeLike, NDArray

from rightsizer.profiles.timeline import LATEST, NO_NUMBER, Numbers


class CodedColumn(Struct, frozen=True):
    """Column in which values recur, so that each is kept once."""

    values: Sequence[Any]
    """By code; each is that of a row, and they are in the order of their first rows."""
    codes: Numbers
    """By row."""

    def __len__(self) -> int:
        return self.codes.size

    def __getitem__(self, rows: Numbers) -> "CodedColumn":
        codes, first, places = np.unique(self.codes[rows], return_index=True, return_inverse=True)
        order = np.argsort(first)
        return CodedColumn([self.values[code] for code in codes[order]], np.argsort(order)[places])

    def mapped(self, function: Callable[[Any], Any]) -> "CodedColumn":
        """Return the column of what the values become, which may then be alike."""
        return CodedColumn([*map(function, self.values)], self.codes)

    def array(self, function: Callable[[Any], Any], kind: DTypeLike = np.int64) -> "NDArray[Any]":
        """Return an array of what the values become."""
        return np.array([*map(function, self.values)], kind)[self.codes]


Values: TypeAlias = Sequence[Any] | Numbers
"""Values of one column."""
Texts: TypeAlias = Sequence[Any] | CodedColumn
"""Values of one column that recur and can be hashed."""
_TOGETHER: Final = 4096
"""Events that are kept until they become columns."""


def integers(values: Values) -> Numbers:
    """Return a column of integers: `NO_NUMBER` for what is none, and large ones cut."""
    if isinstance(values, np.ndarray):
        return values
    if {*map(type, values)} <= {int}:
        with suppress(OverflowError):
            return np.array(values, np.int64)
    return np.array(
        [max(-LATEST, min(value, LATEST)) if type(value) is int else NO_NUMBER for value in values],
        np.int64,
    )


def coded(values: Texts) -> CodedColumn:
    """Return a column with each value once."""
    if isinstance(values, CodedColumn):
        return values
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return CodedColumn(
        [*places], np.fromiter(map(places.__getitem__, values), np.int64, len(values))
    )


def ends_of(starts: Numbers, durations: Numbers) -> Numbers:
    """Return the ends of events; those out of all time stay so."""
    return np.clip(starts, -LATEST, LATEST - 1) + np.clip(durations, -LATEST, LATEST)


def chosen(rows: Numbers, *columns: Any) -> tuple[Any, ...]:
    """Return some rows, in order, of columns; `None` for a column that is not there."""
    if rows.size == len(columns[0]):
        return columns
    places = rows.tolist()
    return tuple(
        column[rows]
        if isinstance(column, np.ndarray | CodedColumn)
        else column and [column[place] for place in places]
        for column in columns
    )


def grouped(keys: Texts) -> Iterator[tuple[Any, Numbers]]:
    """Return the rows of each key, in their order."""
    column = coded(keys)
    places = {key: place for place, key in enumerate(dict.fromkeys(column.values))}
    numbers = column.array(places.__getitem__)
    ends = np.cumsum(np.bincount(numbers, minlength=len(places)))
    return zip(places, np.split(np.argsort(numbers, kind="stable"), ends[:-1]), strict=False)


def summed(keys: Numbers, values: Numbers) -> Iterator[tuple[int, int, int]]:
    """Yield each key with its sum and count."""
    unique, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
    sums = np.zeros(unique.size, np.int64)
    np.add.at(sums, places, values)
    return zip(unique.tolist(), sums.tolist(), counts.tolist(), strict=True)


class EventRows:
    """Events that are given one by one, and taken as columns."""

    def __init__(self, take: Callable[..., None]) -> None:
        self._take = take
        self._rows: list[tuple[Any, ...]] = []

    def add(self, *values: Any) -> None:
        """Add an event."""
        self._rows.append(values)
        if len(self._rows) >= _TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Pass on what was added."""
        rows = self._rows
        self._rows = []
        if rows:
            self._take(*zip(*rows, strict=True))
