"""Device lookup, names and identifiers."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.simulator.library.calls import (
    NvmlCallError,
    NvmlCode,
    number,
    out,
    put,
    put_text,
    text,
)
from rightsizer.simulator.library.driver import SimulatedDriver, SimulatedHandle
from rightsizer.simulator.support import BoardFeature
from rightsizer.simulator.transients import channel

_NVIDIA_VENDOR: Final = 0x10DE
_FIRST_PRODUCT: Final = 0x2000
_CORES_PER_SM: Final = {"Pascal": 64, "Volta": 64, "Turing": 64}
_HGX_CORES_PER_SM: Final = 64
_CORES_PER_SM_OTHERWISE: Final = 128
_INFOROM: Final = {0: "2.1", 1: "7.16", 2: "N/A", 3: "N/A"}
"""OEM, ECC, power management, DEN."""
_INFOROM_ECC: Final = 1
_MODULES: Final = 8
_PCIE_BUS: Final = 2
_FIRST_INTERRUPT: Final = 200
_TURING: Final = 6


def _count(driver: SimulatedDriver, count: Any) -> None:
    put(count, len(driver.present()))


def _by_index(driver: SimulatedDriver, index: Any, device: Any) -> None:
    place, gpus = number(index), driver.present()
    if place >= len(gpus):
        raise NvmlCallError(NvmlCode.INVALID_ARGUMENT)
    driver.give(device, gpus[place])


def _by_uuid(driver: SimulatedDriver, uuid: Any, device: Any) -> None:
    handle = driver.of_uuid(text(uuid))
    if handle.parent not in driver.present():
        raise NvmlCallError(NvmlCode.NOT_FOUND)
    driver.give(device, handle)


def _by_serial(driver: SimulatedDriver, serial: Any, device: Any) -> None:
    for gpu in driver.present():
        if gpu.support.has(BoardFeature.SERIAL) and _serial_of(gpu) == text(serial):
            driver.give(device, gpu)
            return
    raise NvmlCallError(NvmlCode.NOT_FOUND)


def _serial_of(device: SimulatedHandle) -> str:
    return f"165{channel(0, 'serial', device.uuid) % 10**10:010d}"


def _by_pci_bus_id(driver: SimulatedDriver, bus_id: Any, device: Any) -> None:
    wanted = text(bus_id).upper()
    for gpu in driver.present():
        full = (gpu.unit.device.pci_bus_id or "").upper()
        # The short form has a domain of four digits, and lspci's has none.
        if wanted in {full, full[4:], full[9:]}:
            driver.give(device, gpu)
            return
    raise NvmlCallError(NvmlCode.NOT_FOUND)


def _name(driver: SimulatedDriver, device: SimulatedHandle, buffer: Any, size: Any) -> None:
    del driver
    put_text(buffer, size, device.unit.device.name)


def _uuid(driver: SimulatedDriver, device: SimulatedHandle, buffer: Any, size: Any) -> None:
    del driver
    put_text(buffer, size, device.uuid)


def _index(driver: SimulatedDriver, device: SimulatedHandle, index: Any) -> None:
    put(index, driver.present().index(device))


def _minor_number(driver: SimulatedDriver, device: SimulatedHandle, minor: Any) -> None:
    del driver
    put(minor, device.unit.device.index)


def _pci_info(driver: SimulatedDriver, device: SimulatedHandle, info: Any) -> None:
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


def _brand(driver: SimulatedDriver, device: SimulatedHandle, brand: Any) -> None:
    del driver
    put(brand, device.support.brand)


def _architecture(driver: SimulatedDriver, device: SimulatedHandle, architecture: Any) -> None:
    del driver
    put(architecture, device.support.architecture)


def _compute_capability(
    driver: SimulatedDriver, device: SimulatedHandle, major: Any, minor: Any
) -> None:
    del driver
    board = device.unit.slot.board
    put(major, board.compute_capability[0])
    put(minor, board.compute_capability[1])


def _cores(driver: SimulatedDriver, device: SimulatedHandle, cores: Any) -> None:
    del driver
    device.need(BoardFeature.CORES)
    board = device.unit.slot.board
    each = _CORES_PER_SM.get(board.architecture, _CORES_PER_SM_OTHERWISE)
    if board.compute_capability == (8, 0):
        each = _HGX_CORES_PER_SM
    put(cores, board.sm_count * each)


def _board_id(driver: SimulatedDriver, device: SimulatedHandle, board_id: Any) -> None:
    del driver
    put(board_id, device.unit.domain << 16 | device.unit.bus << 8)


def _one_gpu_on_board(driver: SimulatedDriver, device: SimulatedHandle, several: Any) -> None:
    del driver, device
    put(several, 0)


def _firmware_version(
    driver: SimulatedDriver, device: SimulatedHandle, buffer: Any, size: Any
) -> None:
    del driver
    put_text(buffer, size, f"96.00.{device.support.architecture:02X}.00.01")


def _serial(driver: SimulatedDriver, device: SimulatedHandle, buffer: Any, size: Any) -> None:
    del driver
    device.need(BoardFeature.SERIAL)
    put_text(buffer, size, _serial_of(device))


def _part_number(driver: SimulatedDriver, device: SimulatedHandle, buffer: Any, size: Any) -> None:
    del driver
    put_text(buffer, size, f"900-2G{device.support.architecture:03d}-0000-000")


def _inforom_version(
    driver: SimulatedDriver, device: SimulatedHandle, kind: Any, buffer: Any, size: Any
) -> None:
    del driver
    if number(kind) not in _INFOROM:
        raise NvmlCallError(NvmlCode.INVALID_ARGUMENT)
    device.need(BoardFeature.ECC if number(kind) == _INFOROM_ECC else BoardFeature.MEMORY)
    put_text(buffer, size, _INFOROM[number(kind)])


def _inforom_image_version(
    driver: SimulatedDriver, device: SimulatedHandle, buffer: Any, size: Any
) -> None:
    del driver
    put_text(buffer, size, f"G{device.support.architecture:03d}.0200.00.03")


def _inforom_checksum(driver: SimulatedDriver, device: SimulatedHandle, checksum: Any) -> None:
    del driver
    put(checksum, channel(0, "inforom", device.uuid) & 0xFFFFFFFF)


def _module(driver: SimulatedDriver, device: SimulatedHandle, module: Any) -> None:
    del driver
    is_on_baseboard = device.unit.slot.board.form_factor.startswith("SXM")
    put(module, device.unit.device.index % _MODULES + 1 if is_on_baseboard else 0)


def _bus_type(driver: SimulatedDriver, device: SimulatedHandle, kind: Any) -> None:
    del driver, device
    put(kind, _PCIE_BUS)


def _interrupt(driver: SimulatedDriver, device: SimulatedHandle, interrupt: Any) -> None:
    del driver
    put(interrupt, _FIRST_INTERRUPT + device.unit.device.index)


def _gsp_version(driver: SimulatedDriver, device: SimulatedHandle, buffer: Any) -> None:
    del device
    buffer.value = driver.node.scenario.driver_version.encode()


def _gsp_mode(driver: SimulatedDriver, device: SimulatedHandle, enabled: Any, default: Any) -> None:
    del driver
    has_processor = device.support.architecture >= _TURING
    put(enabled, int(has_processor))
    put(default, int(has_processor))


LOOKUP: Final[Mapping[str, Callable[..., Any]]] = {
    "nvmlDeviceGetCount_v2": _count,
    "nvmlDeviceGetHandleByIndex_v2": _by_index,
    "nvmlDeviceGetHandleByUUID": _by_uuid,
    "nvmlDeviceGetHandleByPciBusId_v2": _by_pci_bus_id,
    "nvmlDeviceGetHandleBySerial": _by_serial,
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
    "nvmlDeviceGetMinorNumber": _minor_number,
    "nvmlDeviceGetPciInfo_v3": _pci_info,
    "nvmlDeviceGetPciInfoExt": _pci_info,
    "nvmlDeviceGetNumGpuCores": _cores,
    "nvmlDeviceGetBoardId": _board_id,
    "nvmlDeviceGetMultiGpuBoard": _one_gpu_on_board,
    "nvmlDeviceGetVbiosVersion": _firmware_version,
    "nvmlDeviceGetSerial": _serial,
    "nvmlDeviceGetBoardPartNumber": _part_number,
    "nvmlDeviceGetInforomVersion": _inforom_version,
    "nvmlDeviceGetInforomImageVersion": _inforom_image_version,
    "nvmlDeviceGetInforomConfigurationChecksum": _inforom_checksum,
    "nvmlDeviceGetModuleId": _module,
    "nvmlDeviceGetBusType": _bus_type,
    "nvmlDeviceGetIrqNum": _interrupt,
    "nvmlDeviceGetGspFirmwareVersion": _gsp_version,
    "nvmlDeviceGetGspFirmwareMode": _gsp_mode,
}
