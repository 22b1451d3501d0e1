"""Signals of many devices by interval, and usage by resource.

As `accounting.signals` for single readings, over whole columns; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import starmap
from typing import Final

import numpy as np
from msgspec import Struct

from rightsizer.accounting.classification_settings import SignalSettings, UsageSettings
from rightsizer.fleet.cache.day_frame import Floats
from rightsizer.model.block import Measure
from rightsizer.model.device import Device
from rightsizer.model.signal import MEDIA_ENGINES, PIPES, Signal
from rightsizer.model.state import Resource
from rightsizer.model.topology import link_bytes_per_second

COUNTERS: Final = (Signal.SM_ACTIVE, Signal.DRAM_ACTIVE, *PIPES)
"""Profiling counters."""
PCIE: Final = (Signal.PCIE_RECEIVE, Signal.PCIE_TRANSMIT)
NVLINK: Final = (Signal.NVLINK_RECEIVE, Signal.NVLINK_TRANSMIT)


class SignalColumns:
    """Signals by device and interval; `nan` if not measured."""

    def __init__(self, values: Mapping[Signal, Floats], shape: tuple[int, ...]) -> None:
        self._values = dict(values)
        self._unknown = np.full(shape, np.nan)

    def __getitem__(self, signal: Signal) -> Floats:
        return self._values.get(signal, self._unknown)

    def __setitem__(self, signal: Signal, values: Floats) -> None:
        self._values[signal] = values

    def highest(self, *signals: Signal) -> Floats:
        """Return the maximum of some signals."""
        known = (self._values[signal] for signal in signals if signal in self._values)
        return reduce(np.fmax, known, self._unknown)


class DeviceFacts:
    """Facts of devices, a row each; `nan` if unknown."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self.memory_total_bytes = _facts(each.memory_total_bytes for each in devices)
        self.power_limit_watts = _facts(each.power_limit_watts for each in devices)
        self.sm_clock_maximum_hertz = _facts(each.sm_clock_maximum_hertz for each in devices)
        self.achievable_compute_ratio = _facts(each.achievable_compute_ratio for each in devices)
        self.achievable_bandwidth_ratio = _facts(
            each.achievable_bandwidth_ratio for each in devices
        )
        self.nvlink_bytes_per_second = _facts(each.nvlink_bytes_per_second for each in devices)
        links = ((each.pcie_generation_maximum, each.pcie_width_maximum) for each in devices)
        self.pcie_bytes_per_second = _facts(starmap(link_bytes_per_second, links))


def _facts(values: Iterable[float | None]) -> Floats:
    return np.array([[value or np.nan] for value in values], float).reshape(-1, 1)


def power_ratio(watts: Floats, idle: Floats, facts: DeviceFacts) -> Floats:
    """Return draws as ratios of the range from idle to the limit."""
    limit = facts.power_limit_watts
    return _ratio(watts - idle, np.where(limit > idle, limit - idle, np.nan))


def derived(
    read: Mapping[Signal, Floats], facts: DeviceFacts, shape: tuple[int, ...]
) -> SignalColumns:
    """Return the signals of readings, and ratios derived from the devices' capacities."""
    found = SignalColumns(read, shape)
    found[Signal.MEMORY_USED] = _ratio(found[Signal.MEMORY_USED_BYTES], facts.memory_total_bytes)
    for signal in (*PCIE, *NVLINK):
        is_nvlink = signal in NVLINK
        capacity = facts.nvlink_bytes_per_second if is_nvlink else facts.pcie_bytes_per_second
        found[signal] = _ratio(found[Signal(f"{signal}_bytes_per_second")], capacity)
    return found


def _ratio(values: Floats, capacity: Floats) -> Floats:
    return np.clip(values / capacity, 0.0, 1.0)


def clock_ratio(signals: SignalColumns, facts: DeviceFacts) -> Floats:
    """Return the SM clock relative to its maximum, 1 if either is unknown."""
    ratio = _ratio(signals[Signal.SM_CLOCK_HERTZ], facts.sm_clock_maximum_hertz)
    return np.where(np.isnan(ratio), 1.0, ratio)


def dead_counters(
    signals: SignalColumns, settings: SignalSettings, is_read: Floats, were_dead: Floats
) -> Floats:
    """Return where profiling counters read 0 though the device works (dcgm-exporter#662).

    They stay dead over the intervals until one of them changes. `were_dead` marks counters known to
    be dead before.
    """
    is_at_rest = signals.highest(*COUNTERS) == 0.0
    dead = were_dead | (
        (signals[Signal.GPU_BUSY] >= settings.suspect_busy_ratio)
        & (signals[Signal.POWER] >= settings.suspect_power_ratio)
    )
    dead &= is_at_rest
    if dead.any():
        last = np.zeros(len(dead), bool)
        for place in range(dead.shape[1]):
            dead[:, place] |= is_at_rest[:, place] & last
            last = np.where(is_read[:, place], dead[:, place], last)
    return dead


def drop(signals: SignalColumns, dead: Floats, facts: DeviceFacts) -> None:
    """Remove dead counters; SM work is derived from the rest."""
    for counter in COUNTERS:
        signals[counter] = np.where(dead, np.nan, signals[counter])
    signals[Signal.SM_WORK] = signals[Signal.SM_ACTIVE] * clock_ratio(signals, facts)


class UseColumns(Struct, frozen=True):
    """Usage by resource; `nan` if not measured."""

    shares: Mapping[Resource, Floats]
    compute_at_least: Floats
    work: Floats
    """Lower bound of compute, if available."""
    used_ratio: Floats
    """Usage of the busiest resource's achievable part; memory capacity does not count as work."""

    def measures(self, signals: SignalColumns) -> dict[Measure, Floats]:
        """Return the measures as in blocks."""
        resources = {Measure(resource) for resource in self.shares if resource in _MEASURED}
        return {
            Measure.BUSY: signals[Signal.GPU_BUSY],
            Measure.MEMORY_BYTES: signals[Signal.MEMORY_USED_BYTES],
            Measure.COMPUTE_AT_LEAST: self.compute_at_least,
            **{measure: self.shares[Resource(measure)] for measure in resources},
        }


_MEASURED: Final = frozenset(Resource) & frozenset(Measure)


def uses(signals: SignalColumns, facts: DeviceFacts, settings: UsageSettings) -> UseColumns:
    """Return the usage of each resource."""
    busy = signals[Signal.GPU_BUSY]
    clock = clock_ratio(signals, facts)
    achieved = np.minimum(1.0, signals.highest(*PIPES) / facts.achievable_compute_ratio)
    at_least = achieved * clock
    work = signals[Signal.SM_WORK]
    profiled = np.fmax(np.where(np.isnan(work), busy * clock, work), at_least)
    profiled = np.where(np.isnan(work) & np.isnan(busy), np.nan, profiled)
    weight = np.fmin(1.0, signals[Signal.POWER] / settings.working_power_ratio)
    has_counters = ~np.isnan(signals.highest(*COUNTERS))
    at_most = np.where(has_counters, profiled, busy * weight)
    media = signals.highest(*MEDIA_ENGINES)
    shares = {
        Resource.COMPUTE: at_most,
        Resource.MEMORY: signals[Signal.MEMORY_USED],
        Resource.MEMORY_BANDWIDTH: signals[Signal.DRAM_ACTIVE],
        Resource.PCIE: signals.highest(*PCIE),
        Resource.NVLINK: signals.highest(*NVLINK),
        # Few GPUs ever use media engines: for others it would be series of zeros.
        Resource.MEDIA: np.where(media > 0, media, np.nan),
    }
    work = np.where(np.isnan(at_least), at_most, at_least)
    links = np.fmax(shares[Resource.PCIE], shares[Resource.NVLINK])
    traffic = shares[Resource.MEMORY_BANDWIDTH] / facts.achievable_bandwidth_ratio
    media = shares[Resource.MEDIA]
    used = np.fmax.reduce([work, traffic, links / settings.link_achievable_ratio, media])
    return UseColumns(shares, at_least, work, np.minimum(1.0, used))


def saturated(use: UseColumns, settings: UsageSettings) -> dict[Resource, Floats]:
    """Return where each resource is at its limit."""
    limits = {
        Resource.COMPUTE: settings.compute_saturated_ratio,
        Resource.MEMORY: settings.memory_saturated_ratio,
        Resource.MEMORY_BANDWIDTH: settings.bandwidth_saturated_ratio,
        Resource.PCIE: settings.link_saturated_ratio,
        Resource.NVLINK: settings.link_saturated_ratio,
        Resource.MEDIA: settings.compute_saturated_ratio,
    }
    at_work = {**use.shares, Resource.COMPUTE: use.work}
    return {resource: share >= limits[resource] for resource, share in at_work.items()}
