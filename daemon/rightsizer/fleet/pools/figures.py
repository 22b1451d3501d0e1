"""Figures by the hour, packed: a fortnight of a workload in a kilobyte."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from operator import mul
from typing import Final, overload

from rightsizer.domain.units import Nanoseconds
from rightsizer.fleet.kept.column import Kind
from rightsizer.fleet.kept.days import DayOfSubject, Days
from rightsizer.fleet.kept.grid import COARSE_STEP, DAY
from rightsizer.fleet.view import Hours

__all__ = ["Figures", "hours_of", "latest"]

_HOURS: Final = DAY // COARSE_STEP


class Figures(Sequence[float | None]):
    """Numbers of which some are unknown, in four bytes each."""

    __slots__ = ("_values",)

    def __init__(self, values: Iterable[float]) -> None:
        """Of numbers, `nan` where one is unknown."""
        self._values = array("f", values)

    @overload
    def __getitem__(self, place: int) -> float | None: ...

    @overload
    def __getitem__(self, place: slice) -> Figures: ...

    def __getitem__(self, place: int | slice) -> float | Figures | None:
        if isinstance(place, slice):
            return Figures(self._values[place])
        found = self._values[place]
        return None if math.isnan(found) else found

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[float | None]:
        return (None if math.isnan(value) else value for value in self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


def hours_of(
    days: Days, column: str, start: Nanoseconds, end: Nanoseconds, factor: float = 1.0
) -> Hours:
    """A measure by the hour: the largest of its peaks, the mean of its means.

    Args:
        days: What is kept of a subject.
        column: A column's text, as in `mean:busy`.
        start: The first hour begins with it, or before.
        end: The last hour ends with it, or before.
        factor: By which it is multiplied.
    """
    first, last = start // COARSE_STEP, end // COARSE_STEP
    values = array("f", [math.nan]) * max(0, last - first)
    for day in days.days:
        hour = day.sheet.grid.day * _HOURS - first
        if -_HOURS * day.sheet.grid.days < hour < len(values):
            found = _by_the_hour(day, column)
            if found is not None:
                low, high = max(0, hour), min(len(values), hour + len(found))
                values[low:high] = array("f", map(factor.__mul__, found[low - hour : high - hour]))
    return Hours(first * COARSE_STEP, Figures(values))


def latest(hours: Hours, start: Nanoseconds) -> Hours:
    """The same from a later time on."""
    first = start // COARSE_STEP
    values = hours.values[first - hours.start // COARSE_STEP :]
    return Hours(first * COARSE_STEP, values)


def _by_the_hour(day: DayOfSubject, column: str) -> array[float] | None:
    found = day.sheet.named(column)
    if found is None or day.sheet.grid.step == COARSE_STEP:
        return found
    each = COARSE_STEP // day.sheet.grid.step
    one = _peak if column.startswith(Kind.PEAK) else _mean
    return array(
        "f",
        [
            one(found[place : place + each], day.known[place : place + each])
            for place in range(0, len(found), each)
        ],
    )


def _peak(values: array[float], known: Sequence[float]) -> float:
    del known
    most = max(values)
    if not math.isnan(sum(values)):
        return most
    return max((value for value in values if not math.isnan(value)), default=math.nan)


def _mean(values: array[float], known: Sequence[float]) -> float:
    total = sum(known)
    weighted = sum(map(mul, values, known))
    if not math.isnan(weighted):
        return weighted / total if total > 0 else sum(values) / len(values)
    pairs = [pair for pair in zip(values, known, strict=True) if not math.isnan(pair[0])]
    total = sum(time for _, time in pairs)
    return sum(value * time for value, time in pairs) / total if total > 0 else math.nan
