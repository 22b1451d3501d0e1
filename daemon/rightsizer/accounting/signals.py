"""Signals of a reading as ratios of the device's capacity, their tier, and usage by resource."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Final, NamedTuple

from rightsizer.accounting.classification_settings import SignalSettings, UsageSettings
from rightsizer.model.device import Device
from rightsizer.model.members import members
from rightsizer.model.reading import Reading
from rightsizer.model.signal import HOST_SIGNALS, MEDIA_ENGINES, PIPES, RATIO_SIGNALS, Signal
from rightsizer.model.state import THROTTLES, Cause, Condition, Resource, State, Tier
from rightsizer.model.topology import link_bytes_per_second

_Signal = members(Signal)
_State = members(State)
_Resource = members(Resource)
_Cause = members(Cause)
_Tier = members(Tier)

_PROFILING: Final = frozenset({Signal.SM_ACTIVE, Signal.DRAM_ACTIVE, *PIPES})
_ENGINES: Final = (*MEDIA_ENGINES, Signal.OFA)
_PCIE: Final = (Signal.PCIE_RECEIVE, Signal.PCIE_TRANSMIT)
_NVLINK: Final = (Signal.NVLINK_RECEIVE, Signal.NVLINK_TRANSMIT)
_TRAFFIC: Final = frozenset(
    {
        Signal.PCIE_RECEIVE_BYTES_PER_SECOND,
        Signal.PCIE_TRANSMIT_BYTES_PER_SECOND,
        Signal.NVLINK_RECEIVE_BYTES_PER_SECOND,
        Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND,
    }
)
_USED: Final = {
    Resource.MEMORY: (Signal.MEMORY_USED,),
    Resource.MEMORY_BANDWIDTH: (Signal.DRAM_ACTIVE,),
    Resource.PCIE: _PCIE,
    Resource.NVLINK: _NVLINK,
    Resource.MEDIA: MEDIA_ENGINES,
}
"""Signals of each resource; the highest is its share."""


class SignalLayout:
    """Known signals grouped by purpose; nearly all readings of a device share one layout."""

    def __init__(self, names: tuple[Signal, ...]) -> None:
        self.known = frozenset(names)
        self.counters, self.pipes, self.engines, self.pcie, self.nvlink = (
            tuple(filter(self.known.__contains__, of))
            for of in (_PROFILING, PIPES, _ENGINES, _PCIE, _NVLINK)
        )
        self.used = tuple(
            (resource, names)
            for resource, of in _USED.items()
            if (names := tuple(filter(self.known.__contains__, of)))
        )
        self.work = tuple(filter(self.known.__contains__, (_Signal.GPU_BUSY, *PIPES, *_ENGINES)))
        self.traffic = tuple(
            filter(self.known.__contains__, (_Signal.DRAM_ACTIVE, *_PCIE, *_NVLINK))
        )
        self.has_traffic = not _TRAFFIC.isdisjoint(self.known)
        self.tier = self._tier()

    def _tier(self) -> Tier:
        if self.counters:
            return _Tier.PROFILING
        if _Signal.GPU_BUSY not in self.known:
            return _Tier.NONE
        return _Tier.POWER if _Signal.POWER in self.known else _Tier.BASIC


LAYOUTS_KEPT: Final = 1024
_layout: Final = lru_cache(maxsize=LAYOUTS_KEPT)(SignalLayout)


def layout_of(signals: Mapping[Signal, float]) -> SignalLayout:
    """Layout of the known signals."""
    return _layout(tuple(signals))


def derive_signals(  # noqa: PLR0913 - everything that bears on what was read.
    reading: Reading,
    device: Device,
    host: Mapping[Signal, float],
    idle_watts: float | None,
    settings: SignalSettings,
    *,
    counters_were_dead: bool = False,
) -> dict[Signal, float]:
    """Derive all signals of a reading, including ratios of the device's capacity.

    Ratios are clamped to 0..1: profiling counters of MIG instances may exceed 1
    (NVIDIA/DCGM#152). Profiling counters that read 0 on a busy device that draws power are dead
    (dcgm-exporter#662) and dropped; if dropped in the previous reading, they stay so until one
    is nonzero. Host signals fill in missing ones.
    """
    signals = dict(reading.values)
    for signal, value in reading.values.items():
        if not 0.0 <= value <= 1.0 and signal in RATIO_SIGNALS:
            signals[signal] = _ratio(value)
    if host:
        signals.update({each: host[each] for each in HOST_SIGNALS if each in host} | signals)
    total = signals.get(_Signal.MEMORY_TOTAL_BYTES) or device.memory_total_bytes
    if (used := signals.get(_Signal.MEMORY_USED_BYTES)) is not None and total:
        signals.setdefault(_Signal.MEMORY_USED, _ratio(used / total))
    _derive_power(signals, device, idle_watts)
    layout = layout_of(reading.values)
    if layout.has_traffic:
        _derive_links(signals, device)
    if layout.counters:
        _drop_dead_counters(signals, layout.counters, settings, were_dead=counters_were_dead)
    if (active := signals.get(_Signal.SM_ACTIVE)) is not None:
        signals.setdefault(_Signal.SM_WORK, active * clock_ratio(signals, device))
    return signals


def has_dead_counters(reading: Reading, signals: Mapping[Signal, float]) -> bool:
    """Whether a reading's profiling counters were dropped."""
    return bool(layout_of(reading.values).counters) and _PROFILING.isdisjoint(signals)


def tier_of(signals: Mapping[Signal, float]) -> Tier:
    """Telemetry tier of these signals."""
    return layout_of(signals).tier


def clock_ratio(signals: Mapping[Signal, float], device: Device) -> float:
    """SM clock over its maximum; 1 if either is unknown."""
    clock = signals.get(_Signal.SM_CLOCK_HERTZ)
    maximum = signals.get(_Signal.SM_CLOCK_MAXIMUM_HERTZ) or device.sm_clock_maximum_hertz
    return _ratio(clock / maximum) if clock is not None and maximum else 1.0


def memory_work(signals: Mapping[Signal, float]) -> float | None:
    """Memory controller time at the maximum memory clock; `None` if unknown.

    Boards with displays read memory while idle, which takes a third of the time at their low
    idle clock.
    """
    busy = signals.get(_Signal.MEMORY_CONTROLLER_BUSY)
    clock = signals.get(_Signal.MEMORY_CLOCK_HERTZ)
    maximum = signals.get(_Signal.MEMORY_CLOCK_MAXIMUM_HERTZ)
    return busy if busy is None or clock is None or not maximum else busy * _ratio(clock / maximum)


def highest(signals: Mapping[Signal, float], *names: Signal) -> float | None:
    """Maximum of these signals, or `None` if none is known."""
    if not names:
        return None
    most: float | None = None
    for name in names:
        if (value := signals.get(name)) is not None and (most is None or value > most):
            most = value
    return most


def _ratio(value: float) -> float:
    return 1.0 if value > 1.0 else max(0.0, value)


def _derive_power(signals: dict[Signal, float], device: Device, idle_watts: float | None) -> None:
    limit = signals.get(_Signal.POWER_LIMIT_WATTS) or device.power_limit_watts
    ratio = power_ratio(signals.get(_Signal.POWER_WATTS), limit, idle_watts)
    if ratio is not None:
        signals.setdefault(_Signal.POWER, ratio)


def power_ratio(watts: float | None, limit: float | None, idle_watts: float | None) -> float | None:
    """Power between idle and limit as a ratio; `None` if unknown.

    The highest draw is no limit: of seven GPUs that only spin, it is the draw of spinning.
    """
    if watts is None or idle_watts is None or not limit or limit <= idle_watts:
        return None
    return _ratio((watts - idle_watts) / (limit - idle_watts))


def _derive_links(signals: dict[Signal, float], device: Device) -> None:
    generation = signals.get(_Signal.PCIE_LINK_GENERATION, device.pcie_generation_maximum)
    width = signals.get(_Signal.PCIE_LINK_WIDTH, device.pcie_width_maximum)
    pcie = link_bytes_per_second(generation, width)
    nvlink = device.nvlink_bytes_per_second
    for signal, quantity, capacity in (
        (_Signal.PCIE_RECEIVE, _Signal.PCIE_RECEIVE_BYTES_PER_SECOND, pcie),
        (_Signal.PCIE_TRANSMIT, _Signal.PCIE_TRANSMIT_BYTES_PER_SECOND, pcie),
        (_Signal.NVLINK_RECEIVE, _Signal.NVLINK_RECEIVE_BYTES_PER_SECOND, nvlink),
        (_Signal.NVLINK_TRANSMIT, _Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND, nvlink),
    ):
        if capacity and quantity in signals:
            signals.setdefault(signal, _ratio(signals[quantity] / capacity))


def _drop_dead_counters(
    signals: dict[Signal, float],
    counters: tuple[Signal, ...],
    settings: SignalSettings,
    *,
    were_dead: bool,
) -> None:
    if any(signals[counter] for counter in counters):
        return
    if were_dead or (
        signals.get(_Signal.GPU_BUSY, 0.0) >= settings.suspect_busy_ratio
        and signals.get(_Signal.POWER, 0.0) >= settings.suspect_power_ratio
    ):
        for counter in counters:
            del signals[counter]


_CAUSES: Final = {
    State.IDLE_EMPTY: Cause.IDLE,
    State.IDLE_HELD: Cause.IDLE,
    State.HIDDEN_STALL: Cause.STALLED,
    State.HOST_BOUND: Cause.HOST,
    State.STORAGE_BOUND: Cause.STORAGE,
    State.PCIE_BOUND: Cause.PCIE,
    State.LAUNCH_BOUND: Cause.LAUNCH,
}
"""Causes of states that have their own; for others it is throttling, then headroom."""


class DeviceUsage(NamedTuple):
    """Usage of a device by resource."""

    shares: Mapping[Resource, float]
    compute_at_least: float | None
    saturated: frozenset[Resource]
    used_ratio: float | None
    """Of the busiest resource's achievable part; memory capacity does not count as work."""


_LIMITS: Final[Mapping[Resource, Callable[[UsageSettings], float]]] = {
    Resource.COMPUTE: attrgetter("compute_saturated_ratio"),
    Resource.MEMORY: attrgetter("memory_saturated_ratio"),
    Resource.MEMORY_BANDWIDTH: attrgetter("bandwidth_saturated_ratio"),
    Resource.PCIE: attrgetter("link_saturated_ratio"),
    Resource.NVLINK: attrgetter("link_saturated_ratio"),
    Resource.MEDIA: attrgetter("compute_saturated_ratio"),
}
"""Share from which a resource is saturated."""


def usage(
    signals: Mapping[Signal, float], layout: SignalLayout, device: Device, settings: UsageSettings
) -> DeviceUsage:
    """Usage of each measured resource.

    Compute has two bounds: the busiest pipe over its achievable share, and the SM activity, both
    scaled by the clock. Without profiling it is the busy share, scaled by power if known
    (docs/definitions.md, provisioning).
    """
    at_least, at_most = _compute_bounds(signals, layout, device, settings)
    shares = {} if at_most is None else {_Resource.COMPUTE: at_most}
    for resource, names in layout.used:
        share = max(map(signals.__getitem__, names))
        # Few GPUs ever use media engines; for others this would export series of zeros.
        if share or resource is not _Resource.MEDIA:
            shares[resource] = share
    work = at_most if at_least is None else at_least
    at_work = shares if at_least is None else shares | {_Resource.COMPUTE: at_least}
    return DeviceUsage(
        shares,
        at_least,
        frozenset([each for each, share in at_work.items() if share >= _LIMITS[each](settings)]),
        _used(shares, work, device, settings),
    )


def waste(
    state: State,
    conditions: frozenset[Condition],
    used_ratio: float | None,
    clock: float,
    busy: float | None = None,
) -> dict[Cause, float]:
    """Unused share of an interval by cause; adds up to 1 with the used share.

    Empty if the state or the usage is unknown. Launches cost the time without a kernel; what a
    small kernel leaves of the GPU is headroom.
    """
    if used_ratio is None or state is _State.UNKNOWN:
        return {}
    if (unused := 1.0 - used_ratio) <= 0.0:
        return {}
    if state is _State.LAUNCH_BOUND and busy is not None:
        lost = min(unused, 1.0 - busy)
        parts = {_Cause.LAUNCH: lost, _Cause.HEADROOM: unused - lost}
    elif state in _CAUSES:
        parts = {_CAUSES[state]: unused}
    else:
        throttled = 0.0 if conditions.isdisjoint(THROTTLES) else min(unused, 1.0 - clock)
        parts = {_Cause.THROTTLED: throttled, _Cause.HEADROOM: unused - throttled}
    return {cause: part for cause, part in parts.items() if part > 0.0}


def _compute_bounds(
    signals: Mapping[Signal, float], layout: SignalLayout, device: Device, settings: UsageSettings
) -> tuple[float | None, float | None]:
    busy = signals.get(_Signal.GPU_BUSY)
    if layout.counters:
        pipe = highest(signals, *layout.pipes)
        clock = clock_ratio(signals, device)
        at_least = (
            None if pipe is None else min(1.0, pipe / device.achievable_compute_ratio) * clock
        )
        at_most = signals.get(_Signal.SM_WORK, None if busy is None else busy * clock)
        if at_least is not None and at_most is not None:
            at_most = max(at_least, at_most)
        return at_least, at_most
    power = signals.get(_Signal.POWER)
    if busy is None or power is None:
        return None, busy
    return None, busy * min(1.0, power / settings.working_power_ratio)


def _used(
    shares: Mapping[Resource, float], work: float | None, device: Device, settings: UsageSettings
) -> float | None:
    achieved = [] if work is None else [work]
    if (share := shares.get(_Resource.MEMORY_BANDWIDTH)) is not None:
        achieved.append(share / device.achievable_bandwidth_ratio)
    links = [shares[link] for link in (_Resource.PCIE, _Resource.NVLINK) if link in shares]
    achieved += [share / settings.link_achievable_ratio for share in links]
    if (share := shares.get(_Resource.MEDIA)) is not None:
        achieved.append(share)
    return min(1.0, max(achieved)) if achieved else None
