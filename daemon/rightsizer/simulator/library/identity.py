"""Device lookup, names and identifiers."""

from collections.abc import Callable, Collection
from typing import Any, Final

from rightsizer.simulator.library.calls import (
    Functions,
    NvmlCallError,
    NvmlCode,
    number,
    one_of,
    out,
    put,
    put_text,
    refuse_if,
    text,
)
from rightsizer.simulator.library.driver import (
    SimulatedDriver,
    SimulatedHandle,
    text_value,
    value,
    values,
)
from rightsizer.simulator.support import BoardFeature
from rightsizer.simulator.transients import channel

_NVIDIA_VENDOR: Final = 0x10DE
_FIRST_PRODUCT: Final = 0x2000
_FEW_CORES_PER_SM: Final = frozenset({"Pascal", "Volta", "Turing"})
"""64; others have twice as many, but for the GA100."""
_INFOROM: Final = {0: "2.1", 1: "7.16", 2: "N/A", 3: "N/A"}
"""OEM, ECC, power management, DEN."""
_INFOROM_ECC: Final = 1
_MODULES: Final = 8
_PCIE_BUS: Final = 2
_FIRST_INTERRUPT: Final = 200
_TURING: Final = 6


def _by_index(driver: SimulatedDriver, index: Any, device: Any) -> None:
    place, gpus = number(index), driver.present()
    refuse_if(place >= len(gpus))
    driver.give(device, gpus[place])


def _by_uuid(driver: SimulatedDriver, uuid: Any, device: Any) -> None:
    handle = driver.of_uuid(text(uuid))
    refuse_if(handle.parent not in driver.present(), NvmlCode.NOT_FOUND)
    driver.give(device, handle)


def _by_name(names: Callable[[SimulatedHandle], Collection[str]]) -> Callable[..., None]:
    """A function that gives the GPU that has a name, which may be written in small letters."""

    def answer(driver: SimulatedDriver, name: Any, device: Any) -> None:
        wanted = text(name).upper()
        found = next((gpu for gpu in driver.present() if wanted in names(gpu)), None)
        if found is None:
            raise NvmlCallError(NvmlCode.NOT_FOUND)
        driver.give(device, found)

    return answer


def _serial_of(device: SimulatedHandle) -> str:
    return f"165{channel(0, 'serial', device.uuid) % 10**10:010d}"


def _bus_ids(device: SimulatedHandle) -> tuple[str, ...]:
    """The bus address; the short form has a domain of four digits, and lspci's has none."""
    full = (device.unit.device.pci_bus_id or "").upper()
    return full, full[4:], full[9:]


def _pci_info(device: SimulatedHandle, info: Any) -> None:
    unit, target = device.unit, out(info)
    full, short, _ = _bus_ids(device)
    target.busId = full.encode()
    if hasattr(target, "busIdLegacy"):
        target.busIdLegacy = short.encode()
    target.domain, target.bus, target.device = unit.domain, unit.bus, 0
    product = _FIRST_PRODUCT + sum(unit.slot.board.key.encode())
    target.pciDeviceId = product << 16 | _NVIDIA_VENDOR
    target.pciSubSystemId = product << 16 | _NVIDIA_VENDOR


def _cores(device: SimulatedHandle) -> int:
    board = device.unit.slot.board
    has_few = board.architecture in _FEW_CORES_PER_SM or board.compute_capability == (8, 0)
    return board.sm_count * (64 if has_few else 128)


def _inforom_version(device: SimulatedHandle, kind: Any, buffer: Any, size: Any) -> None:
    part = one_of(kind, _INFOROM)
    device.need(BoardFeature.ECC if part == _INFOROM_ECC else BoardFeature.MEMORY)
    put_text(buffer, size, _INFOROM[part])


def _module(device: SimulatedHandle) -> int:
    is_on_baseboard = device.unit.slot.board.form_factor.startswith("SXM")
    return device.unit.device.index % _MODULES + 1 if is_on_baseboard else 0


LOOKUP: Final[Functions] = {
    "nvmlDeviceGetCount_v2": lambda driver, count: put(count, len(driver.present())),
    "nvmlDeviceGetHandleByIndex_v2": _by_index,
    "nvmlDeviceGetHandleByUUID": _by_uuid,
    "nvmlDeviceGetHandleByPciBusId_v2": _by_name(_bus_ids),
    "nvmlDeviceGetHandleBySerial": _by_name(
        lambda gpu: (_serial_of(gpu),) if gpu.support.has(BoardFeature.SERIAL) else ()
    ),
}
IDENTITY_OF_INSTANCES: Final[Functions] = {
    "nvmlDeviceGetName": text_value(lambda device: device.unit.device.name),
    "nvmlDeviceGetUUID": text_value(lambda device: device.uuid),
    "nvmlDeviceGetCudaComputeCapability": values(
        lambda device: device.unit.slot.board.compute_capability
    ),
    "nvmlDeviceGetArchitecture": value(lambda device: device.support.architecture),
    "nvmlDeviceGetBrand": value(lambda device: device.support.brand),
}
IDENTITY: Final[Functions] = {
    "nvmlDeviceGetIndex": value(lambda device: device.driver.present().index(device)),
    "nvmlDeviceGetMinorNumber": value(lambda device: device.unit.device.index),
    "nvmlDeviceGetPciInfo_v3": _pci_info,
    "nvmlDeviceGetPciInfoExt": _pci_info,
    "nvmlDeviceGetNumGpuCores": value(_cores, BoardFeature.CORES),
    "nvmlDeviceGetBoardId": value(lambda device: device.unit.domain << 16 | device.unit.bus << 8),
    "nvmlDeviceGetMultiGpuBoard": value(lambda _: 0),
    "nvmlDeviceGetVbiosVersion": text_value(
        lambda device: f"96.00.{device.support.architecture:02X}.00.01"
    ),
    "nvmlDeviceGetSerial": text_value(_serial_of, BoardFeature.SERIAL),
    "nvmlDeviceGetBoardPartNumber": text_value(
        lambda device: f"900-2G{device.support.architecture:03d}-0000-000"
    ),
    "nvmlDeviceGetInforomVersion": _inforom_version,
    "nvmlDeviceGetInforomImageVersion": text_value(
        lambda device: f"G{device.support.architecture:03d}.0200.00.03"
    ),
    "nvmlDeviceGetInforomConfigurationChecksum": value(
        lambda device: channel(0, "inforom", device.uuid) & 0xFFFFFFFF
    ),
    "nvmlDeviceGetModuleId": value(_module),
    "nvmlDeviceGetBusType": value(lambda _: _PCIE_BUS),
    "nvmlDeviceGetIrqNum": value(lambda device: _FIRST_INTERRUPT + device.unit.device.index),
    "nvmlDeviceGetGspFirmwareVersion": lambda device, buffer: setattr(
        buffer, "value", device.driver.node.scenario.driver_version.encode()
    ),
    "nvmlDeviceGetGspFirmwareMode": values(
        lambda device: [int(device.support.architecture >= _TURING)] * 2
    ),
}
