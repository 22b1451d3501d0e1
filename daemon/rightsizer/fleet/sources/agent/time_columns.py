"""Time columns and demand histograms of a day, from metrics of agents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct

from rightsizer.fleet.cache.day_frame import UNKNOWN_STATE, ColumnKind, Floats
from rightsizer.fleet.cache.grid import DAY, Grid
from rightsizer.fleet.columns.distributions import bins_of, histogram_of
from rightsizer.fleet.source import SampledSeries
from rightsizer.fleet.sources.agent.metrics import FIGURE
from rightsizer.fleet.sources.series import placed, word_of
from rightsizer.model.block import Measure
from rightsizer.model.histogram import BINS, Histogram
from rightsizer.model.state import Cause, Condition, Resource, State
from rightsizer.model.units import NANOSECONDS_PER_SECOND, seconds

Columns: TypeAlias = Mapping[str, Floats]
"""By the value of a label or the name of a figure; one row per device."""


class DayAnswers(Struct, frozen=True):
    """A store's answers about some devices' day."""

    states: Columns = {}
    conditions: Columns = {}
    waste: Columns = {}
    idle_joules: Columns = {}
    totals: Columns = {}
    means: Columns = {}
    peaks: Columns = {}
    links: Columns = {}
    power: Columns = {}
    buckets: Columns = {}
    """By figure, the seconds up to each edge."""
    limits: Columns = {}
    """By column, the share of each day."""


class TimePresence(Struct, frozen=True):
    """Intervals in which an agent exported devices, and how much of them was known."""

    known_seconds: Floats
    """By device and interval, `nan` if nothing was exported."""
    factors: Floats
    """Factors that scale times which exceed the interval."""

    def masked(self, values: Floats) -> Floats:
        """Return a column without the intervals in which a device was absent."""
        return np.where(np.isnan(self.known_seconds), np.nan, values)

    def timed(self, values: Floats) -> Floats:
        """Return masked seconds, scaled as the states are."""
        return self.masked(values * self.factors)


def presence_of(states: Columns, grid: Grid) -> TimePresence:
    """Derive presence from seconds by state: intervals without any are absent.

    A range that does not begin with a scrape is extended by up to an interval, so that states may
    slightly exceed the interval.
    """
    totals: Floats = sum(states.values(), np.zeros(()))
    step = seconds(grid.step)
    factors = step / np.maximum(totals, step)
    known_seconds = (totals - states.get(State.UNKNOWN.value, 0.0)) * factors
    return TimePresence(np.where(totals > 0, known_seconds, np.nan), factors)


def time_columns(answers: DayAnswers, presence: TimePresence, grid: Grid) -> dict[str, Floats]:
    """Return seconds by state, condition and cause of waste, joules by cause, and both in total.

    The state `unknown` is the remainder of each interval.
    """
    placed_columns: dict[str, Floats] = {}
    for kind, members, columns in (
        (ColumnKind.STATE, {*State}, answers.states),
        (ColumnKind.CONDITION, {*Condition}, answers.conditions),
        (ColumnKind.WASTE, {*Cause}, answers.waste),
        (ColumnKind.WASTE_JOULES, {*Cause}, answers.idle_joules),
    ):
        place = presence.masked if kind is ColumnKind.WASTE_JOULES else presence.timed
        # Later versions of agents may export others.
        placed_columns |= {
            kind.column(name): place(columns[name]) for name in columns if name in members
        }
    # Agents compare the GPUs of jobs; a missing value means that nothing was found.
    ranks = ColumnKind.CONDITION.column(Condition.RANK_IMBALANCE)
    placed_columns.setdefault(ranks, presence.masked(np.zeros_like(presence.known_seconds)))
    if "seconds" in answers.totals:
        placed_columns[ColumnKind.USED.column("seconds")] = presence.timed(
            answers.totals["seconds"]
        )
    if "energy" in answers.totals:
        placed_columns[ColumnKind.ENERGY.column("joules")] = presence.masked(
            answers.totals["energy"]
        )
    placed_columns[UNKNOWN_STATE] = np.maximum(0.0, seconds(grid.step) - presence.known_seconds)
    return placed_columns


def limits_of(
    answer: Iterable[SampledSeries], uuids: Mapping[str, int], grid: Grid
) -> dict[str, Floats]:
    """Return, by column of seconds and device, the share of each day; `nan` if unknown."""
    shares_by_column = defaultdict[str, Floats](lambda: np.full((len(uuids), grid.days), np.nan))
    kept = [
        sampled_series
        for sampled_series in answer
        if sampled_series.labels.get("uuid", "") in uuids
    ]
    # The latest sample of a single day may come before its end.
    values = (
        placed(kept, grid.by(DAY))
        if grid.days > 1
        else [sampled_series.value for sampled_series in kept]
    )
    for series, shares in zip(kept, values, strict=True):
        labels = series.labels
        if (resource := word_of(Resource, labels.get("resource", ""))) is not None:
            column = ColumnKind(labels.get(FIGURE, "")).column(resource.value)
            shares_by_column[column][uuids[labels["uuid"]]] = shares
    return shares_by_column


def pressure_columns(limits: Columns, known_seconds: Floats, grid: Grid) -> dict[str, Floats]:
    """Spread seconds by resource over the intervals: the time of day is not exported."""
    intervals_per_day = known_seconds.shape[1] // grid.days
    return {
        column: np.repeat(np.minimum(shares, 1.0), intervals_per_day, axis=1) * known_seconds
        for column, shares in limits.items()
    }


_EDGES: Final = np.array((0, 2, 5, 10, 25, 50, 65, 80, 90, 95, 100))
"""Edges of the exported buckets, in percent."""
_FIRST_BINS: Final = (0, *(_EDGES[:-1] + 1).tolist())
_BUCKETS: Final = np.searchsorted(_EDGES, np.arange(BINS))
_WIDTHS: Final = np.bincount(_BUCKETS)


def buckets_of(answer: Iterable[SampledSeries], uuids: Mapping[str, int]) -> dict[str, Floats]:
    """Return seconds up to each edge by figure and device, over all days; `nan` if unknown."""
    places = {int(edge): place for place, edge in enumerate(_EDGES)}
    # A bucket that did not grow may be missing.
    counts = defaultdict[str, Floats](lambda: np.zeros((len(uuids), len(_EDGES))))
    is_unknown = defaultdict[str, Floats](lambda: np.ones((len(uuids), 1), bool))
    for series in answer:
        labels = series.labels
        edge = float(labels.get("le", "inf"))
        row = uuids.get(labels.get("uuid", ""))
        if row is not None:
            figure = labels.get(FIGURE, "")
            is_unknown[figure][row] = False
            if edge <= 1.0 and (place := places.get(round(edge * (BINS - 1)))) is not None:
                counts[figure][row, place] = series.values.sum()
    # Counters of one histogram are extrapolated to a range's ends separately.
    return {
        figure: np.where(unknown, np.nan, np.maximum.accumulate(counts[figure], axis=1))
        for figure, unknown in is_unknown.items()
    }


def demands_of(
    buckets: Columns,
    peaks: Mapping[Measure, Floats],
    known_seconds: Floats,
    working_power_ratio: float,
) -> list[dict[Resource, Histogram]]:
    """Return each device's distributions over the days by resource, including idle time.

    Buckets are wide: within one, time is spread like the peaks of the intervals in it. For memory,
    which hardly changes, the peaks are the distribution. Known seconds are by interval.
    """
    unknown = np.full((len(known_seconds), len(_EDGES)), np.nan)
    nothing = np.full_like(known_seconds, np.nan)
    names = ("sm_work", "dram", "busy", "power")
    work, dram, busy, power = (buckets.get(name, unknown) for name in names)
    weighed = _weighed(busy, power, working_power_ratio)
    busy = np.where(np.isnan(power) | (power[:, -1:] <= 0), busy, weighed)
    shapes = {
        measure: _times_by_percent(peaks.get(measure, nothing), known_seconds)
        for measure in (Measure.COMPUTE, Measure.MEMORY_BANDWIDTH, Measure.MEMORY)
    }
    weights = {
        Resource.MEMORY: shapes[Measure.MEMORY],
        Resource.COMPUTE: _shaped(np.where(np.isnan(work), busy, work), shapes[Measure.COMPUTE]),
        Resource.MEMORY_BANDWIDTH: _shaped(dram, shapes[Measure.MEMORY_BANDWIDTH]),
    }
    demands: list[dict[Resource, Histogram]] = [{} for _ in known_seconds]
    for resource, of_devices in weights.items():
        for histograms, bins in zip(
            demands, np.rint(of_devices * NANOSECONDS_PER_SECOND), strict=True
        ):
            if (bins > 0).any():
                histograms[resource] = histogram_of(bins)
    return demands


def _times_by_percent(peaks: Floats, known_seconds: Floats) -> Floats:
    counts = (peaks >= 0) & (known_seconds > 0)
    rows = np.nonzero(counts)[0]
    bins = rows * BINS + bins_of(peaks[counts])
    return np.bincount(bins, known_seconds[counts], len(known_seconds) * BINS).reshape(-1, BINS)


def _weighed(busy: Floats, power: Floats, full: float) -> Floats:
    """Bound the distribution of busy time times power: a product is at most the lesser of two."""
    # What surely lies below any percent: all of a bucket may lie at its upper end.
    places = np.searchsorted(_EDGES, _EDGES[:-1] * full, side="right") - 1
    below = power[:, places] * (busy[:, -1:] / np.where(power[:, -1:] > 0, power[:, -1:], np.nan))
    return np.concatenate((np.fmax(busy[:, :-1], below), busy[:, -1:]), axis=1)


def _shaped(cumulative: Floats, shape: Floats) -> Floats:
    """Convert seconds up to each edge to seconds by percent, shaped by peaks within buckets."""
    gained = np.maximum(0.0, np.diff(cumulative, axis=1, prepend=0.0))
    totals = np.add.reduceat(shape, _FIRST_BINS, axis=1)
    # Without peaks in a bucket, its percents have equal shares.
    parts = np.where(totals[:, _BUCKETS] > 0, shape, 1.0)
    return parts * (gained / np.where(totals > 0, totals, _WIDTHS))[:, _BUCKETS]
