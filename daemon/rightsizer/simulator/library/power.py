"""Power, its limits, and energy."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.simulator.library.calls import put
from rightsizer.simulator.library.driver import SimulatedDriver, SimulatedHandle
from rightsizer.simulator.physics import lowest_limit_watts
from rightsizer.simulator.support import BoardFeature
from rightsizer.simulator.transients import shown_watts


def milli(value: float) -> int:
    """Watts as milliwatts, joules as millijoules."""
    return int(value * 1000.0)


def _usage(driver: SimulatedDriver, device: SimulatedHandle, milliwatts: Any) -> None:
    time = driver.now()
    averages = device.support.has(BoardFeature.POWER_AVERAGE)
    watts = shown_watts(device.state_at(time), device.unit.around, time, averages=averages)
    put(milliwatts, milli(watts))


def _enforced_limit(driver: SimulatedDriver, device: SimulatedHandle, milliwatts: Any) -> None:
    del driver
    put(milliwatts, milli(device.around.power_limit_watts))


def _default_limit(driver: SimulatedDriver, device: SimulatedHandle, milliwatts: Any) -> None:
    del driver
    put(milliwatts, milli(device.unit.slot.board.power_limit_watts))


def _constraints(
    driver: SimulatedDriver, device: SimulatedHandle, lowest: Any, highest: Any
) -> None:
    del driver
    put(lowest, milli(lowest_limit_watts(device.unit.slot.board)))
    put(highest, milli(device.unit.slot.board.power_limit_watts))


def _management_mode(driver: SimulatedDriver, device: SimulatedHandle, enabled: Any) -> None:
    del driver, device
    put(enabled, 1)


def _energy(driver: SimulatedDriver, device: SimulatedHandle, millijoules: Any) -> None:
    del driver
    device.need(BoardFeature.ENERGY)
    put(millijoules, milli(device.counters.energy_joules))


def _performance_state(driver: SimulatedDriver, device: SimulatedHandle, state: Any) -> None:
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
