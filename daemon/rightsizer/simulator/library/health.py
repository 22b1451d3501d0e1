"""Health functions of the simulated boards: errors, retired pages, remapped rows, events."""

import time
from typing import Any, Final

from rightsizer.model.values import Signal
from rightsizer.simulator.library.calls import (
    Functions,
    NvmlCode,
    need_room,
    needed,
    number,
    one_of,
    out,
    point,
    read_pointer,
    refuse_if,
    write_pointer,
)
from rightsizer.simulator.library.driver import (
    SimulatedDriver,
    SimulatedEventSet,
    SimulatedHandle,
    signal_value,
    value,
    values,
)
from rightsizer.simulator.signals import ROWS
from rightsizer.simulator.support import BoardFeature

_XID: Final = 0x8
_SUPPORTED: Final = 0x1C
"""Performance state changes, Xids and clock changes."""
_ECC: Final = 0x3


def _supported_kinds(device: SimulatedHandle) -> int:
    return _SUPPORTED | (_ECC if device.support.has(BoardFeature.ECC) else 0)


def _register(device: SimulatedHandle, kinds: Any, event_set: Any) -> None:
    refuse_if(number(kinds) & ~_supported_kinds(device), NvmlCode.NOT_SUPPORTED)
    registered = device.driver.event_sets[read_pointer(event_set)]
    if number(kinds) & _XID:
        registered.register(device.uuid, device.timeline)


def _wait(driver: SimulatedDriver, event_set: Any, data: Any, timeout_milliseconds: Any) -> None:
    registered = driver.event_sets[read_pointer(event_set)]
    seconds = number(timeout_milliseconds) / 1000.0
    event = needed(registered.wait(seconds, time.monotonic), NvmlCode.TIMEOUT)
    target = out(data)
    point(target.device, driver.of_uuid(event.uuid).address)
    target.eventType = _XID
    target.eventData = event.code
    target.gpuInstanceId = event.gpu_instance_id
    target.computeInstanceId = event.compute_instance_id


EVENTS_SYSTEM: Final[Functions] = {
    "nvmlEventSetCreate": lambda driver, event_set: write_pointer(
        event_set, driver.event_sets.add(SimulatedEventSet(driver.faults, driver.now))
    ),
    "nvmlEventSetFree": lambda driver, event_set: driver.event_sets.remove(read_pointer(event_set)),
    "nvmlEventSetWait_v2": _wait,
}

_VOLATILE: Final = 0
_SINCE_LOADED: Final = (Signal.ECC_CORRECTED_ERRORS, Signal.ECC_UNCORRECTED_ERRORS)
_OVER_LIFE: Final = (Signal.ECC_CORRECTED_ERRORS_LIFETIME, Signal.ECC_UNCORRECTED_ERRORS_LIFETIME)
_REMAPPED: Final = (
    Signal.REMAPPED_ROWS_CORRECTABLE,
    Signal.REMAPPED_ROWS_UNCORRECTABLE,
    Signal.REMAPPED_ROWS_PENDING,
    Signal.REMAPPED_ROWS_FAILED,
)
_RETIRED: Final = (Signal.RETIRED_PAGES_CORRECTABLE, Signal.RETIRED_PAGES_UNCORRECTABLE)
_FIRST_PAGE = 0x1000_0000
_PAGE_BYTES = 0x1_0000


def _counted(device: SimulatedHandle, kind: Any, counter: Any) -> float:
    """Return the errors of a kind; all of them are in device memory."""
    signals = _SINCE_LOADED if number(counter) == _VOLATILE else _OVER_LIFE
    row = ROWS[signals[one_of(kind, range(len(signals)))]]
    # With instances, volatile errors are counted by instance.
    device.need(row.feature)
    return row.read(device)


def _retired_pages(device: SimulatedHandle, cause: Any, count: Any, pages: Any) -> None:
    device.need(BoardFeature.RETIRED_PAGES)
    retired = int(ROWS[_RETIRED[one_of(cause, range(len(_RETIRED)))]].read(device))
    need_room(count, retired, pages)
    for page in range(retired):
        pages[page] = _FIRST_PAGE + page * _PAGE_BYTES


_zero = value(lambda _: 0)
HEALTH_OF_INSTANCES: Final[Functions] = {
    # Called for instances only: volatile errors outside the memory chips.
    "nvmlDeviceGetMemoryErrorCounter": value(lambda *_: 0, BoardFeature.ECC)
}

HEALTH: Final[Functions] = {
    "nvmlDeviceGetEccMode": values(lambda _: (1, 1), BoardFeature.ECC),
    "nvmlDeviceGetTotalEccErrors": value(_counted),
    "nvmlDeviceGetRemappedRows": values(
        lambda device: [ROWS[signal].read(device) for signal in _REMAPPED],
        BoardFeature.ROW_REMAPPING,
    ),
    "nvmlDeviceGetRetiredPages": _retired_pages,
    "nvmlDeviceGetRetiredPagesPendingStatus": signal_value(Signal.RETIRED_PAGES_PENDING),
    "nvmlDeviceGetPersistenceMode": value(lambda device: device.unit.slot.is_persistent),
    "nvmlDeviceGetComputeMode": _zero,
    "nvmlDeviceGetVirtualizationMode": _zero,
    "nvmlDeviceGetSupportedEventTypes": value(_supported_kinds),
    "nvmlDeviceRegisterEvents": _register,
}
