"""The NVLink fabric that a GPU is registered with, and its link to the processor beside it."""

import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.telemetry.simulated.feature import Feature
from rightsizer.telemetry.simulated.library.calls import Code, Refusal, out
from rightsizer.telemetry.simulated.library.driver import Driver, Handle

__all__ = ["FABRIC", "FABRIC_COMPLETED"]

FABRIC_COMPLETED: Final = 3
_VERSION_2, _VERSION_3 = 0x02000024, 0x3000028
_HEALTHY: Final = 0x1AA
"""Neither degraded nor recovering nor unhealthy nor timing out, and configured as it should be."""
_DEGRADED: Final = 0x1A9
_HEALTHY_SUMMARY, _DEGRADED_SUMMARY = 1, 3
_RACK: Final = uuid.UUID("5ca1ab1e-0000-4000-8000-000000000000")


def _fill(device: Handle, target: Any) -> bool:
    """Whether the links are whole, with all that the versions share written."""
    # Nodes of a rack form one cluster; the GPUs of an HGX board are one by themselves.
    cluster = _RACK.bytes if device.support.has(Feature.NUMA_NODE) else bytes(16)
    target.clusterUuid = type(target.clusterUuid)(*cluster)
    target.status, target.cliqueId, target.state = Code.SUCCESS, 0, FABRIC_COMPLETED
    return not device.health.links_down


def _information(driver: Driver, device: Handle, info: Any) -> None:
    del driver
    device.need(Feature.FABRIC)
    _fill(device, out(info))


def _versioned(driver: Driver, device: Handle, info: Any) -> None:
    del driver
    device.need(Feature.FABRIC)
    target = out(info)
    if target.version not in {_VERSION_2, _VERSION_3}:
        raise Refusal(Code.ARGUMENT_VERSION_MISMATCH)
    whole = _fill(device, target)
    target.healthMask = _HEALTHY if whole else _DEGRADED
    if target.version == _VERSION_3:
        target.healthSummary = _HEALTHY_SUMMARY if whole else _DEGRADED_SUMMARY


def _chip_to_chip(driver: Driver, device: Handle, info: Any) -> None:
    del driver
    device.need(Feature.C2C)
    out(info).isC2cEnabled = 1


FABRIC: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetGpuFabricInfo": _information,
    "nvmlDeviceGetGpuFabricInfoV": _versioned,
    "nvmlDeviceGetC2cModeInfoV": _chip_to_chip,
}
