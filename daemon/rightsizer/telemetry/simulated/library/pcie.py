"""The PCIe link: what was negotiated, what is possible, what passes over it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.telemetry.simulated.library.calls import Code, Refusal, number, put
from rightsizer.telemetry.simulated.library.driver import Driver, Handle

__all__ = ["PCIE"]

_TRANSMIT, _RECEIVE = range(2)
_KIB: Final = 1024.0
_MEGATRANSFERS: Final = {1: 2500, 2: 5000, 3: 8000, 4: 16000, 5: 32000, 6: 64000}
_SPEED_CODES: Final = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6}


def _generation(driver: Driver, device: Handle, generation: Any) -> None:
    del driver
    put(generation, device.state.electrical.pcie_generation)


def _width(driver: Driver, device: Handle, width: Any) -> None:
    del driver
    put(width, device.state.electrical.pcie_width)


def _generation_maximum(driver: Driver, device: Handle, generation: Any) -> None:
    del driver
    put(generation, device.unit.slot.board.pcie_generation)


def _width_maximum(driver: Driver, device: Handle, width: Any) -> None:
    del driver
    put(width, device.unit.slot.board.pcie_width)


def _throughput(driver: Driver, device: Handle, direction: Any, kib_per_second: Any) -> None:
    del driver
    state = device.state
    rates = {
        _TRANSMIT: state.pcie_transmit_bytes_per_second,
        _RECEIVE: state.pcie_receive_bytes_per_second,
    }
    if number(direction) not in rates:
        raise Refusal(Code.INVALID_ARGUMENT)
    put(kib_per_second, int(rates[number(direction)] / _KIB))


def _replays(driver: Driver, device: Handle, count: Any) -> None:
    del driver
    put(count, device.health.pcie_replays)


def _speed(driver: Driver, device: Handle, megatransfers: Any) -> None:
    del driver
    put(megatransfers, _MEGATRANSFERS[device.state.electrical.pcie_generation])


def _speed_maximum(driver: Driver, device: Handle, code: Any) -> None:
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
