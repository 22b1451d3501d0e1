"""Clocks, their limits, and reasons of throttling."""

from typing import Any, Final

from rightsizer.model.units import nanoseconds
from rightsizer.simulator.library.calls import (
    Functions,
    NvmlCode,
    need_room,
    number,
    one_of,
    out,
    put,
)
from rightsizer.simulator.library.driver import SimulatedHandle, value
from rightsizer.simulator.support import BoardFeature

VIDEO_RATIO: Final = 0.9
"""The video engines' clock, of the graphics clock."""
_SUPPORTED_REASONS: Final = 0x1FF
_CURRENT: Final = 0
_BY_POWER, _BY_HEAT = range(2)
_BELOW_APPLICATION, _BELOW_BASE = 10, 11
_POLICIES: Final = frozenset({*range(6), _BELOW_APPLICATION, _BELOW_BASE})
"""Power, heat, synchronous boost, board limit, low utilization, reliability, and all together."""


def _megahertz(hertz: float) -> int:
    return round(hertz / 1e6)


def _by_kind(kind: Any, graphics_hertz: float, memory_hertz: float) -> int:
    """Of the kinds graphics, SM, memory and video."""
    clocks = graphics_hertz, graphics_hertz, memory_hertz, VIDEO_RATIO * graphics_hertz
    return _megahertz(clocks[one_of(kind, range(len(clocks)))])


def _current(device: SimulatedHandle, kind: Any, megahertz: Any) -> None:
    board = device.state.electrical
    put(megahertz, _by_kind(kind, board.sm_clock_hertz, board.memory_clock_hertz))


def _maximum(device: SimulatedHandle, kind: Any, megahertz: Any) -> None:
    board = device.unit.around
    memory_hertz = board.family.memory_clock_hertz
    put(megahertz, _by_kind(kind, board.sm_clock_maximum_hertz, memory_hertz))


def _application(device: SimulatedHandle, kind: Any, megahertz: Any) -> None:
    device.need(BoardFeature.APPLICATION_CLOCKS)
    _maximum(device, kind, megahertz)


def _by_identifier(device: SimulatedHandle, kind: Any, identifier: Any, megahertz: Any) -> None:
    read = _current if number(identifier) == _CURRENT else _maximum
    read(device, kind, megahertz)


def _memory_clocks(device: SimulatedHandle, count: Any, clocks: Any) -> None:
    _list(count, clocks, [_megahertz(device.unit.around.family.memory_clock_hertz)])


def _graphics_clocks(
    device: SimulatedHandle, memory_megahertz: Any, count: Any, clocks: Any
) -> None:
    board = device.unit.around
    one_of(memory_megahertz, (_megahertz(board.family.memory_clock_hertz),), NvmlCode.NOT_FOUND)
    top = _megahertz(board.sm_clock_maximum_hertz)
    _list(count, clocks, list(range(top, _megahertz(board.family.idle_clock_hertz) - 1, -15)))


def _list(count: Any, clocks: Any, values: list[int]) -> None:
    need_room(count, len(values), clocks)
    clocks[: len(values)] = values


def _violation(device: SimulatedHandle, policy: Any, time: Any) -> None:
    wanted = one_of(policy, _POLICIES)
    target = out(time)
    target.referenceTime = device.driver.microseconds() * 1000
    target.violationTime = violation_nanoseconds(device, wanted)


def violation_nanoseconds(device: SimulatedHandle, policy: int) -> int:
    """For how long a policy held the clocks down since the driver was loaded."""
    counters = device.counters
    power, heat = counters.power_violation_seconds, counters.thermal_violation_seconds
    held = {_BY_POWER: power, _BY_HEAT: heat, _BELOW_APPLICATION: max(power, heat)}
    return nanoseconds(held.get(policy, 0.0))


_reasons = value(lambda device: device.state.electrical.clock_event_reasons)
_supported_reasons = value(lambda _: _SUPPORTED_REASONS)
CLOCKS: Final[Functions] = {
    "nvmlDeviceGetClockInfo": _current,
    "nvmlDeviceGetMaxClockInfo": _maximum,
    "nvmlDeviceGetClock": _by_identifier,
    "nvmlDeviceGetApplicationsClock": _application,
    "nvmlDeviceGetDefaultApplicationsClock": _application,
    "nvmlDeviceGetMaxCustomerBoostClock": _maximum,
    "nvmlDeviceGetSupportedMemoryClocks": _memory_clocks,
    "nvmlDeviceGetSupportedGraphicsClocks": _graphics_clocks,
    "nvmlDeviceGetCurrentClocksThrottleReasons": _reasons,
    "nvmlDeviceGetCurrentClocksEventReasons": _reasons,
    "nvmlDeviceGetSupportedClocksThrottleReasons": _supported_reasons,
    "nvmlDeviceGetSupportedClocksEventReasons": _supported_reasons,
    "nvmlDeviceGetViolationStatus": _violation,
}
