"""Event sets that wait for an Xid."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.simulator.library.calls import (
    NvmlCallError,
    NvmlCode,
    number,
    out,
    put,
    read_pointer,
    write_pointer,
)
from rightsizer.simulator.library.driver import SimulatedDriver, SimulatedEventSet, SimulatedHandle
from rightsizer.simulator.support import BoardFeature

_XID: Final = 0x8
_SUPPORTED: Final = 0x1C
"""Changes of performance state, Xids and changes of clocks."""
_ECC: Final = 0x3
_NO_INSTANCE: Final = 0xFFFFFFFF


def _create(driver: SimulatedDriver, event_set: Any) -> None:
    write_pointer(event_set, driver.event_sets.lend(SimulatedEventSet(driver.faults, driver.now)))


def _free(driver: SimulatedDriver, event_set: Any) -> None:
    driver.event_sets.give_back(read_pointer(event_set))


def _supported(driver: SimulatedDriver, device: SimulatedHandle, kinds: Any) -> None:
    del driver
    put(kinds, _supported_kinds(device))


def _supported_kinds(device: SimulatedHandle) -> int:
    return _SUPPORTED | (_ECC if device.support.has(BoardFeature.ECC) else 0)


def _register(driver: SimulatedDriver, device: SimulatedHandle, kinds: Any, event_set: Any) -> None:
    if number(kinds) & ~_supported_kinds(device):
        raise NvmlCallError(NvmlCode.NOT_SUPPORTED)
    registered = driver.event_sets.get(read_pointer(event_set))
    if number(kinds) & _XID:
        registered.register(device.uuid, device.course)


def _wait(driver: SimulatedDriver, event_set: Any, data: Any, timeout_milliseconds: Any) -> None:
    registered = driver.event_sets.get(read_pointer(event_set))
    event = registered.wait(number(timeout_milliseconds) / 1000.0, time.monotonic)
    if event is None:
        raise NvmlCallError(NvmlCode.TIMEOUT)
    target = out(data)
    driver.give_into(target.device, driver.of_uuid(event.uuid))
    target.eventType = _XID
    target.eventData = event.code
    target.gpuInstanceId = _identifier(event.gpu_instance_id)
    target.computeInstanceId = _identifier(event.compute_instance_id)


def _identifier(instance: int | None) -> int:
    return _NO_INSTANCE if instance is None else instance


EVENTS_SYSTEM: Final[Mapping[str, Callable[..., Any]]] = {
    "nvmlEventSetCreate": _create,
    "nvmlEventSetFree": _free,
    "nvmlEventSetWait_v2": _wait,
}
EVENTS: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetSupportedEventTypes": _supported,
    "nvmlDeviceRegisterEvents": _register,
}
