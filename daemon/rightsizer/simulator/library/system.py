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
    refuse_if,
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


def _shut_down(driver: SimulatedDriver) -> None:
    refuse_if(not driver.is_started(), NvmlCode.UNINITIALIZED)
    driver.references -= 1


def _process_name(driver: SimulatedDriver, pid: Any, buffer: Any, size: Any) -> None:
    workload = driver.node.workload_of(number(pid))
    if workload is None:
        raise NvmlCallError(NvmlCode.NOT_FOUND)
    put_text(buffer, size, f"/usr/bin/{workload.name}")


SYSTEM: Final[Functions] = {
    "nvmlInitWithFlags": lambda driver, _=0: driver.start(),
    "nvmlShutdown": _shut_down,
    "nvmlErrorString": lambda _, code: _ERRORS.get(number(code), b"Unknown Error"),
    "nvmlSystemGetDriverVersion": lambda driver, buffer, size: put_text(
        buffer, size, driver.node.scenario.driver_version
    ),
    # NVML's own version is CUDA's major version before the driver's.
    "nvmlSystemGetNVMLVersion": lambda driver, buffer, size: put_text(
        buffer, size, f"{_CUDA_VERSION // 1000}.{driver.node.scenario.driver_version}"
    ),
    "nvmlSystemGetCudaDriverVersion": lambda _, version: put(version, _CUDA_VERSION),
    "nvmlSystemGetCudaDriverVersion_v2": lambda _, version: put(version, _CUDA_VERSION),
    "nvmlSystemGetProcessName": _process_name,
    "nvmlSystemGetHicVersion": lambda _driver, count, _cards: put(count, 0),
}
