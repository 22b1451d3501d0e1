"""Power, its limits, energy and memory."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.simulator.library.calls import NvmlCallError, NvmlCode, out, put
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


_VERSION_2: Final = 0x02000028
_BAR1_GRAIN: Final = 2**20
BAR1_USED_BYTES: Final = 3 * 2**20
_BUS_BITS: Final = {"HBM2": 4096, "HBM2e": 5120, "HBM3": 5120, "HBM3e": 6144}
_BUS_BITS_OTHERWISE: Final = 256


def _info(driver: SimulatedDriver, device: SimulatedHandle, info: Any) -> None:
    del driver
    state, target = device.state, out(info)
    # The first version has no field for what is reserved and counts it as used.
    used = state.memory_used_bytes + state.memory_reserved_bytes
    target.total = state.memory_total_bytes
    target.used = min(used, state.memory_total_bytes)
    target.free = max(0, state.memory_total_bytes - used)


def _info_2(driver: SimulatedDriver, device: SimulatedHandle, info: Any) -> None:
    del driver
    state, target = device.state, out(info)
    if target.version != _VERSION_2:
        raise NvmlCallError(NvmlCode.ARGUMENT_VERSION_MISMATCH)
    most = state.memory_total_bytes - state.memory_reserved_bytes
    target.total = state.memory_total_bytes
    target.reserved = state.memory_reserved_bytes
    target.used = min(state.memory_used_bytes, most)
    target.free = max(0, most - state.memory_used_bytes)


def _bar1(driver: SimulatedDriver, device: SimulatedHandle, info: Any) -> None:
    del driver
    target = out(info)
    target.bar1Total = bar1_total_bytes(device.state.memory_total_bytes)
    target.bar1Used = BAR1_USED_BYTES
    target.bar1Free = target.bar1Total - BAR1_USED_BYTES


def bar1_total_bytes(memory_bytes: int) -> int:
    """The window on the memory: the power of two that holds all of it."""
    return _BAR1_GRAIN << (memory_bytes // _BAR1_GRAIN).bit_length()


def _bus_width(driver: SimulatedDriver, device: SimulatedHandle, bits: Any) -> None:
    del driver
    put(bits, _BUS_BITS.get(device.unit.slot.board.memory_type, _BUS_BITS_OTHERWISE))


MEMORY_OF_INSTANCES: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetMemoryInfo": _info,
    "nvmlDeviceGetMemoryInfo_v2": _info_2,
    "nvmlDeviceGetBAR1MemoryInfo": _bar1,
}
MEMORY: Final[Mapping[str, Callable[..., None]]] = {"nvmlDeviceGetMemoryBusWidth": _bus_width}
