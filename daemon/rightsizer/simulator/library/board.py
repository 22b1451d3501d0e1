"""Functions of whole boards: clocks, power, memory, temperatures, fans, PCIe link."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final

from rightsizer.model.units import MIB, nanoseconds
from rightsizer.simulator.library.calls import Functions, NvmlCode, one_of
from rightsizer.simulator.library.driver import SimulatedHandle, structure, value, values
from rightsizer.simulator.physics import (
    HIGHEST_CELSIUS,
    SHUTDOWN_CELSIUS,
    SLOWDOWN_CELSIUS,
    lowest_limit_watts,
)
from rightsizer.simulator.support import BoardFeature
from rightsizer.simulator.transients import shown_watts

VIDEO_RATIO: Final = 0.9
"""Clock of the video engines, relative to the graphics clock."""
_reasons = value(lambda device: device.state.electrical.clock_event_reasons)
_enforced_limit = value(lambda device: milli(device.around.power_limit_watts))
_MEMORY_VERSION_2: Final = 0x02000028
BAR1_USED_BYTES: Final = 3 * MIB
_KIB: Final = 1024.0


def _megahertz(kind: Any, graphics_hertz: float, memory_hertz: float) -> int:
    """Return the clock of a kind: graphics, SM, memory or video."""
    clocks = graphics_hertz, graphics_hertz, memory_hertz, VIDEO_RATIO * graphics_hertz
    return round(clocks[one_of(kind, range(len(clocks)))] / 1e6)


def _clock(device: SimulatedHandle, kind: Any) -> int:
    board = device.state.electrical
    return _megahertz(kind, board.sm_clock_hertz, board.memory_clock_hertz)


def _maximum_clock(device: SimulatedHandle, kind: Any) -> int:
    board = device.unit.around
    return _megahertz(kind, board.sm_clock_maximum_hertz, board.family.memory_clock_hertz)


def violation_nanoseconds(device: SimulatedHandle, policy: Any) -> int:
    """Time that power (0) or heat (1) held the clocks down since the driver was loaded."""
    counters = device.counters
    held = counters.power_violation_seconds, counters.thermal_violation_seconds
    return nanoseconds(held[one_of(policy, range(2))])


def milli(value: float) -> int:
    """Convert watts to milliwatts, or joules to millijoules."""
    return int(value * 1000.0)


def _usage(device: SimulatedHandle) -> int:
    time = device.driver.now()
    averages = device.support.has(BoardFeature.POWER_AVERAGE)
    return milli(shown_watts(device.state_at(time), device.unit.around, time, averages=averages))


def _memory(device: SimulatedHandle) -> Mapping[str, int]:
    state = device.state
    # Version 1 has no field for reserved memory, and counts it as used.
    used = state.memory_used_bytes + state.memory_reserved_bytes
    total = state.memory_total_bytes
    return {"total": total, "used": min(used, total), "free": max(0, total - used)}


def _memory_2(device: SimulatedHandle) -> Mapping[str, int]:
    state = device.state
    total = state.memory_total_bytes
    reserved = state.memory_reserved_bytes
    used = state.memory_used_bytes
    usable = total - reserved
    amounts = {"used": min(used, usable), "free": max(0, usable - used)}
    return {"total": total, "reserved": reserved, **amounts}


def _bar1(device: SimulatedHandle) -> Mapping[str, int]:
    total = bar1_total_bytes(device.state.memory_total_bytes)
    amounts = {"bar1Used": BAR1_USED_BYTES, "bar1Free": total - BAR1_USED_BYTES}
    return {"bar1Total": total, **amounts}


def bar1_total_bytes(memory_bytes: int) -> int:
    """Size of the BAR1 window: the power of two that holds all memory."""
    return MIB << (memory_bytes // MIB).bit_length()


MEMORY_OF_INSTANCES: Final[Functions] = {
    "nvmlDeviceGetMemoryInfo": structure(_memory),
    "nvmlDeviceGetMemoryInfo_v2": structure(_memory_2, version=_MEMORY_VERSION_2),
    "nvmlDeviceGetBAR1MemoryInfo": structure(_bar1),
}

_TEMPERATURE_VERSION_1: Final = 0x100000C
_MARGIN_VERSION_1: Final = 0x1000008
_THRESHOLDS: Final = {0: SHUTDOWN_CELSIUS, 1: SLOWDOWN_CELSIUS, 3: HIGHEST_CELSIUS}
"""Thresholds by NVML's number: shutdown, slowdown, highest for the GPU."""


def _celsius(device: SimulatedHandle, sensor: Any = 0) -> int:
    one_of(sensor, (0,))
    return round(device.state.electrical.temperature_celsius)


def fan_percent(celsius: int) -> int:
    """Fan speed at a temperature."""
    return max(30, min(100, 2 * (celsius - 35)))


def _fan_speed(device: SimulatedHandle, fan: Any = 0) -> int:
    one_of(fan, (0,))
    return fan_percent(_celsius(device))


def _throughput(device: SimulatedHandle, direction: Any) -> int:
    state = device.state
    rates = state.pcie_transmit_bytes_per_second, state.pcie_receive_bytes_per_second
    return int(rates[one_of(direction, range(len(rates)))] / _KIB)


BOARD: Final[Functions] = {
    "nvmlDeviceGetClockInfo": value(_clock),
    "nvmlDeviceGetMaxClockInfo": value(_maximum_clock),
    "nvmlDeviceGetApplicationsClock": value(_maximum_clock, BoardFeature.APPLICATION_CLOCKS),
    "nvmlDeviceGetCurrentClocksThrottleReasons": _reasons,
    "nvmlDeviceGetCurrentClocksEventReasons": _reasons,
    "nvmlDeviceGetViolationStatus": structure(
        lambda device, policy: {
            "referenceTime": device.driver.microseconds() * 1000,
            "violationTime": violation_nanoseconds(device, policy),
        }
    ),
    "nvmlDeviceGetPowerUsage": value(_usage),
    "nvmlDeviceGetEnforcedPowerLimit": _enforced_limit,
    "nvmlDeviceGetPowerManagementLimit": _enforced_limit,
    "nvmlDeviceGetPowerManagementDefaultLimit": value(
        lambda device: milli(device.unit.slot.board.power_limit_watts)
    ),
    "nvmlDeviceGetPowerManagementLimitConstraints": values(
        lambda device: (
            milli(lowest_limit_watts(device.unit.slot.board)),
            milli(device.unit.slot.board.power_limit_watts),
        )
    ),
    "nvmlDeviceGetTotalEnergyConsumption": value(
        lambda device: milli(device.counters.energy_joules), BoardFeature.ENERGY
    ),
    "nvmlDeviceGetPerformanceState": value(attrgetter("state.electrical.performance_state")),
    "nvmlDeviceGetTemperature": value(_celsius),
    "nvmlDeviceGetTemperatureV": structure(
        lambda device: {"temperature": _celsius(device)}, version=_TEMPERATURE_VERSION_1
    ),
    "nvmlDeviceGetTemperatureThreshold": value(
        lambda _, kind: _THRESHOLDS[one_of(kind, _THRESHOLDS, NvmlCode.NOT_SUPPORTED)],
        BoardFeature.TEMPERATURE_THRESHOLDS,
    ),
    "nvmlDeviceGetMarginTemperature": structure(
        lambda device: {"marginTemperature": HIGHEST_CELSIUS - _celsius(device)},
        BoardFeature.TEMPERATURE_MARGIN,
        _MARGIN_VERSION_1,
    ),
    "nvmlDeviceGetNumFans": value(lambda _: 1, BoardFeature.FANS),
    "nvmlDeviceGetFanSpeed": value(_fan_speed, BoardFeature.FANS),
    "nvmlDeviceGetFanSpeed_v2": value(_fan_speed, BoardFeature.FANS),
    "nvmlDeviceGetCurrPcieLinkGeneration": value(attrgetter("state.electrical.pcie_generation")),
    "nvmlDeviceGetCurrPcieLinkWidth": value(lambda device: device.state.electrical.pcie_width),
    "nvmlDeviceGetMaxPcieLinkGeneration": value(attrgetter("unit.slot.board.pcie_generation")),
    "nvmlDeviceGetMaxPcieLinkWidth": value(lambda device: device.unit.slot.board.pcie_width),
    "nvmlDeviceGetPcieThroughput": value(_throughput),
    "nvmlDeviceGetPcieReplayCounter": value(lambda device: device.health.pcie_replays),
}
