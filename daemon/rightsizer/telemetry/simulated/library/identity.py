"""Finding devices, and what they are called."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.telemetry.simulated.library.calls import (
    Code,
    Refusal,
    number,
    out,
    put,
    put_text,
    text,
)
from rightsizer.telemetry.simulated.library.driver import Driver, Handle

__all__ = ["IDENTITY", "IDENTITY_OF_INSTANCES", "LOOKUP"]

_NVIDIA_VENDOR: Final = 0x10DE
_FIRST_PRODUCT: Final = 0x2000
_CORES_PER_SM: Final = {"Pascal": 64, "Volta": 64, "Turing": 64}
_HGX_CORES_PER_SM: Final = 64
_CORES_PER_SM_OTHERWISE: Final = 128


def _count(driver: Driver, count: Any) -> None:
    put(count, len(driver.gpus))


def _by_index(driver: Driver, index: Any, device: Any) -> None:
    place = number(index)
    if place >= len(driver.gpus):
        raise Refusal(Code.INVALID_ARGUMENT)
    driver.give(device, driver.gpus[place])


def _by_uuid(driver: Driver, uuid: Any, device: Any) -> None:
    driver.give(device, driver.of_uuid(text(uuid)))


def _by_pci_bus_id(driver: Driver, bus_id: Any, device: Any) -> None:
    wanted = text(bus_id).upper()
    for gpu in driver.gpus:
        full = (gpu.unit.device.pci_bus_id or "").upper()
        # The short form has a domain of four digits, and lspci's has none.
        if wanted in {full, full[4:], full[9:]}:
            driver.give(device, gpu)
            return
    raise Refusal(Code.NOT_FOUND)


def _name(driver: Driver, device: Handle, buffer: Any, size: Any) -> None:
    del driver
    put_text(buffer, size, device.unit.device.name)


def _uuid(driver: Driver, device: Handle, buffer: Any, size: Any) -> None:
    del driver
    put_text(buffer, size, device.uuid)


def _index(driver: Driver, device: Handle, index: Any) -> None:
    del driver
    put(index, device.unit.device.index)


def _pci_info(driver: Driver, device: Handle, info: Any) -> None:
    del driver
    unit, target = device.unit, out(info)
    full = (unit.device.pci_bus_id or "").upper()
    target.busId = full.encode()
    if hasattr(target, "busIdLegacy"):
        target.busIdLegacy = full[4:].encode()
    target.domain, target.bus, target.device = unit.domain, unit.bus, 0
    product = _FIRST_PRODUCT + sum(unit.slot.board.key.encode())
    target.pciDeviceId = product << 16 | _NVIDIA_VENDOR
    target.pciSubSystemId = product << 16 | _NVIDIA_VENDOR


def _brand(driver: Driver, device: Handle, brand: Any) -> None:
    del driver
    put(brand, device.support.brand)


def _architecture(driver: Driver, device: Handle, architecture: Any) -> None:
    del driver
    put(architecture, device.support.architecture)


def _compute_capability(driver: Driver, device: Handle, major: Any, minor: Any) -> None:
    del driver
    board = device.unit.slot.board
    put(major, board.compute_capability[0])
    put(minor, board.compute_capability[1])


def _cores(driver: Driver, device: Handle, cores: Any) -> None:
    del driver
    device.need_whole()
    board = device.unit.slot.board
    each = _CORES_PER_SM.get(board.architecture, _CORES_PER_SM_OTHERWISE)
    if board.compute_capability == (8, 0):
        each = _HGX_CORES_PER_SM
    put(cores, board.sm_count * each)


def _board_id(driver: Driver, device: Handle, board_id: Any) -> None:
    del driver
    put(board_id, device.unit.domain << 16 | device.unit.bus << 8)


def _one_gpu_on_board(driver: Driver, device: Handle, several: Any) -> None:
    del driver, device
    put(several, 0)


def _firmware_version(driver: Driver, device: Handle, buffer: Any, size: Any) -> None:
    del driver
    put_text(buffer, size, f"96.00.{device.support.architecture:02X}.00.01")


LOOKUP: Final[Mapping[str, Callable[..., Any]]] = {
    "nvmlDeviceGetCount_v2": _count,
    "nvmlDeviceGetHandleByIndex_v2": _by_index,
    "nvmlDeviceGetHandleByUUID": _by_uuid,
    "nvmlDeviceGetHandleByPciBusId_v2": _by_pci_bus_id,
}
IDENTITY_OF_INSTANCES: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetName": _name,
    "nvmlDeviceGetUUID": _uuid,
    "nvmlDeviceGetCudaComputeCapability": _compute_capability,
    "nvmlDeviceGetArchitecture": _architecture,
    "nvmlDeviceGetBrand": _brand,
}
IDENTITY: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetIndex": _index,
    "nvmlDeviceGetMinorNumber": _index,
    "nvmlDeviceGetPciInfo_v3": _pci_info,
    "nvmlDeviceGetPciInfoExt": _pci_info,
    "nvmlDeviceGetNumGpuCores": _cores,
    "nvmlDeviceGetBoardId": _board_id,
    "nvmlDeviceGetMultiGpuBoard": _one_gpu_on_board,
    "nvmlDeviceGetVbiosVersion": _firmware_version,
}
