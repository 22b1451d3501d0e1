"""Start and stop of the library, versions, error texts."""

from collections.abc import Mapping
from typing import Any, Final

from rightsizer.simulator.library.calls import (
    Functions,
    NvmlCallError,
    NvmlCode,
    number,
    put,
    put_text,
)
from rightsizer.simulator.library.driver import SimulatedDriver

_CUDA_VERSION: Final = 13000
_ERRORS: Final[Mapping[int, bytes]] = {
    0: b"Success",
    1: b"Uninitialized",
    2: b"Invalid Argument",
    3: b"Not Supported",
    4: b"Insufficient Permissions",
    6: b"Not Found",
    7: b"Insufficient Size",
    9: b"Driver Not Loaded",
    10: b"Timeout",
    12: b"NVML Shared Library Not Found",
    13: b"Function Not Found",
    15: b"GPU is lost",
    16: b"GPU requires restart",
    18: b"Driver/library version mismatch",
    25: b"Argument version mismatch",
    999: b"Unknown Error",
}


def _initialize(driver: SimulatedDriver, flags: Any = 0) -> None:
    del flags
    driver.start()


def _shut_down(driver: SimulatedDriver) -> None:
    if not driver.is_started():
        raise NvmlCallError(NvmlCode.UNINITIALIZED)
    driver.references -= 1


def _error_string(driver: SimulatedDriver, code: Any) -> bytes:
    del driver
    return _ERRORS.get(number(code), b"Unknown Error")


def _driver_version(driver: SimulatedDriver, buffer: Any, size: Any) -> None:
    put_text(buffer, size, driver.node.scenario.driver_version)


def _library_version(driver: SimulatedDriver, buffer: Any, size: Any) -> None:
    # NVML's own version is CUDA's major version before the driver's.
    put_text(buffer, size, f"{_CUDA_VERSION // 1000}.{driver.node.scenario.driver_version}")


def _cuda_version(driver: SimulatedDriver, version: Any) -> None:
    del driver
    put(version, _CUDA_VERSION)


def _process_name(driver: SimulatedDriver, pid: Any, buffer: Any, size: Any) -> None:
    workload = driver.node.workload_of(number(pid))
    if workload is None:
        raise NvmlCallError(NvmlCode.NOT_FOUND)
    put_text(buffer, size, f"/usr/bin/{workload.name}")


def _host_interface_cards(driver: SimulatedDriver, count: Any, cards: Any) -> None:
    del driver, cards
    put(count, 0)


SYSTEM: Final[Functions] = {
    "nvmlInitWithFlags": _initialize,
    "nvmlShutdown": _shut_down,
    "nvmlErrorString": _error_string,
    "nvmlSystemGetDriverVersion": _driver_version,
    "nvmlSystemGetNVMLVersion": _library_version,
    "nvmlSystemGetCudaDriverVersion": _cuda_version,
    "nvmlSystemGetCudaDriverVersion_v2": _cuda_version,
    "nvmlSystemGetProcessName": _process_name,
    "nvmlSystemGetHicVersion": _host_interface_cards,
}
