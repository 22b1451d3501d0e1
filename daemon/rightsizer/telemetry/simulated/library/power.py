"""Power, its limits, and energy."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.telemetry.simulated.library.calls import put
from rightsizer.telemetry.simulated.library.driver import Driver, Handle

__all__ = ["POWER", "lowest_limit_watts", "milli"]

_LOWEST_LIMIT_RATIO: Final = 0.3


def milli(value: float) -> int:
    """Watts as milliwatts, joules as millijoules."""
    return int(value * 1000.0)


def lowest_limit_watts(device: Handle) -> float:
    """The lowest limit that the board accepts."""
    return _LOWEST_LIMIT_RATIO * device.unit.slot.board.power_limit_watts


def _usage(driver: Driver, device: Handle, milliwatts: Any) -> None:
    del driver
    put(milliwatts, milli(device.state.power_watts))


def _enforced_limit(driver: Driver, device: Handle, milliwatts: Any) -> None:
    del driver
    put(milliwatts, milli(device.unit.around.power_limit_watts))


def _default_limit(driver: Driver, device: Handle, milliwatts: Any) -> None:
    del driver
    put(milliwatts, milli(device.unit.slot.board.power_limit_watts))


def _constraints(driver: Driver, device: Handle, lowest: Any, highest: Any) -> None:
    del driver
    put(lowest, milli(lowest_limit_watts(device)))
    put(highest, milli(device.unit.slot.board.power_limit_watts))


def _management_mode(driver: Driver, device: Handle, enabled: Any) -> None:
    del driver, device
    put(enabled, 1)


def _energy(driver: Driver, device: Handle, millijoules: Any) -> None:
    del driver
    put(millijoules, milli(device.counters.energy_joules))


def _performance_state(driver: Driver, device: Handle, state: Any) -> None:
    del driver
    put(state, device.state.electrical.performance_state)


POWER: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetPowerUsage": _usage,
    "nvmlDeviceGetEnforcedPowerLimit": _enforced_limit,
    "nvmlDeviceGetPowerManagementLimit": _enforced_limit,
    "nvmlDeviceGetPowerManagementDefaultLimit": _default_limit,
    "nvmlDeviceGetPowerManagementLimitConstraints": _constraints,
    "nvmlDeviceGetPowerManagementMode": _management_mode,
    "nvmlDeviceGetTotalEnergyConsumption": _energy,
    "nvmlDeviceGetPerformanceState": _performance_state,
    "nvmlDeviceGetPowerState": _performance_state,
}
