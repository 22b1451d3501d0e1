"""States and conditions of many devices by interval, and pressure on their applications.

As `accounting.classification`, `accounting.conditions` and `PressureDetector` for one interval,
over whole columns; a test compares the two. An exporter does not report hosts, processes and link
generations, so states and conditions that depend on them are absent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from rightsizer.accounting.classification_settings import ClassificationSettings, ConditionSettings
from rightsizer.accounting.conditions import ImbalanceDetector, job_of
from rightsizer.accounting.settings import ImbalanceSettings, PressureSettings
from rightsizer.fleet.cache.day_frame import Floats
from rightsizer.fleet.cache.grid import Grid
from rightsizer.fleet.model import DeviceHolding
from rightsizer.fleet.sources.dcgm_exporter.signal_columns import (
    COUNTERS,
    NVLINK,
    PCIE,
    DeviceFacts,
    SignalColumns,
)
from rightsizer.model.device import Device
from rightsizer.model.driver_codes import ClockEvent
from rightsizer.model.signal import MEDIA_ENGINES, PIPES, Signal
from rightsizer.model.state import Condition, Resource, State
from rightsizer.model.units import nanoseconds, seconds
from rightsizer.model.workload import Allocator, Holding

_POWER_CAP: Final = int(ClockEvent.SW_POWER_CAP)
_THERMAL: Final = int(ClockEvent.SW_THERMAL_SLOWDOWN | ClockEvent.HW_THERMAL_SLOWDOWN)
_SLOWDOWN: Final = int(ClockEvent.HW_SLOWDOWN | ClockEvent.HW_POWER_BRAKE_SLOWDOWN)
_COMPARED: Final = (Signal.GPU_BUSY, Signal.POWER)


class HolderColumns:
    """Holders of devices, by device and interval."""

    def __init__(
        self, devices: Sequence[Device], holdings: Sequence[Sequence[DeviceHolding]], grid: Grid
    ) -> None:
        self._devices = devices
        shape = len(devices), grid.count
        counts = np.zeros(shape, int)
        self.workloads: defaultdict[str, Floats] = defaultdict(lambda: np.zeros(shape, bool))
        """By key, where each held a part."""
        self.is_preallocated = np.zeros(shape, bool)
        """Where a holder allocates its memory at the start."""
        runs = [
            (row, slice(run.first, run.last + 1), run)
            for row, found in enumerate(holdings)
            for run in found
        ]
        for row, inside, run in runs:
            counts[row, inside] += 1
            self.workloads[run.workload.key][row, inside] = True
            if run.workload.allocator is Allocator.PREALLOCATING:
                self.is_preallocated[row, inside] = True
        self.jobs: defaultdict[str, Floats] = defaultdict(lambda: np.zeros(shape, bool))
        """By job, where a device is one of its ranks."""
        for row, inside, run in runs:
            if (job := job_of(devices[row], (Holding(run.workload, run.share_ratio),))) is not None:
                self.jobs[job][row, inside] |= counts[row, inside] == 1

    def stalled_peers(self, looks_stalled: Floats) -> Floats:
        """Return where another device of the same workload also looks stalled."""
        found = np.zeros_like(looks_stalled)
        for held in self.workloads.values() if looks_stalled.any() else ():
            both = held & looks_stalled
            found |= both & (both.sum(axis=0) > 1)
        return found

    def out_of_balance(
        self, signals: SignalColumns, is_known: Floats, grid: Grid, settings: ImbalanceSettings
    ) -> Floats:
        """Return where the GPUs of a job do unequal work, over two intervals at least."""
        found = np.zeros(is_known.shape, bool)
        suspects = {}
        for job, ranks in self.jobs.items():
            spreads = (
                np.fmax.reduce(np.where(ranks, signals[each], -np.inf))
                - np.fmin.reduce(np.where(ranks, signals[each], np.inf))
                for each in _COMPARED
            )
            if any((spread >= settings.spread_ratio).any() for spread in spreads):
                suspects[job] = ranks & is_known
        longest = max(settings.window_seconds, 2.0 * seconds(grid.step))
        detector = ImbalanceDetector(replace(settings, window_seconds=longest))
        for place in range(grid.count) if suspects else ():
            end = grid.time(place + 1)
            detector.judge(end)
            for job, ranks in suspects.items():
                for row in np.flatnonzero(ranks[:, place]).tolist():
                    device = self._devices[row]
                    found[row, place] = detector.holds(device.uuid)
                    values = {each: float(signals[each][row, place]) for each in _COMPARED}
                    known = {each: value for each, value in values.items() if value == value}  # noqa: PLR0124 - Not nan.
                    detector.add(device, job, end, grid.step, known)
        return found


def is_empty(
    signals: SignalColumns, facts: DeviceFacts, settings: ClassificationSettings
) -> Floats:
    """Return where nothing runs and nothing is held, as far as visible without power."""
    sees_compute = ~np.isnan(np.fmax(signals[Signal.GPU_BUSY], signals[Signal.SM_ACTIVE]))
    return sees_compute & ~_is_active(signals, settings) & ~_is_held(signals, facts, settings)


def _is_active(signals: SignalColumns, settings: ClassificationSettings) -> Floats:
    """Return where a device is active; idle requires that no signal shows activity."""
    work = (Signal.GPU_BUSY, *PIPES, *MEDIA_ENGINES, Signal.OFA)
    traffic = signals.highest(Signal.DRAM_ACTIVE, *PCIE, *NVLINK)
    return (
        (signals.highest(*work) >= settings.active_ratio)
        | (signals[Signal.SM_ACTIVE] >= settings.active_sm_ratio)
        | (traffic >= settings.active_traffic_ratio)
    )


def _is_held(
    signals: SignalColumns, facts: DeviceFacts, settings: ClassificationSettings
) -> Floats:
    """Return where memory is held; if unmeasured, it may be held."""
    size = signals[Signal.MEMORY_USED_BYTES]
    least = settings.empty_memory_bytes
    most = np.fmax(settings.empty_memory_ratio * facts.memory_total_bytes, least)
    return ~(size < most)


class StateColumns(Struct, frozen=True):
    """States by device and interval; unknown where there is none."""

    states: Mapping[State, Floats]
    is_known: Floats


def classified(
    signals: SignalColumns,
    facts: DeviceFacts,
    clock: Floats,
    holders: HolderColumns,
    settings: ClassificationSettings,
) -> StateColumns:
    """Return the first state whose signature matches, by the table of `docs/definitions.md`."""
    busy = signals[Signal.GPU_BUSY]
    power = signals[Signal.POWER]
    sm = signals[Signal.SM_ACTIVE]
    dram = signals[Signal.DRAM_ACTIVE]
    pipes = signals.highest(*PIPES)
    is_active = _is_active(signals, settings)
    is_held = _is_held(signals, facts, settings)
    has_tier = ~np.isnan(np.fmax(signals.highest(*COUNTERS), busy))
    sees_compute = ~np.isnan(np.fmax(busy, sm))
    rests = has_tier & ~is_active & sees_compute & ~(power >= settings.idle_power_ratio)
    works = has_tier & is_active & ~_is_waking(signals, settings)
    has_counters = ~np.isnan(np.fmax(pipes, dram))
    spins = _spins(signals, settings)
    is_weak = power < settings.stall_power_ratio * clock
    looks_stalled = (busy >= settings.stall_busy_ratio) & is_weak
    is_backed = has_counters | holders.stalled_peers(looks_stalled)
    needed = np.where(is_backed, settings.stall_busy_ratio, settings.stall_busy_alone_ratio)
    # Power is lower at low clocks, too.
    draw = settings.stall_power_ratio * np.where(has_counters, 1.0, clock)
    # Pipes are known not to limit only if the tensor cores, which do most work, are read.
    are_pipes_low = (pipes < settings.pipe_ratio) & ~np.isnan(signals[Signal.TENSOR_ACTIVE])
    may_spin = np.isnan(power) & spins & (busy >= settings.stall_busy_ratio)
    pcie = signals.highest(*PCIE)
    found: dict[State, Floats] = {
        State.IDLE_EMPTY: rests & ~is_held,
        State.IDLE_HELD: rests & is_held,
    }
    for state, matches in (
        (State.HIDDEN_STALL, (busy >= needed) & (power < draw) & spins),
        (State.PCIE_BOUND, (pcie >= settings.link_ratio) & ~(pipes >= settings.link_pipe_ratio)),
        (
            State.MEMORY_BANDWIDTH_BOUND,
            (dram >= settings.dram_ratio) | ((dram >= settings.dram_alone_ratio) & are_pipes_low),
        ),
        (State.COMPUTE_BOUND, pipes >= settings.pipe_ratio),
        (
            State.LAUNCH_BOUND,
            ~may_spin
            & (busy >= settings.launch_busy_ratio)
            & (sm < settings.launch_sm_ratio)
            & (sm / np.where(busy > 0, busy, np.nan) < settings.launch_coverage_ratio),
        ),
    ):
        found[state] = works & matches
        works = works & ~matches
    found[State.PRODUCTIVE] = works & sees_compute
    return StateColumns(found, np.any(list(found.values()), axis=0))


def _is_waking(signals: SignalColumns, settings: ClassificationSettings) -> Floats:
    """Return where a GPU that just woke up reads busy without any work."""
    return (
        ~np.isnan(signals[Signal.POWER_WATTS])
        & (signals[Signal.MEMORY_USED_BYTES] < settings.context_memory_bytes)
        & ~(signals[Signal.SM_ACTIVE] >= settings.active_sm_ratio)
        & ~(signals.highest(*PIPES) >= settings.active_ratio)
        & ~(signals[Signal.DRAM_ACTIVE] >= settings.active_traffic_ratio)
    )


def _spins(signals: SignalColumns, settings: ClassificationSettings) -> Floats:
    """Return where no signal but a kernel's presence shows; unmeasured signals may."""
    dram = signals[Signal.DRAM_ACTIVE]
    pipes = signals.highest(*PIPES)
    controller = signals[Signal.MEMORY_CONTROLLER_BUSY]
    engines = signals.highest(*MEDIA_ENGINES, Signal.OFA)
    by_counters = ~(pipes >= settings.stall_pipe_ratio) & ~(dram >= settings.stall_dram_ratio)
    limit = settings.stall_memory_controller_ratio
    copies = settings.stall_copy_controller_ratio
    unknown = np.isnan(signals.highest(*PCIE))
    by_controller = ~(controller >= np.where(unknown, min(limit, copies), limit))
    is_quiet = np.where(np.isnan(np.fmax(pipes, dram)), by_controller, by_counters)
    links = signals.highest(*PCIE, *NVLINK)
    works = (engines >= settings.stall_engine_ratio) | (links >= settings.stall_link_ratio)
    return ~works & is_quiet


def conditions_of(
    signals: SignalColumns,
    reasons: Floats,
    clock: Floats,
    holders: HolderColumns,
    settings: ConditionSettings,
) -> dict[Condition, Floats]:
    """Return where each condition visible to an exporter holds; `reasons` are masks."""
    busy = signals[Signal.GPU_BUSY]
    is_slow = np.isnan(signals[Signal.SM_CLOCK_HERTZ]) | (clock < settings.throttle_clock_ratio)
    is_throttled = ~(busy < settings.throttle_busy_ratio) & is_slow
    return {
        Condition.POWER_THROTTLED: (reasons & _POWER_CAP > 0) & is_throttled,
        Condition.THERMAL_THROTTLED: (reasons & _THERMAL > 0) & is_throttled,
        Condition.HARDWARE_SLOWDOWN: reasons & _SLOWDOWN > 0,
        Condition.NEAR_OUT_OF_MEMORY: ~holders.is_preallocated
        & (signals[Signal.MEMORY_USED] >= settings.near_out_of_memory_ratio),
        Condition.NO_TENSOR_CORES: (signals[Signal.TENSOR_ACTIVE] < settings.no_tensor_ratio)
        & (signals[Signal.SM_ACTIVE] >= settings.no_tensor_sm_ratio)
        & (signals[Signal.FP32_ACTIVE] >= settings.no_tensor_fp32_ratio),
    }


def pressed(
    signals: SignalColumns,
    saturated: Mapping[Resource, Floats],
    is_read: Floats,
    grid: Grid,
    settings: PressureSettings,
) -> dict[Resource, Floats]:
    """Return where each resource was at its limit while requests waited; memory by the cache."""
    waits = signals[Signal.REQUESTS_WAITING] >= settings.requests_waiting
    is_full = signals[Signal.KV_CACHE_USED] >= settings.kv_cache_ratio
    found = {Resource.MEMORY: waits & is_full}
    waits |= is_full
    counted = np.where(is_read, signals[Signal.PREEMPTIONS], np.nan)
    before = np.fmax.accumulate(counted, axis=1)
    grown = counted[:, 1:] > before[:, :-1]
    for later in range(nanoseconds(settings.preemption_hold_seconds) // grid.step + 1):
        waits[:, 1 + later :] |= grown[:, : grown.shape[1] - later]
    return {each: at & waits for each, at in saturated.items()} | found
