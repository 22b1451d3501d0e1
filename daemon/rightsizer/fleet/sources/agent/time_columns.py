"""Columns of a day by time, and demand histograms, from metrics of agents."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from math import ceil
from operator import mul, sub
from typing import Final, TypeAlias

from rightsizer.fleet.cache.day_frame import DAY, ColumnKind, Grid
from rightsizer.fleet.source import SampledSeries
from rightsizer.fleet.sources.agent.metrics import FIGURE
from rightsizer.fleet.sources.series import placed, word_of
from rightsizer.model.block import Measure
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.histogram import BINS, Histogram
from rightsizer.model.state import Cause, Condition, Resource, State
from rightsizer.model.units import NANOSECONDS_PER_SECOND, nanoseconds, seconds

_UNKNOWN: Final = ColumnKind.STATE.column(State.UNKNOWN)

Columns: TypeAlias = "Mapping[str, array[float]]"
Buckets = Mapping[str, Mapping[float, float]]
"""By figure, the seconds up to each edge."""


@dataclass(frozen=True, slots=True)
class DeviceAnswers:
    """What a store says of one device's day, by the values of labels or names of figures."""

    states: Columns = field(default_factory=dict)
    conditions: Columns = field(default_factory=dict)
    waste: Columns = field(default_factory=dict)
    idle_joules: Columns = field(default_factory=dict)
    totals: Columns = field(default_factory=dict)
    means: Columns = field(default_factory=dict)
    peaks: Columns = field(default_factory=dict)
    links: Columns = field(default_factory=dict)
    power: Columns = field(default_factory=dict)
    buckets: Buckets = field(default_factory=dict)
    limits: Mapping[str, Sequence[SampledSeries]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TimePresence:
    """In which intervals an agent exported the device, and how much of them it knew."""

    known_seconds: array[float]
    """By interval, `nan` where nothing was exported."""
    factors: array[float] | None
    """What shortens times that came out longer than the interval; `None` where none did."""
    is_whole: bool
    """Whether it was there in all of them."""

    def masked(self, values: Sequence[float]) -> array[float]:
        """A column without the intervals in which the device was not there."""
        if self.is_whole:
            # By way of a list, as one array is slowly made of another.
            return array("f", values.tolist() if isinstance(values, array) else values)
        pairs = zip(values, self.known_seconds, strict=True)
        return array("f", [value if known == known else math.nan for value, known in pairs])  # noqa: PLR0124 - The quickest way to find a nan.

    def timed(self, values: array[float]) -> array[float]:
        """The same of seconds, which are shortened as the states are."""
        if self.factors is not None:
            values = array("d", map(mul, values, self.factors))
        return self.masked(values)


def presence_of(states: Mapping[str, array[float]], grid: Grid) -> TimePresence:
    """What the seconds by state say: intervals without any are not there.

    A range that does not begin with a scrape is extended by up to an interval, so that states may
    come out longer than the interval by a hair.
    """
    step = seconds(grid.step)
    totals = [sum(parts) for parts in zip(*states.values(), strict=True)]
    factors = None
    if max(totals) > step:
        factors = array("d", [step / total if total > step else 1.0 for total in totals])
    known = list(map(sub, totals, states.get(State.UNKNOWN.value, [0.0] * len(totals))))
    if factors is not None:
        known = list(map(mul, known, factors))
    is_whole = min(totals) > 0
    if not is_whole:
        known = [part if total > 0 else math.nan for part, total in zip(known, totals, strict=True)]
    return TimePresence(array("d", known), factors, is_whole)


def time_columns(
    answers: DeviceAnswers, presence: TimePresence, grid: Grid
) -> dict[str, array[float]]:
    """Seconds by state, condition and cause of waste, joules by cause, and both in all.

    The state `unknown` is what the known ones leave of each interval.
    """
    found: dict[str, array[float]] = {}
    for kind, members, columns in (
        (ColumnKind.STATE, {*State}, answers.states),
        (ColumnKind.CONDITION, {*Condition}, answers.conditions),
        (ColumnKind.WASTE, {*Cause}, answers.waste),
        (ColumnKind.WASTE_JOULES, {*Cause}, answers.idle_joules),
    ):
        place = presence.masked if kind is ColumnKind.WASTE_JOULES else presence.timed
        # An agent of a later version may export others.
        found |= {kind.column(name): place(columns[name]) for name in columns if name in members}
    # Agents compare the GPUs of jobs; what no store has to tell is that nothing was found.
    ranks = ColumnKind.CONDITION.column(Condition.RANK_IMBALANCE)
    if ranks not in found:
        found[ranks] = presence.masked(array("f", [0.0]) * grid.count)
    if "seconds" in answers.totals:
        found[ColumnKind.USED.column("seconds")] = presence.timed(answers.totals["seconds"])
    if "energy" in answers.totals:
        found[ColumnKind.ENERGY.column("joules")] = presence.masked(answers.totals["energy"])
    left = map(seconds(grid.step).__sub__, presence.known_seconds)
    found[_UNKNOWN] = array("f", [0.0 if part < 0 else part for part in left])
    return found


def pressure_columns(
    limits: Mapping[str, Iterable[SampledSeries]], known: array[float], grid: Grid
) -> dict[str, array[float]]:
    """Seconds by resource, each interval with its part: when in the day it was is not exported."""
    each = grid.count // grid.days
    days = [known[day * each : (day + 1) * each] for day in range(grid.days)]
    are_even = [part.count(part[0]) == each for part in days]
    found = {}
    for kind, answers in limits.items():
        for series in answers:
            resource = word_of(Resource, series.labels.get("resource", ""))
            if resource is None:
                continue
            shares = placed(series, grid.by(DAY)) if grid.days > 1 else series.values[-1:]
            column = array("f")
            for share, part, is_even in zip(shares, days, are_even, strict=True):
                ratio = min(share, 1.0)  # In this order, what is unknown stays so.
                if is_even:
                    column += array("f", [ratio * part[0]]) * each
                else:
                    column.extend(map(ratio.__mul__, part))
            found[ColumnKind(kind).column(resource.value)] = column
    return found


_ALL: Final = BINS - 1
_ROUNDING: Final = 1e-9
_EDGES: Final = (0, 2, 5, 10, 25, 50, 65, 80, 90, 95, 100)
"""Those of the exported buckets, in percent."""


def buckets_of(answer: Iterable[SampledSeries]) -> dict[str, dict[str, dict[float, float]]]:
    """The buckets of an answer, all its days together, by uuid, figure and edge."""
    found: dict[str, dict[str, dict[float, float]]] = {}
    for series in answer:
        labels = series.labels
        figures = found.setdefault(labels.get("uuid", ""), {})
        edges = figures.setdefault(labels.get(FIGURE, ""), {})
        edges[float(labels.get("le", "inf"))] = sum(series.values)
    return found


def demands_of(
    buckets: Buckets,
    peaks: Mapping[Measure, array[float]],
    known: array[float],
    working_power_ratio: float,
) -> dict[Resource, Histogram]:
    """The days' distributions by resource, idle time included.

    Buckets are wide: within one, time is spread as those intervals whose peaks lie in it. The peaks
    of memory, which hardly moves, are its distribution. Known seconds are by interval.
    """
    shapes = {measure: _peaks(values, known) for measure, values in peaks.items()}
    edges = {figure: _cumulative(counts) for figure, counts in buckets.items()}
    compute, traffic = edges.get("sm_work", edges.get("busy")), edges.get("dram")
    if compute is not None and "power" in edges and "sm_work" not in edges:
        compute = _weighed(compute, edges["power"], working_power_ratio)
    memory = shapes.get(Measure.MEMORY, {})
    found = {Resource.MEMORY: {at: float(nanoseconds(length)) for at, length in memory.items()}}
    if compute is not None:
        found[Resource.COMPUTE] = _shaped(compute, shapes.get(Measure.COMPUTE, {}))
    if traffic is not None:
        shape = shapes.get(Measure.MEMORY_BANDWIDTH, {})
        found[Resource.MEMORY_BANDWIDTH] = _shaped(traffic, shape)
    return {resource: Histogram(bins) for resource, bins in found.items() if sum(bins.values()) > 0}


def _peaks(values: array[float], known: array[float]) -> dict[int, float]:
    """Known seconds by the percent of their interval's peak."""
    length = known[0] if known else 0.0
    if known.count(length) == len(known):
        # Most intervals are known as a whole, and answers are rounded: few numbers stand for all.
        times = [(share, number * length) for share, number in Counter(values).items()]
    else:
        times = list(zip(values, known, strict=True))
    found: dict[int, float] = {}
    for share, time in times:
        if share >= 0 and time > 0:
            # As `bin_of`, which would be called for every interval of a fleet.
            percent = _ALL if share >= 1.0 else ceil(share * _ALL - _ROUNDING)
            found[percent] = found.get(percent, 0.0) + time
    return found


def _weighed(busy: list[float], power: list[float], full: float) -> list[float]:
    """Up to which edge busy time times power came, at the most.

    A product of two shares is at most the lesser, so at least as much time lies below any edge
    as of either: the larger of the two holds for the product too.
    """
    if power[-1] <= 0:
        return busy
    scale = busy[-1] / power[-1]
    # What surely lies below any percent: all of a bucket may lie at its upper end.
    below = [power[bisect_right(_EDGES, edge * full) - 1] * scale for edge in _EDGES[:-1]]
    return list(map(max, busy, [*below, busy[-1]]))


def _cumulative(counts: Mapping[float, float]) -> list[float]:
    """Seconds up to each edge."""
    found = {round(edge * _ALL): count for edge, count in counts.items() if edge <= 1.0}
    # Counters of one histogram are extended to the ends of a range each by itself; one that
    # did not grow at all may be missing.
    return list(accumulate((found.get(edge, 0.0) for edge in _EDGES), max))


def _shaped(cumulative: list[float], shape: Mapping[int, float]) -> dict[int, float]:
    """Nanoseconds by percent from seconds up to each edge, within buckets as the shape is."""
    weights: dict[int, float] = {}
    for (before, count), (low, high) in zip(
        pairwise([0.0, *cumulative]), pairwise([-1, *_EDGES]), strict=True
    ):
        if count > before:
            inside = range(low + 1, high + 1)
            weight = (count - before) * NANOSECONDS_PER_SECOND
            own = {percent: shape[percent] for percent in inside if percent in shape}
            own = own or dict.fromkeys(inside, 1.0)
            unit = weight / sum(own.values())
            weights |= {percent: float(round(part * unit)) for percent, part in own.items()}
    return weights
