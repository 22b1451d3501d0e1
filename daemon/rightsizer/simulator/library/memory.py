"""Framebuffer and BAR1."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.simulator.library.calls import NvmlCallError, NvmlCode, out, put
from rightsizer.simulator.library.driver import SimulatedDriver, SimulatedHandle

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
