"""Functions of whole boards: clocks, power, memory, temperatures, fans, PCIe link."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final

from rightsizer.model.values import Signal
from rightsizer.simulator.library.calls import Functions, NvmlCode, one_of
from rightsizer.simulator.library.driver import (
    SimulatedHandle,
    signal_structure,
    signal_value,
    structure,
    value,
    values,
)
from rightsizer.simulator.physics import (
    HIGHEST_CELSIUS,
    SHUTDOWN_CELSIUS,
    SLOWDOWN_CELSIUS,
    lowest_limit_watts,
)
from rightsizer.simulator.signals import ROWS, SIGNALS, milli
from rightsizer.simulator.support import BoardFeature

_MEMORY_VERSION_2: Final = 0x02000028
_KIB: Final = 1024.0
_VIOLATIONS: Final = (Signal.POWER_VIOLATION_SECONDS, Signal.THERMAL_VIOLATION_SECONDS)
"""By policy."""


def _memory(device: SimulatedHandle) -> Mapping[str, int]:
    state = device.state
    # Version 1 has no field for reserved memory, and counts it as used.
    used = state.memory_used_bytes + state.memory_reserved_bytes
    total = state.memory_total_bytes
    return {"total": total, "used": min(used, total), "free": max(0, total - used)}


def _bar1(device: SimulatedHandle) -> Mapping[str, float]:
    total = ROWS[Signal.BAR1_TOTAL_BYTES].read(device)
    used = ROWS[Signal.BAR1_USED_BYTES].read(device)
    return {"bar1Total": total, "bar1Used": used, "bar1Free": total - used}


MEMORY_OF_INSTANCES: Final[Functions] = {
    "nvmlDeviceGetMemoryInfo": structure(_memory),
    "nvmlDeviceGetMemoryInfo_v2": signal_structure(
        _MEMORY_VERSION_2,
        total=Signal.MEMORY_TOTAL_BYTES,
        reserved=Signal.MEMORY_RESERVED_BYTES,
        used=Signal.MEMORY_USED_BYTES,
        free=Signal.MEMORY_FREE_BYTES,
    ),
    "nvmlDeviceGetBAR1MemoryInfo": structure(_bar1),
}

_TEMPERATURE_VERSION_1: Final = 0x100000C
_MARGIN_VERSION_1: Final = 0x1000008
_THRESHOLDS: Final = {0: SHUTDOWN_CELSIUS, 1: SLOWDOWN_CELSIUS, 3: HIGHEST_CELSIUS}
"""Thresholds by NVML's number: shutdown, slowdown, highest for the GPU."""


def _violation(device: SimulatedHandle, policy: Any) -> Mapping[str, float]:
    """Time that power (0) or heat (1) held the clocks down since the driver was loaded."""
    row = ROWS[_VIOLATIONS[one_of(policy, range(len(_VIOLATIONS)))]]
    return {
        "referenceTime": device.driver.microseconds() * 1000,
        "violationTime": row.read(device),
    }


def _throughput(device: SimulatedHandle, direction: Any) -> int:
    state = device.state
    rates = state.pcie_transmit_bytes_per_second, state.pcie_receive_bytes_per_second
    return int(rates[one_of(direction, range(len(rates)))] / _KIB)


BOARD: Final[Functions] = {
    **{call: signal_value(row.signal) for row in SIGNALS for call in row.calls},
    # By the kind of clock: graphics, SM, memory, video.
    "nvmlDeviceGetClockInfo": signal_value(
        Signal.SM_CLOCK_HERTZ,
        Signal.SM_CLOCK_HERTZ,
        Signal.MEMORY_CLOCK_HERTZ,
        Signal.VIDEO_CLOCK_HERTZ,
    ),
    "nvmlDeviceGetMaxClockInfo": signal_value(
        Signal.SM_CLOCK_MAXIMUM_HERTZ,
        Signal.SM_CLOCK_MAXIMUM_HERTZ,
        Signal.MEMORY_CLOCK_MAXIMUM_HERTZ,
    ),
    "nvmlDeviceGetApplicationsClock": signal_value(
        Signal.SM_CLOCK_APPLICATION_HERTZ,
        Signal.SM_CLOCK_APPLICATION_HERTZ,
        Signal.MEMORY_CLOCK_APPLICATION_HERTZ,
    ),
    "nvmlDeviceGetViolationStatus": structure(_violation),
    "nvmlDeviceGetPowerManagementDefaultLimit": value(
        lambda device: milli(device.unit.slot.board.power_limit_watts)
    ),
    "nvmlDeviceGetPowerManagementLimitConstraints": values(
        lambda device: (
            milli(lowest_limit_watts(device.unit.slot.board)),
            milli(device.unit.slot.board.power_limit_watts),
        )
    ),
    "nvmlDeviceGetTemperature": signal_value(Signal.TEMPERATURE_CELSIUS),
    "nvmlDeviceGetTemperatureV": signal_structure(
        _TEMPERATURE_VERSION_1, temperature=Signal.TEMPERATURE_CELSIUS
    ),
    "nvmlDeviceGetTemperatureThreshold": value(
        lambda _, kind: _THRESHOLDS[one_of(kind, _THRESHOLDS, NvmlCode.NOT_SUPPORTED)],
        BoardFeature.TEMPERATURE_THRESHOLDS,
    ),
    "nvmlDeviceGetMarginTemperature": signal_structure(
        _MARGIN_VERSION_1, marginTemperature=Signal.TEMPERATURE_MARGIN_CELSIUS
    ),
    "nvmlDeviceGetNumFans": value(lambda _: 1, BoardFeature.FANS),
    "nvmlDeviceGetFanSpeed_v2": signal_value(Signal.FAN_SPEED),
    "nvmlDeviceGetMaxPcieLinkGeneration": value(attrgetter("unit.slot.board.pcie_generation")),
    "nvmlDeviceGetMaxPcieLinkWidth": value(attrgetter("unit.slot.board.pcie_width")),
    "nvmlDeviceGetPcieThroughput": value(_throughput),
}
