"""Columns of seconds and joules: states, conditions, causes, and time at a resource's limit."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from operator import add
from typing import Final

from rightsizer.fleet.cache.day_frame import ColumnKind, DayColumn
from rightsizer.fleet.cache.grid import DAY, Grid
from rightsizer.fleet.sources.agent.metrics import FIGURE, Labels, MetricForm
from rightsizer.fleet.sources.series import placed, word_of
from rightsizer.fleet.store import SampledSeries
from rightsizer.model.state import Cause, Condition, Resource, State
from rightsizer.model.units import Nanoseconds, seconds

_TOTALS: Final = {
    "seconds": DayColumn(ColumnKind.USED, "seconds"),
    "energy": DayColumn(ColumnKind.ENERGY, "joules"),
}


_STATES: Final = {state.value: DayColumn.state(state) for state in State}
_CONDITIONS: Final = {each.value: DayColumn.condition(each) for each in Condition}
_CAUSES: Final = {cause.value: DayColumn.waste(cause) for cause in Cause}
_CAUSES_OF_ENERGY: Final = {
    cause.value: DayColumn(ColumnKind.WASTE_JOULES, cause.value) for cause in Cause
}
_UNKNOWN: Final = DayColumn.state(State.UNKNOWN)


@dataclass(frozen=True, slots=True)
class TimePresence:
    """In which stretches an agent told of the device, and how much of them it knew."""

    known_seconds: array[float]
    """By stretch, `nan` where nobody told of it."""
    factors: array[float] | None
    """What shortens times that came out longer than the stretch; `None` where none did."""
    is_whole: bool
    """Whether it was there in all of them."""

    def masked(self, values: Sequence[float]) -> array[float]:
        """A column without the stretches in which the device was not there."""
        if self.is_whole:
            # By way of a list, as one array is slowly made of another.
            return array("f", values.tolist() if isinstance(values, array) else values)
        pairs = zip(values, self.known_seconds, strict=True)
        return array("f", [value if known == known else math.nan for value, known in pairs])  # noqa: PLR0124 - The quickest way to find a nan.

    def timed(self, values: array[float]) -> array[float]:
        """The same of seconds, which are shortened as the states are."""
        return self.masked(values if self.factors is None else _product(values, self.factors))


def presence_of(states: Mapping[str, array[float]], grid: Grid) -> TimePresence:
    """What the seconds by state say: stretches of which they tell nothing are not there.

    A range that does not begin with a scrape is extended by up to an interval, so that states may
    come out longer than the stretch by a hair.
    """
    step = seconds(grid.step)
    first, *others = states.values()
    sums: Iterable[float] = first
    for other in others:
        sums = map(add, sums, other)
    totals = list(sums)
    factors = None
    if max(totals) > step:
        factors = array("d", [step / total if total > step else 1.0 for total in totals])
    unknown = states.get(State.UNKNOWN.value)
    known = totals if unknown is None else [a - b for a, b in zip(totals, unknown, strict=True)]
    if factors is not None:
        known = [part * factor for part, factor in zip(known, factors, strict=True)]
    is_whole = min(totals) > 0
    if not is_whole:
        known = [part if total > 0 else math.nan for part, total in zip(known, totals, strict=True)]
    return TimePresence(array("d", known), factors, is_whole)


def state_columns(
    states: Mapping[str, array[float]], presence: TimePresence, grid: Grid
) -> dict[DayColumn, array[float]]:
    """Seconds by state; `unknown` is what the known ones leave of each stretch."""
    step = seconds(grid.step)
    found = {
        _STATES[name]: presence.timed(values)
        for name, values in states.items()
        if name in _STATES and _STATES[name] is not _UNKNOWN
    }
    left = map(step.__sub__, presence.known_seconds)
    found[_UNKNOWN] = array("f", [0.0 if part < 0 else part for part in left])
    return found


def seconds_columns(
    conditions: Mapping[str, array[float]],
    causes: Mapping[str, array[float]],
    presence: TimePresence,
) -> dict[DayColumn, array[float]]:
    """Seconds by condition, and seconds' worth by cause of waste."""
    told = chain(_known(_CONDITIONS, conditions), _known(_CAUSES, causes))
    return {column: presence.timed(values) for column, values in told}


def energy_columns(
    joules: Mapping[str, array[float]], totals: Mapping[str, array[float]], presence: TimePresence
) -> dict[DayColumn, array[float]]:
    """Joules by cause of waste, what was drawn in all, and the time's worth that was used."""
    found = {
        column: presence.masked(values) for column, values in _known(_CAUSES_OF_ENERGY, joules)
    }
    for name, column in _TOTALS.items():
        if name in totals:
            is_time = name == "seconds"
            place = presence.timed if is_time else presence.masked
            found[column] = place(totals[name])
    return found


def _known(
    names: Mapping[str, DayColumn], columns: Mapping[str, array[float]]
) -> Iterable[tuple[DayColumn, array[float]]]:
    """Those whose names we know: an agent of a later version may export others."""
    return ((names[name], values) for name, values in columns.items() if name in names)


def _product(values: array[float], factors: array[float]) -> array[float]:
    return array("d", [value * factor for value, factor in zip(values, factors, strict=True)])


LIMITS: Final = {
    ColumnKind.SATURATED: "rightsizer_saturated_ratio",
    ColumnKind.PRESSED: "rightsizer_underprovisioned_ratio",
}
_DAY: Final = {"window": "24h"}


def limits_query(names: AbstractSet[str], labels: Labels, span: Nanoseconds) -> str | None:
    """The latest shares of a day within a span; `None` where there are none."""
    parts = []
    for kind, name in LIMITS.items():
        if name in names:
            latest = MetricForm(name, "last_over_time").promql({**labels, **_DAY}, span)
            share = f"max by (uuid, resource) ({latest})"
            parts.append(
                f'label_replace(round({share}, 0.0001), "{FIGURE}", "{kind.value}", "", "")'
            )
    return " or ".join(parts) or None


def pressure_columns(
    limits: Mapping[str, Iterable[SampledSeries]], known: array[float], grid: Grid
) -> dict[DayColumn, array[float]]:
    """Seconds by resource, each stretch with its part: when in the day it was is not exported."""
    each = grid.count // grid.days
    days = [known[day * each : (day + 1) * each] for day in range(grid.days)]
    are_even = [part.count(part[0]) == each for part in days]
    by_day = grid.by(DAY) if grid.days > 1 else None
    found = {}
    for kind, answers in limits.items():
        for series in answers:
            resource = word_of(Resource, series.labels.get("resource", ""))
            if resource is not None:
                shares = series.values[-1:] if by_day is None else placed(series, by_day)
                column = array("f")
                for share, part, is_even in zip(shares, days, are_even, strict=True):
                    # In this order, what is unknown stays so.
                    ratio = min(share, 1.0)
                    if is_even:
                        column += array("f", [ratio * part[0]]) * each
                    else:
                        column.extend(map(ratio.__mul__, part))
                found[DayColumn(ColumnKind(kind), resource.value)] = column
    return found
