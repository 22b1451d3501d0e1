"""Events: sets that wait for an Xid; nothing else ever happens here."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.telemetry.simulated.library.calls import (
    Code,
    Refusal,
    number,
    out,
    put,
    read_pointer,
    write_pointer,
)
from rightsizer.telemetry.simulated.library.driver import Driver, Handle

__all__ = ["EVENTS", "EVENTS_SYSTEM"]

_XID: Final = 0x8
_SUPPORTED: Final = 0x1F
_NO_INSTANCE: Final = 0xFFFFFFFF


def _create(driver: Driver, event_set: Any) -> None:
    write_pointer(event_set, driver.event_sets.lend(set()))


def _free(driver: Driver, event_set: Any) -> None:
    driver.event_sets.give_back(read_pointer(event_set))


def _supported(driver: Driver, device: Handle, kinds: Any) -> None:
    del driver, device
    put(kinds, _SUPPORTED)


def _register(driver: Driver, device: Handle, kinds: Any, event_set: Any) -> None:
    if number(kinds) & ~_SUPPORTED:
        raise Refusal(Code.NOT_SUPPORTED)
    registered = driver.event_sets.get(read_pointer(event_set))
    if number(kinds) & _XID:
        registered.add(device.uuid)


def _wait(driver: Driver, event_set: Any, data: Any, timeout_milliseconds: Any) -> None:
    registered = driver.event_sets.get(read_pointer(event_set))
    event = driver.faults.wait_for_xid(registered, number(timeout_milliseconds) / 1000.0)
    if event is None:
        raise Refusal(Code.TIMEOUT)
    target = out(data)
    driver.give_into(target.device, driver.of_uuid(event.uuid))
    target.eventType = _XID
    target.eventData = event.code
    target.gpuInstanceId = target.computeInstanceId = _NO_INSTANCE


EVENTS_SYSTEM: Final[Mapping[str, Callable[..., Any]]] = {
    "nvmlEventSetCreate": _create,
    "nvmlEventSetFree": _free,
    "nvmlEventSetWait_v2": _wait,
}
EVENTS: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetSupportedEventTypes": _supported,
    "nvmlDeviceRegisterEvents": _register,
}
