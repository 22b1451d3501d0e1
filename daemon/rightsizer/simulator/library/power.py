"""Power, its limits, energy and memory."""

from collections.abc import Mapping
from typing import Final

from rightsizer.model.units import MIB
from rightsizer.simulator.library.calls import Functions
from rightsizer.simulator.library.driver import SimulatedHandle, structure, value, values
from rightsizer.simulator.physics import lowest_limit_watts
from rightsizer.simulator.support import BoardFeature
from rightsizer.simulator.transients import shown_watts


def milli(value: float) -> int:
    """Watts as milliwatts, joules as millijoules."""
    return int(value * 1000.0)


def _usage(device: SimulatedHandle) -> int:
    time = device.driver.now()
    averages = device.support.has(BoardFeature.POWER_AVERAGE)
    return milli(shown_watts(device.state_at(time), device.unit.around, time, averages=averages))


_enforced_limit = value(lambda device: milli(device.around.power_limit_watts))
_performance_state = value(lambda device: device.state.electrical.performance_state)
POWER: Final[Functions] = {
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
    "nvmlDeviceGetPowerManagementMode": value(lambda _: 1),
    "nvmlDeviceGetTotalEnergyConsumption": value(
        lambda device: milli(device.counters.energy_joules), BoardFeature.ENERGY
    ),
    "nvmlDeviceGetPerformanceState": _performance_state,
    "nvmlDeviceGetPowerState": _performance_state,
}


_VERSION_2: Final = 0x02000028
BAR1_USED_BYTES: Final = 3 * MIB
_BUS_BITS: Final = {"HBM2": 4096, "HBM2e": 5120, "HBM3": 5120, "HBM3e": 6144}
_BUS_BITS_OTHERWISE: Final = 256


def _info(device: SimulatedHandle) -> Mapping[str, int]:
    state = device.state
    # The first version has no field for what is reserved and counts it as used.
    used, total = state.memory_used_bytes + state.memory_reserved_bytes, state.memory_total_bytes
    return {"total": total, "used": min(used, total), "free": max(0, total - used)}


def _info_2(device: SimulatedHandle) -> Mapping[str, int]:
    state = device.state
    total, reserved = state.memory_total_bytes, state.memory_reserved_bytes
    used, most = state.memory_used_bytes, total - reserved
    amounts = {"used": min(used, most), "free": max(0, most - used)}
    return {"total": total, "reserved": reserved, **amounts}


def _bar1(device: SimulatedHandle) -> Mapping[str, int]:
    total = bar1_total_bytes(device.state.memory_total_bytes)
    amounts = {"bar1Used": BAR1_USED_BYTES, "bar1Free": total - BAR1_USED_BYTES}
    return {"bar1Total": total, **amounts}


def bar1_total_bytes(memory_bytes: int) -> int:
    """The window on the memory: the power of two that holds all of it."""
    return MIB << (memory_bytes // MIB).bit_length()


MEMORY_OF_INSTANCES: Final[Functions] = {
    "nvmlDeviceGetMemoryInfo": structure(_info),
    "nvmlDeviceGetMemoryInfo_v2": structure(_info_2, version=_VERSION_2),
    "nvmlDeviceGetBAR1MemoryInfo": structure(_bar1),
}
MEMORY: Final[Functions] = {
    "nvmlDeviceGetMemoryBusWidth": value(
        lambda device: _BUS_BITS.get(device.unit.slot.board.memory_type, _BUS_BITS_OTHERWISE)
    )
}
