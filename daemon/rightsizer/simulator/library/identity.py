"""Initialization and versions of the library; lookup and identity of devices."""

from operator import attrgetter
from typing import Any, Final

from rightsizer.simulator.faults import GpuReplacement
from rightsizer.simulator.library.calls import (
    Functions,
    NvmlCode,
    needed,
    number,
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

_CUDA_VERSION: Final = 13000


def _error_text(_: SimulatedDriver, code: Any) -> bytes:
    names = {
        nvml_code.value: nvml_code.name.replace("_", " ").capitalize() for nvml_code in NvmlCode
    }
    return names.get(number(code), "Unknown error").encode()


def _shut_down(driver: SimulatedDriver) -> None:
    refuse_if(not driver.is_started(), NvmlCode.UNINITIALIZED)
    driver.references -= 1


SYSTEM: Final[Functions] = {
    "nvmlInitWithFlags": lambda driver, _=0: driver.start(),
    "nvmlShutdown": _shut_down,
    "nvmlErrorString": _error_text,
    "nvmlSystemGetDriverVersion": lambda driver, buffer, size: put_text(
        buffer, size, driver.node.scenario.driver_version
    ),
    # NVML's version is CUDA's major version followed by the driver's.
    "nvmlSystemGetNVMLVersion": lambda driver, buffer, size: put_text(
        buffer, size, f"{_CUDA_VERSION // 1000}.{driver.node.scenario.driver_version}"
    ),
    "nvmlSystemGetCudaDriverVersion": lambda _, version: put(version, _CUDA_VERSION),
    "nvmlSystemGetCudaDriverVersion_v2": lambda _, version: put(version, _CUDA_VERSION),
}

_NVIDIA_VENDOR: Final = 0x10DE
_FIRST_PRODUCT: Final = 0x2000
_FEW_CORES_PER_SM: Final = frozenset({"Pascal", "Volta", "Turing"})
"""Architectures with 64 cores per SM, like GA100; others have 128."""
_MODULES: Final = 8


def _by_index(driver: SimulatedDriver, index: Any, device: Any) -> None:
    place = number(index)
    gpus = driver.present()
    refuse_if(place >= len(gpus))
    driver.give(device, gpus[place])


def _by_uuid(driver: SimulatedDriver, uuid: Any, device: Any) -> None:
    handle = driver.of_uuid(text(uuid))
    refuse_if(handle.parent not in driver.present(), NvmlCode.NOT_FOUND)
    driver.give(device, handle)


def _by_bus_id(driver: SimulatedDriver, name: Any, device: Any) -> None:
    """Find a GPU by address in any case."""
    wanted = text(name).upper()
    handle = next((gpu for gpu in driver.present() if wanted in _bus_ids(gpu)), None)
    driver.give(device, needed(handle, NvmlCode.NOT_FOUND))


def _bus_ids(device: SimulatedHandle) -> tuple[str, ...]:
    """Return the bus address in full, with a four-digit domain, and without domain as in lspci."""
    full = (device.unit.device.pci_bus_id or "").upper()
    return full, full[4:], full[9:]


def _pci_info(device: SimulatedHandle, info: Any) -> None:
    unit = device.unit
    target = out(info)
    full, short, _ = _bus_ids(device)
    target.busId = full.encode()
    target.busIdLegacy = short.encode()
    target.domain = unit.domain
    target.bus = unit.bus
    target.device = 0
    product = _FIRST_PRODUCT + sum(unit.slot.board.key.encode())
    target.pciDeviceId = target.pciSubSystemId = product << 16 | _NVIDIA_VENDOR


def _uuid(device: SimulatedHandle) -> str:
    """Return the uuid of the board that is in the slot."""
    is_replaced = device.driver.has_faults and device.timeline.has(
        GpuReplacement, device.driver.now()
    )
    return f"{device.uuid[:-4]}beef" if is_replaced else device.uuid


def _cores(device: SimulatedHandle) -> int:
    board = device.unit.slot.board
    has_few = board.architecture in _FEW_CORES_PER_SM or board.compute_capability == (8, 0)
    return board.sm_count * (64 if has_few else 128)


def _module(device: SimulatedHandle) -> int:
    is_on_baseboard = device.unit.slot.board.form_factor.startswith("SXM")
    return device.unit.device.index % _MODULES + 1 if is_on_baseboard else 0


LOOKUP: Final[Functions] = {
    "nvmlDeviceGetCount_v2": lambda driver, count: put(count, len(driver.present())),
    "nvmlDeviceGetHandleByIndex_v2": _by_index,
    "nvmlDeviceGetHandleByUUID": _by_uuid,
    "nvmlDeviceGetHandleByPciBusId_v2": _by_bus_id,
}
IDENTITY_OF_INSTANCES: Final[Functions] = {
    "nvmlDeviceGetName": text_value(lambda device: device.unit.device.name),
    "nvmlDeviceGetUUID": text_value(_uuid),
    "nvmlDeviceGetCudaComputeCapability": values(attrgetter("unit.slot.board.compute_capability")),
    "nvmlDeviceGetArchitecture": value(lambda device: device.support.architecture),
    "nvmlDeviceGetBrand": value(lambda device: device.support.brand),
}
IDENTITY: Final[Functions] = {
    "nvmlDeviceGetIndex": value(lambda device: device.driver.present().index(device)),
    "nvmlDeviceGetMinorNumber": value(lambda device: device.unit.device.index),
    "nvmlDeviceGetPciInfo_v3": _pci_info,
    "nvmlDeviceGetNumGpuCores": value(_cores, BoardFeature.CORES),
    "nvmlDeviceGetVbiosVersion": text_value(
        lambda device: f"96.00.{device.support.architecture:02X}.00.01"
    ),
    "nvmlDeviceGetSerial": text_value(
        lambda device: f"165{channel(0, 'serial', _uuid(device)) % 10**10:010d}",
        BoardFeature.SERIAL,
    ),
    "nvmlDeviceGetInforomImageVersion": text_value(
        lambda device: f"G{device.support.architecture:03d}.0200.00.03"
    ),
    "nvmlDeviceGetModuleId": value(_module),
}
