"""Health of the simulated boards: errors, retired pages, remapped rows, events."""

import time
from typing import Any, Final

from rightsizer.simulator.faults import GpuHealth
from rightsizer.simulator.library.calls import (
    Functions,
    NvmlCallError,
    NvmlCode,
    number,
    out,
    point,
    put,
    read_pointer,
    versioned,
    write_pointer,
)
from rightsizer.simulator.library.driver import (
    SimulatedDriver,
    SimulatedEventSet,
    SimulatedHandle,
    value,
    values,
)
from rightsizer.simulator.support import BoardFeature

_XID: Final = 0x8
_SUPPORTED: Final = 0x1C
"""Changes of performance state, Xids and changes of clocks."""
_ECC: Final = 0x3
_NO_INSTANCE: Final = 0xFFFFFFFF


def _supported_kinds(device: SimulatedHandle) -> int:
    return _SUPPORTED | (_ECC if device.support.has(BoardFeature.ECC) else 0)


def _register(device: SimulatedHandle, kinds: Any, event_set: Any) -> None:
    if number(kinds) & ~_supported_kinds(device):
        raise NvmlCallError(NvmlCode.NOT_SUPPORTED)
    registered = device.driver.event_sets.get(read_pointer(event_set))
    if number(kinds) & _XID:
        registered.register(device.uuid, device.timeline)


def _wait(driver: SimulatedDriver, event_set: Any, data: Any, timeout_milliseconds: Any) -> None:
    registered = driver.event_sets.get(read_pointer(event_set))
    event = registered.wait(number(timeout_milliseconds) / 1000.0, time.monotonic)
    if event is None:
        raise NvmlCallError(NvmlCode.TIMEOUT)
    target = out(data)
    point(target.device, driver.of_uuid(event.uuid).address)
    target.eventType = _XID
    target.eventData = event.code
    target.gpuInstanceId = _identifier(event.gpu_instance_id)
    target.computeInstanceId = _identifier(event.compute_instance_id)


def _identifier(instance: int | None) -> int:
    return _NO_INSTANCE if instance is None else instance


EVENTS_SYSTEM: Final[Functions] = {
    "nvmlEventSetCreate": lambda driver, event_set: write_pointer(
        event_set, driver.event_sets.add(SimulatedEventSet(driver.faults, driver.now))
    ),
    "nvmlEventSetFree": lambda driver, event_set: driver.event_sets.remove(read_pointer(event_set)),
    "nvmlEventSetWait_v2": _wait,
}
EVENTS: Final[Functions] = {
    "nvmlDeviceGetSupportedEventTypes": value(_supported_kinds),
    "nvmlDeviceRegisterEvents": _register,
}


_VOLATILE: Final = 0
_CORRECTED, _UNCORRECTED = range(2)
_KINDS: Final = frozenset({_CORRECTED, _UNCORRECTED})
_DEVICE_MEMORY: Final = 2
_LOCATIONS: Final = 8
_CAUSES_OF_RETIREMENT: Final = 2
_ROW_GROUPS: Final = 640
_SRAM_VERSION_1: Final = 0x1000068
_NOTHING, _RESET = range(2)
_FIRST_PAGE, _PAGE_BYTES = 0x1000_0000, 0x1_0000


def recovery_action(health: GpuHealth) -> int:
    """What would repair a GPU: nothing, or a reset that remaps rows or retrains links."""
    needs = health.is_remapping_pending or health.has_remapping_failed or health.links_down
    return _RESET if needs else _NOTHING


def _ecc_mode(device: SimulatedHandle, *modes: Any) -> None:
    device.need(BoardFeature.ECC)
    for mode in modes:
        put(mode, 1)


def _counted(device: SimulatedHandle, kind: Any, counter: Any) -> int:
    """Errors of a kind, all of which are in the device's memory."""
    is_volatile = number(counter) == _VOLATILE
    # With instances, volatile errors are counted by instance.
    device.need(BoardFeature.VOLATILE_ECC if is_volatile else BoardFeature.ECC)
    if number(kind) not in _KINDS:
        raise NvmlCallError(NvmlCode.INVALID_ARGUMENT)
    health = device.recent_health if is_volatile else device.health
    corrected = number(kind) == _CORRECTED
    return health.corrected_errors if corrected else health.uncorrected_errors


def _errors_of_memory(
    device: SimulatedHandle,
    kind: Any,
    counter: Any,
    location: Any,
    count: Any,
) -> None:
    if not 0 <= number(location) < _LOCATIONS:
        raise NvmlCallError(NvmlCode.INVALID_ARGUMENT)
    if device.unit.is_instance:
        _errors_of_instance(device, number(kind), number(counter), number(location))
        put(count, 0)
        return
    counted = _counted(device, kind, counter)
    put(count, counted if number(location) == _DEVICE_MEMORY else 0)


def _errors_of_instance(device: SimulatedHandle, kind: int, counter: int, location: int) -> None:
    """Only uncorrected ones of this run of the driver, and not those of its memory."""
    offered = kind == _UNCORRECTED and counter == _VOLATILE and location != _DEVICE_MEMORY
    if not offered or not device.support.has(BoardFeature.ECC):
        raise NvmlCallError(NvmlCode.NOT_SUPPORTED)


def _sram_errors(device: SimulatedHandle, status: Any) -> None:
    device.need(BoardFeature.ROW_REMAPPING)
    target = versioned(status, _SRAM_VERSION_1)
    for name, _ in target._fields_[1:]:
        setattr(target, name, 0)


def _remapped_rows(device: SimulatedHandle) -> tuple[int, ...]:
    health = device.health
    rows = health.rows_correctable, health.rows_uncorrectable
    return (*rows, health.is_remapping_pending, health.has_remapping_failed)


def _row_histogram(device: SimulatedHandle, histogram: Any) -> None:
    device.need(BoardFeature.ROW_REMAPPING)
    target, health = out(histogram), device.health
    used = min(_ROW_GROUPS, health.rows_correctable + health.rows_uncorrectable)
    exhausted = int(health.has_remapping_failed)
    target.max = _ROW_GROUPS - max(used, exhausted)
    target.high, target.partial, target.low = used, 0, 0
    target.none = exhausted


def _retired_pages(device: SimulatedHandle, cause: Any, count: Any, *pages: Any) -> None:
    device.need(BoardFeature.RETIRED_PAGES)
    if not 0 <= number(cause) < _CAUSES_OF_RETIREMENT:
        raise NvmlCallError(NvmlCode.INVALID_ARGUMENT)
    health = device.health
    retired = (health.rows_correctable, health.rows_uncorrectable)[number(cause)]
    room = out(count).value
    put(count, retired)
    if not retired or pages[0] is None:
        if retired:
            raise NvmlCallError(NvmlCode.INSUFFICIENT_SIZE)
        return
    if room < retired:
        raise NvmlCallError(NvmlCode.INSUFFICIENT_SIZE)
    for page in range(retired):
        pages[0][page] = _FIRST_PAGE + page * _PAGE_BYTES
        for times in pages[1:]:
            times[page] = device.driver.microseconds()


_zero = value(lambda _: 0)
HEALTH_OF_INSTANCES: Final[Functions] = {"nvmlDeviceGetMemoryErrorCounter": _errors_of_memory}
HEALTH: Final[Functions] = {
    "nvmlDeviceGetEccMode": _ecc_mode,
    "nvmlDeviceGetDefaultEccMode": _ecc_mode,
    "nvmlDeviceGetTotalEccErrors": lambda device, kind, counter, count: put(
        count, _counted(device, kind, counter)
    ),
    "nvmlDeviceGetSramEccErrorStatus": _sram_errors,
    "nvmlDeviceGetRemappedRows": values(_remapped_rows, BoardFeature.ROW_REMAPPING),
    "nvmlDeviceGetRowRemapperHistogram": _row_histogram,
    "nvmlDeviceGetRetiredPages": _retired_pages,
    "nvmlDeviceGetRetiredPages_v2": _retired_pages,
    "nvmlDeviceGetRetiredPagesPendingStatus": value(
        lambda device: device.health.is_remapping_pending, BoardFeature.RETIRED_PAGES
    ),
    "nvmlDeviceGetPersistenceMode": value(lambda device: device.unit.slot.is_persistent),
    "nvmlDeviceGetComputeMode": _zero,
    "nvmlDeviceGetDisplayMode": _zero,
    "nvmlDeviceGetDisplayActive": _zero,
    "nvmlDeviceGetVirtualizationMode": _zero,
}
