"""Usage of a device over an interval, and the causes of the waste beside it."""

from collections.abc import Mapping
from typing import Final

from rightsizer.accounting.classification_settings import UsageSettings
from rightsizer.accounting.signals import clock_ratio, highest, tier_of
from rightsizer.model.device import Device
from rightsizer.model.frozen import dataclass
from rightsizer.model.signal import MEDIA_ENGINES, PIPES, Signal
from rightsizer.model.state import Cause, Condition, Resource, State, Tier

_CAUSES: Final = {
    State.IDLE_EMPTY: Cause.IDLE,
    State.IDLE_HELD: Cause.IDLE,
    State.HIDDEN_STALL: Cause.STALLED,
    State.HOST_BOUND: Cause.HOST,
    State.STORAGE_BOUND: Cause.STORAGE,
    State.PCIE_BOUND: Cause.PCIE,
    State.LAUNCH_BOUND: Cause.LAUNCH,
}
"""States with a cause of their own; in the others it is throttling, then headroom."""

_THROTTLES: Final = frozenset(
    {Condition.POWER_THROTTLED, Condition.THERMAL_THROTTLED, Condition.HARDWARE_SLOWDOWN}
)


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """What was used, by resource."""

    shares: Mapping[Resource, float]
    compute_at_least: float | None
    saturated: frozenset[Resource]
    used_ratio: float | None
    """Of the most used resource's achievable part; memory capacity does not count as work."""


def usage(signals: Mapping[Signal, float], device: Device, settings: UsageSettings) -> DeviceUsage:
    """What was used of each resource; one that is not measured is left out.

    Compute has two bounds: at least the largest pipe over what is achievable, at most the SM
    activity, both at the clock that ran. Without profiling it is the busy share, weighed by
    power where that is known (docs/definitions.md, provisioning).
    """
    at_least, at_most = _compute_bounds(signals, device, settings)
    found = {
        Resource.COMPUTE: at_most,
        Resource.MEMORY: signals.get(Signal.MEMORY_USED),
        Resource.MEMORY_BANDWIDTH: signals.get(Signal.DRAM_ACTIVE),
        Resource.PCIE: highest(signals, Signal.PCIE_RECEIVE, Signal.PCIE_TRANSMIT),
        Resource.NVLINK: highest(signals, Signal.NVLINK_RECEIVE, Signal.NVLINK_TRANSMIT),
        # Few GPUs ever work on media: for the others it would be series of zeros.
        Resource.MEDIA: highest(signals, *MEDIA_ENGINES) or None,
    }
    shares = {resource: share for resource, share in found.items() if share is not None}
    work = at_most if at_least is None else at_least
    limits = {
        Resource.COMPUTE: settings.compute_saturated_ratio,
        Resource.MEMORY: settings.memory_saturated_ratio,
        Resource.MEMORY_BANDWIDTH: settings.bandwidth_saturated_ratio,
        Resource.PCIE: settings.link_saturated_ratio,
        Resource.NVLINK: settings.link_saturated_ratio,
        Resource.MEDIA: settings.compute_saturated_ratio,
    }
    at_work = shares if work is None else shares | {Resource.COMPUTE: work}
    return DeviceUsage(
        shares,
        at_least,
        frozenset(resource for resource, share in at_work.items() if share >= limits[resource]),
        _used(shares, work, device, settings),
    )


def waste(
    state: State, conditions: frozenset[Condition], used_ratio: float | None, clock: float
) -> dict[Cause, float]:
    """The unused part of a stretch by cause; with the used part it sums to 1.

    Empty where the state or the use is unknown.
    """
    if used_ratio is None or state is State.UNKNOWN:
        return {}
    unused = 1.0 - used_ratio
    if unused <= 0.0:
        return {}
    if state in _CAUSES:
        return {_CAUSES[state]: unused}
    throttled = min(unused, 1.0 - clock) if conditions & _THROTTLES else 0.0
    parts = {Cause.THROTTLED: throttled, Cause.HEADROOM: unused - throttled}
    return {cause: part for cause, part in parts.items() if part > 0.0}


def _compute_bounds(
    signals: Mapping[Signal, float], device: Device, settings: UsageSettings
) -> tuple[float | None, float | None]:
    tier = tier_of(signals)
    busy = signals.get(Signal.GPU_BUSY)
    if tier is Tier.PROFILING:
        pipe = highest(signals, *PIPES)
        clock = clock_ratio(signals, device)
        at_least = (
            None if pipe is None else min(1.0, pipe / device.achievable_compute_ratio) * clock
        )
        at_most = signals.get(Signal.SM_WORK, None if busy is None else busy * clock)
        if at_least is not None and at_most is not None:
            at_most = max(at_least, at_most)
        return at_least, at_most
    power = signals.get(Signal.POWER)
    if busy is None or power is None:
        return None, busy
    return None, busy * min(1.0, power / settings.working_power_ratio)


def _used(
    shares: Mapping[Resource, float], work: float | None, device: Device, settings: UsageSettings
) -> float | None:
    achievable = {
        Resource.MEMORY_BANDWIDTH: device.achievable_bandwidth_ratio,
        Resource.PCIE: settings.link_achievable_ratio,
        Resource.NVLINK: settings.link_achievable_ratio,
    }
    achieved = [shares[each] / ratio for each, ratio in achievable.items() if each in shares]
    achieved += [] if work is None else [work]
    return min(1.0, max(achieved)) if achieved else None
