"""Measures of devices per interval, as in accounting, from means and peaks.

`accounting.usage` defines each measure for a single reading; here it is bounded by the means and
peaks of an interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from rightsizer.accounting.classification_settings import UsageSettings
from rightsizer.fleet.cache.day_frame import ColumnKind, Floats
from rightsizer.fleet.sources.agent.time_columns import Columns, DayAnswers, TimePresence
from rightsizer.model.block import Measure
from rightsizer.model.device import Device
from rightsizer.model.state import Tier
from rightsizer.model.topology import link_bytes_per_second

_PLAIN: Final = (
    (Measure.BUSY, "busy"),
    (Measure.MEMORY_BANDWIDTH, "dram"),
    (Measure.MEMORY_BYTES, "memory_bytes"),
)


def need_power(means: Columns) -> Floats:
    """Return which devices need power: those known in some interval without profiling."""
    busy = means.get("busy")
    work = means.get("sm_work")
    if busy is None:
        return np.zeros(0, bool)
    lacks = np.ones_like(busy, bool) if work is None else np.isnan(work)
    return np.asarray((lacks & ~np.isnan(busy)).any(axis=1))


def measure_columns(
    answers: DayAnswers, presence: TimePresence, devices: Sequence[Device], settings: UsageSettings
) -> dict[str, Floats]:
    """Return means and peaks of the measures, and seconds by tier of telemetry."""
    full = settings.working_power_ratio
    seconds = presence.known_seconds
    unknown = np.full_like(seconds, np.nan)
    means = answers.means
    peaks = answers.peaks
    # The share of time counted as used is an upper bound of the tensor pipe's.
    used = answers.totals.get("seconds", unknown) / np.where(seconds > 0, seconds, np.nan)
    # Upper bound of busy share times power: a product is at most either, and at most that of the
    # peaks at one moment. Without profiling it is what counts as used, unless a link was used
    # more. If the power is unknown, only the busy share bounds it.
    draw = answers.power.get("power", unknown) / full
    mean_bound = _lesser_of(_lesser_of(means.get("busy", unknown), draw), used)
    draw = answers.power.get("power_peak", unknown) / full
    peak_bound = peaks.get("busy", unknown) * np.fmin(1.0, draw)
    lower = _measures(answers, means, devices, mean_bound, used)
    upper = _measures(answers, peaks, devices, peak_bound, unknown)
    links = _links(answers.links, devices)
    columns = {}
    for measure, values in (lower | links["mean"]).items():
        columns[ColumnKind.MEAN.column(measure)] = presence.masked(values)
        if (peak := (upper | links["peak"]).get(measure)) is not None:
            # A gauge covers one second per scrape; the distribution covers all of them.
            is_unknown = np.isnan(peak).all(axis=1, keepdims=True)
            larger = np.where(is_unknown, peak, np.fmax(peak, values))
            columns[ColumnKind.PEAK.column(measure)] = presence.masked(larger)
    return columns | _tier_columns(answers, seconds)


def _measures(
    answers: DayAnswers, columns: Columns, devices: Sequence[Device], bound: Floats, used: Floats
) -> dict[Measure, Floats]:
    """Return the measures of means or peaks; `bound` is compute without profiling."""
    measures = {measure: columns[name] for measure, name in _PLAIN if name in columns}
    if Measure.MEMORY_BYTES in measures:
        totals = _facts((device.memory_total_bytes for device in devices), least=1.0)
        measures[Measure.MEMORY] = measures[Measure.MEMORY_BYTES] / totals
    work = columns.get("sm_work", np.full_like(bound, np.nan))
    compute = work
    tensor = columns.get("tensor")
    clock = answers.means.get("clock")
    if tensor is not None and clock is not None:
        # The exported pipe activity relative to what is achievable, at the actual clock. While the
        # SMs are idle the clock is meaningless, and the pipes are empty.
        achieved = tensor / _facts(device.achievable_compute_ratio for device in devices)
        at_work = np.minimum(1.0, achieved) * np.minimum(1.0, clock)
        pipe = np.where(tensor > 0, at_work, tensor)
        # The mean of values clipped at 1 is less than the clipped mean.
        at_least = np.where(np.isnan(clock).all(axis=1, keepdims=True), np.nan, pipe)
        measures[Measure.COMPUTE_AT_LEAST] = _lesser_of(at_least, used)
        compute = np.fmax(compute, measures[Measure.COMPUTE_AT_LEAST])
    # The upper bound: SM work with profiling, its substitute elsewhere.
    has_no_work = np.isnan(work).all(axis=1, keepdims=True) | np.isnan(compute)
    return measures | {Measure.COMPUTE: np.where(has_no_work, bound, compute)}


def _links(links: Columns, devices: Sequence[Device]) -> Mapping[str, dict[Measure, Floats]]:
    """Return, by `mean` and `peak`, the traffic of links relative to their capacity."""
    rates = {
        Measure.PCIE: (
            link_bytes_per_second(device.pcie_generation_maximum, device.pcie_width_maximum)
            for device in devices
        ),
        Measure.NVLINK: (device.nvlink_bytes_per_second for device in devices),
    }
    traffic: dict[str, dict[Measure, Floats]] = {"mean": {}, "peak": {}}
    for measure, of_devices in rates.items():
        rate = _facts(of_devices, least=1.0)
        for part, columns in traffic.items():
            if (busier := links.get(f"{measure.value}_{part}")) is not None:
                columns[measure] = np.minimum(1.0, busier / rate)
    return traffic


def _facts(values: Iterable[float | None], least: float = 0.0) -> Floats:
    """Return a fact per device, a row each; `nan` if unknown, 0 or below the minimum."""
    return np.array([[value if value and value >= least else np.nan] for value in values], float)


def _tier_columns(answers: DayAnswers, known_seconds: Floats) -> dict[str, Floats]:
    """Return seconds by tier, derived from the metrics present, as in the agent."""
    left = known_seconds
    columns = {}
    for tier, values in (
        (Tier.PROFILING, answers.means.get("sm_work")),
        (Tier.POWER, answers.power.get("power")),
        (Tier.BASIC, answers.means.get("busy")),
        (Tier.NONE, known_seconds),
    ):
        if values is not None:
            # Unknown values stay unknown.
            taken = np.where(np.isnan(values) & ~np.isnan(left), 0.0, left)
            columns[ColumnKind.TIER.column(tier)] = taken
            left = left - taken
    return columns


def _lesser_of(one: Floats, other: Floats) -> Floats:
    """Return the elementwise minimum; where either is unknown, `one`."""
    return np.where(other < one, other, one)
