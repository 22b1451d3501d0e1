"""Columns of a day from metrics of agents: times, measures and demand histograms.

`accounting.usage` defines each measure for a single reading; here it is bounded by the means and
peaks of an interval.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct

from rightsizer.accounting.classification_settings import UsageSettings
from rightsizer.fleet.cache.day_frame import UNKNOWN_STATE, ColumnKind, Floats
from rightsizer.fleet.cache.grid import DAY, Grid
from rightsizer.fleet.columns.distributions import bins_of, histogram_of
from rightsizer.fleet.source import SampledSeries
from rightsizer.fleet.sources.column_interpreter import ColumnInterpreter, facts_of, tiers_of
from rightsizer.fleet.sources.figures import FIGURE, TOTALS
from rightsizer.fleet.sources.series import placed, word_of
from rightsizer.model.values import (
    BINS,
    NANOSECONDS_PER_SECOND,
    Cause,
    Condition,
    Device,
    Histogram,
    Measure,
    Resource,
    Signal,
    State,
    seconds,
)

Columns: TypeAlias = Mapping[str, Floats]
"""By the column of a frame, or the name of a figure; one row per device."""
_WORDS: Final[Mapping[ColumnKind, type[StrEnum]]] = {
    ColumnKind.STATE: State,
    ColumnKind.CONDITION: Condition,
    ColumnKind.WASTE: Cause,
    ColumnKind.WASTE_JOULES: Cause,
}
_TIMES: Final = (
    *(kind.column(word) for kind, words in _WORDS.items() for word in words),
    *(figure.name for figure in TOTALS),
)
"""Columns that agents export; later versions may have others."""
_JOULES: Final = "joules"
_RANKS: Final = ColumnKind.CONDITION.column(Condition.RANK_IMBALANCE)
_PLAIN: Final = (
    (Measure.BUSY, "busy"),
    (Measure.MEMORY_BANDWIDTH, "dram"),
    (Measure.MEMORY_BYTES, "memory_bytes"),
)


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


def time_columns(answers: Columns, presence: TimePresence, grid: Grid) -> dict[str, Floats]:
    """Return seconds by state, condition and cause of waste, joules by cause, and both in total.

    The state `unknown` is the remainder of each interval.
    """
    columns = {
        name: (presence.masked if _JOULES in name else presence.timed)(answers[name])
        for name in _TIMES
        if name in answers
    }
    # Agents compare the GPUs of jobs; a missing value means that nothing was found.
    columns.setdefault(_RANKS, presence.masked(np.zeros_like(presence.known_seconds)))
    return columns | {UNKNOWN_STATE: np.maximum(0.0, seconds(grid.step) - presence.known_seconds)}


def limit_columns(
    answer: Iterable[SampledSeries], rows: Mapping[str, int], known_seconds: Floats, grid: Grid
) -> dict[str, Floats]:
    """Return seconds at the limit and under pressure by resource; `nan` if unknown.

    Shares of a day are spread over its intervals: the time of day is not exported.
    """
    kept = [series for series in answer if series.labels.get("uuid", "") in rows]
    # The latest sample of a single day may come before its end.
    values = placed(kept, grid.by(DAY)) if grid.days > 1 else [series.value for series in kept]
    shares_by_column = defaultdict[str, Floats](lambda: np.full((len(rows), grid.days), np.nan))
    for series, shares in zip(kept, values, strict=True):
        if (resource := word_of(Resource, series.labels.get("resource", ""))) is not None:
            column = ColumnKind(series.labels.get(FIGURE, "")).column(resource.value)
            shares_by_column[column][rows[series.labels["uuid"]]] = shares
    intervals_per_day = known_seconds.shape[1] // grid.days
    return {
        column: np.repeat(np.minimum(shares, 1.0), intervals_per_day, axis=1) * known_seconds
        for column, shares in shares_by_column.items()
    }


def need_power(answers: Columns) -> Floats:
    """Return which devices need power: those known in some interval without profiling."""
    if "busy" not in answers:
        return np.zeros(0, bool)
    busy = answers["busy"]
    work = answers.get("sm_work", np.full_like(busy, np.nan))
    return np.asarray((np.isnan(work) & ~np.isnan(busy)).any(axis=1))


def measure_columns(
    answers: Columns, presence: TimePresence, devices: Sequence[Device], settings: UsageSettings
) -> dict[str, Floats]:
    """Return means and peaks of the measures, and seconds by tier of telemetry."""
    full = settings.working_power_ratio
    known_seconds = presence.known_seconds
    answered = defaultdict(lambda: np.full_like(known_seconds, np.nan), answers)
    # The share of time counted as used is an upper bound of the tensor pipe's.
    used = answered[ColumnKind.USED.column("seconds")] / np.where(
        known_seconds > 0, known_seconds, np.nan
    )
    # Upper bound of busy share times power: a product is at most either, and at most that of the
    # peaks at one moment. Without profiling it is what counts as used, unless a link was used
    # more. If the power is unknown, only the busy share bounds it.
    draw = answered["power"] / full
    mean_bound = _lesser_of(_lesser_of(answered["busy"], draw), used)
    peak_bound = answered["busy_peak"] * np.fmin(1.0, answered["power_peak"] / full)
    unknown = np.full_like(known_seconds, np.nan)
    facts = facts_of(devices)
    lower = _measures(answers, "", facts, mean_bound, used)
    upper = _measures(answers, "_peak", facts, peak_bound, unknown)
    columns = {}
    for measure, values in lower.items():
        columns[ColumnKind.MEAN.column(measure)] = presence.masked(values)
        if (peak := upper.get(measure)) is not None:
            # A gauge covers one second per scrape; the distribution covers all of them.
            is_unknown = np.isnan(peak).all(axis=1, keepdims=True)
            larger = np.where(is_unknown, peak, np.fmax(peak, values))
            columns[ColumnKind.PEAK.column(measure)] = presence.masked(larger)
    return columns | _tier_columns(answers, known_seconds)


def _measures(
    answers: Columns, part: str, facts: Columns, bound: Floats, used: Floats
) -> dict[Measure, Floats]:
    """Return the measures of means or peaks; `bound` is compute without profiling."""
    measures = {
        measure: answers[f"{name}{part}"] for measure, name in _PLAIN if f"{name}{part}" in answers
    }
    if Measure.MEMORY_BYTES in measures:
        measures[Measure.MEMORY] = measures[Measure.MEMORY_BYTES] / facts["memory_total_bytes"]
    work = answers.get(f"sm_work{part}", np.full_like(bound, np.nan))
    compute = work
    tensor = answers.get(f"tensor{part}")
    clock = answers.get("clock")
    if tensor is not None and clock is not None:
        # The exported pipe activity relative to what is achievable, at the actual clock. While the
        # SMs are idle the clock is meaningless, and the pipes are empty.
        achieved = tensor / facts["achievable_compute_ratio"]
        at_work = np.minimum(1.0, achieved) * np.minimum(1.0, clock)
        pipe = np.where(tensor > 0, at_work, tensor)
        # The mean of values clipped at 1 is less than the clipped mean.
        at_least = np.where(np.isnan(clock).all(axis=1, keepdims=True), np.nan, pipe)
        measures[Measure.COMPUTE_AT_LEAST] = _lesser_of(at_least, used)
        compute = np.fmax(compute, measures[Measure.COMPUTE_AT_LEAST])
    # The upper bound: SM work with profiling, its substitute elsewhere.
    has_no_work = np.isnan(work).all(axis=1, keepdims=True) | np.isnan(compute)
    measures[Measure.COMPUTE] = np.where(has_no_work, bound, compute)
    for link in (Measure.PCIE, Measure.NVLINK):
        if (busier := answers.get(f"{link}{part}")) is not None:
            measures[link] = np.minimum(1.0, busier / facts[f"{link}_bytes_per_second"])
    return measures


def _tier_columns(answers: Columns, known_seconds: Floats) -> dict[str, Floats]:
    """Return seconds by tier, derived from the metrics present, as in the agent."""
    names = {"counters": "sm_work", "power": "power", Signal.GPU_BUSY: "busy"}
    read = {signal: answers[name] for signal, name in names.items() if name in answers}
    tiers = tiers_of(ColumnInterpreter(read, None))
    # Unknown values stay unknown.
    return {ColumnKind.TIER.column(tier): known_seconds * is_at for tier, is_at in tiers}


def _lesser_of(one: Floats, other: Floats) -> Floats:
    """Return the elementwise minimum; where either is unknown, `one`."""
    return np.where(other < one, other, one)


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
    columns: Columns,
    known_seconds: Floats,
    working_power_ratio: float,
) -> list[dict[Resource, Histogram]]:
    """Return each device's distributions over the days by resource, including idle time.

    Buckets are wide: within one, time is spread like the peaks of the intervals in it. For memory,
    which hardly changes, the peaks are the distribution. Known seconds are by interval, and so are
    the columns of a frame.
    """
    unknown = np.full((len(known_seconds), len(_EDGES)), np.nan)
    nothing = np.full_like(known_seconds, np.nan)
    names = ("sm_work", "dram", "busy", "power")
    work, dram, busy, power = (buckets.get(name, unknown) for name in names)
    weighed = _weighed(busy, power, working_power_ratio)
    busy = np.where(np.isnan(power) | (power[:, -1:] <= 0), busy, weighed)
    shapes = {
        measure: _times_by_percent(
            columns.get(ColumnKind.PEAK.column(measure), nothing), known_seconds
        )
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
