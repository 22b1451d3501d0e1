"""Power, its limits, and energy."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.telemetry.simulated.feature import Feature
from rightsizer.telemetry.simulated.library.calls import put
from rightsizer.telemetry.simulated.library.driver import Driver, Handle
from rightsizer.telemetry.simulated.moments import shown_watts
from rightsizer.telemetry.simulated.physics import lowest_limit_watts

__all__ = ["POWER", "milli"]


def milli(value: float) -> int:
    """Watts as milliwatts, joules as millijoules."""
    return int(value * 1000.0)


def _usage(driver: Driver, device: Handle, milliwatts: Any) -> None:
    time = driver.now()
    averages = device.support.has(Feature.POWER_AVERAGE)
    watts = shown_watts(device.state_at(time), device.unit.around, time, averages=averages)
    put(milliwatts, milli(watts))


def _enforced_limit(driver: Driver, device: Handle, milliwatts: Any) -> None:
    del driver
    put(milliwatts, milli(device.around.power_limit_watts))


def _default_limit(driver: Driver, device: Handle, milliwatts: Any) -> None:
    del driver
    put(milliwatts, milli(device.unit.slot.board.power_limit_watts))


def _constraints(driver: Driver, device: Handle, lowest: Any, highest: Any) -> None:
    del driver
    put(lowest, milli(lowest_limit_watts(device.unit.slot.board)))
    put(highest, milli(device.unit.slot.board.power_limit_watts))


def _management_mode(driver: Driver, device: Handle, enabled: Any) -> None:
    del driver, device
    put(enabled, 1)


def _energy(driver: Driver, device: Handle, millijoules: Any) -> None:
    del driver
    device.need(Feature.ENERGY)
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
