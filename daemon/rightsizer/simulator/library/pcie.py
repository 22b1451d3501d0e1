"""PCIe link: generation, width, throughput and replays."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.simulator.library.calls import NvmlCallError, NvmlCode, number, put
from rightsizer.simulator.library.driver import SimulatedDriver, SimulatedHandle

_TRANSMIT, _RECEIVE = range(2)
_KIB: Final = 1024.0
_MEGATRANSFERS: Final = {1: 2500, 2: 5000, 3: 8000, 4: 16000, 5: 32000, 6: 64000}
_SPEED_CODES: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6}


def _generation(driver: SimulatedDriver, device: SimulatedHandle, generation: Any) -> None:
    del driver
    put(generation, device.state.electrical.pcie_generation)


def _width(driver: SimulatedDriver, device: SimulatedHandle, width: Any) -> None:
    del driver
    put(width, device.state.electrical.pcie_width)


def _generation_maximum(driver: SimulatedDriver, device: SimulatedHandle, generation: Any) -> None:
    del driver
    put(generation, device.unit.slot.board.pcie_generation)


def _width_maximum(driver: SimulatedDriver, device: SimulatedHandle, width: Any) -> None:
    del driver
    put(width, device.unit.slot.board.pcie_width)


def _throughput(
    driver: SimulatedDriver, device: SimulatedHandle, direction: Any, kib_per_second: Any
) -> None:
    del driver
    state = device.state
    rates = {
        _TRANSMIT: state.pcie_transmit_bytes_per_second,
        _RECEIVE: state.pcie_receive_bytes_per_second,
    }
    if number(direction) not in rates:
        raise NvmlCallError(NvmlCode.INVALID_ARGUMENT)
    put(kib_per_second, int(rates[number(direction)] / _KIB))


def _replays(driver: SimulatedDriver, device: SimulatedHandle, count: Any) -> None:
    del driver
    put(count, device.health.pcie_replays)


def _speed(driver: SimulatedDriver, device: SimulatedHandle, megatransfers: Any) -> None:
    del driver
    put(megatransfers, _MEGATRANSFERS[device.state.electrical.pcie_generation])


def _speed_maximum(driver: SimulatedDriver, device: SimulatedHandle, code: Any) -> None:
    del driver
    put(code, _SPEED_CODES[device.unit.slot.board.pcie_generation])


PCIE: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetCurrPcieLinkGeneration": _generation,
    "nvmlDeviceGetCurrPcieLinkWidth": _width,
    "nvmlDeviceGetMaxPcieLinkGeneration": _generation_maximum,
    "nvmlDeviceGetGpuMaxPcieLinkGeneration": _generation_maximum,
    "nvmlDeviceGetMaxPcieLinkWidth": _width_maximum,
    "nvmlDeviceGetPcieThroughput": _throughput,
    "nvmlDeviceGetPcieReplayCounter": _replays,
    "nvmlDeviceGetPcieSpeed": _speed,
    "nvmlDeviceGetPcieLinkMaxSpeed": _speed_maximum,
}
