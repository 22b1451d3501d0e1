"""Listener for Xids of all GPUs on its own thread; event sets of the driver; log of Xids."""

import ctypes
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Self

import pynvml
from msgspec import Struct
from msgspec.structs import replace

from rightsizer.io.clock import Clock
from rightsizer.io.log import logger
from rightsizer.io.worker import Crashed, Stuck, Worker
from rightsizer.model.values import (
    CRITICAL_XIDS,
    NANOSECONDS_PER_SECOND,
    OTHER_XID,
    XID_MEANINGS,
    CollectorOutcome,
    Down,
    Nanoseconds,
    XidLog,
)
from rightsizer.telemetry.nvml.inventory import Gpu, Inventory
from rightsizer.telemetry.nvml.library import NvmlFailure, NvmlLibrary
from rightsizer.telemetry.nvml.settings import LiveSettings

_XID: Final = pynvml.nvmlEventTypeXidCriticalError
_WAIT_MILLISECONDS: Final = 50
"""The driver queues events between two waits; a short wait soon leaves the driver."""
_MOST_EVENTS: Final = 256
"""Limit of one read; the rest of a storm is read next time."""
_ANY_INSTANCE: Final = 0xFFFFFFFF
_ListedGpus = tuple[int, tuple[Gpu, ...]]
_UNKNOWN: Final = "see NVIDIA's Xid catalog"
_LOG_EVERY: Final = 60 * NANOSECONDS_PER_SECOND
_CODES_MAXIMUM: Final = 64
"""Limit of codes with a line a minute; others share one, since codes come from the driver."""

_BEFORE: Final = 60 * NANOSECONDS_PER_SECOND
"""Age of an Xid at the beginning of an outage up to which it explains it."""


class XidEvent(Struct, frozen=True):
    """An Xid as the driver reported it."""

    uuid: str | None
    """GPU or, if reported, MIG instance; `None` if unknown."""
    code: int
    parent_uuid: str | None = None


class XidBatch(Struct, frozen=True):
    """Result of one read."""

    xids: tuple[XidEvent, ...]
    listening: frozenset[str]
    """Uuids of the GPUs whose Xids are reported, and of their MIG instances."""
    refusal: NvmlFailure | None
    """Why a GPU that supports Xid events could not be registered this time."""
    failure: NvmlFailure | None
    """Why no events can be read."""
    duration_seconds: float


class XidEventSet:
    """Event set of some GPUs; created on first read, freed when the thread leaves it."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        self.library = NvmlLibrary()
        self._gpus = gpus
        self._set: Any = None
        self._registered: dict[int, Gpu] = {}
        self._refusal: NvmlFailure | None = None

    def read(self) -> XidBatch:
        """Return the events since the last read."""
        started = time.perf_counter()
        failure = self._open() if self._set is None else None
        xids: list[XidEvent] = []
        if failure is None and self._registered:
            failure = self._drain(xids)
        targets = (target for gpu in self._registered.values() for target in gpu.targets)
        listening = frozenset(target.device.uuid for target in targets)
        seconds = time.perf_counter() - started
        return XidBatch(tuple(xids), listening, self._refusal, failure, seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._free()

    def _open(self) -> NvmlFailure | None:
        gpus = list(self._gpus)
        self._refusal = None
        while True:
            made = self.library.ask("nvmlEventSetCreate")
            if isinstance(made, NvmlFailure):
                return made
            self._set = made
            spoiler = next((gpu for gpu in gpus if not self._register(gpu)), None)
            if spoiler is None:
                return None
            gpus.remove(spoiler)
            self._free()

    def _register(self, gpu: Gpu) -> bool:
        """Register a GPU if it can be; return whether the set is still usable."""
        handle = gpu.whole.handle
        kinds = self.library.ask("nvmlDeviceGetSupportedEventTypes", handle)
        answer = kinds
        if not isinstance(kinds, NvmlFailure):
            if not kinds & _XID:
                return True
            answer = self.library.ask("nvmlDeviceRegisterEvents", handle, _XID, self._set)
        if not isinstance(answer, NvmlFailure):
            self._registered[_address(handle)] = gpu
            return True
        if not answer.is_unsupported:
            self._refusal = self._refusal or answer
        return not answer.is_unknown

    def _drain(self, xids: list[XidEvent]) -> NvmlFailure | None:
        for place in range(_MOST_EVENTS):
            wait = 0 if place else _WAIT_MILLISECONDS
            event = self.library.ask("nvmlEventSetWait_v2", self._set, wait)
            if isinstance(event, NvmlFailure) and event.is_unsupported:
                event = self.library.ask("nvmlEventSetWait_v1", self._set, wait)
            if isinstance(event, NvmlFailure):
                return self._end(event)
            if event.eventType & _XID:
                xids.append(self._xid(event))
        return None

    def _end(self, failure: NvmlFailure) -> NvmlFailure | None:
        """Classify a failed wait: a timeout means no more events, anything else a broken set."""
        if failure.code == pynvml.NVML_ERROR_TIMEOUT:
            return None
        self._free()
        # A GPU fell off the bus: continue with a set of the others.
        self._refusal = failure
        return failure

    def _xid(self, event: Any) -> XidEvent:
        code = int(event.eventData)
        gpu = self._registered.get(_address(event.device))
        if gpu is None:
            uuid = self.library.ask("nvmlDeviceGetUUID", event.device)
            return XidEvent(None if isinstance(uuid, NvmlFailure) else str(uuid), code)
        whole = gpu.whole.device.uuid
        hit = tuple(_instances(gpu, event.gpuInstanceId, event.computeInstanceId))
        return XidEvent(hit[0], code, parent_uuid=whole) if len(hit) == 1 else XidEvent(whole, code)

    def _free(self) -> None:
        if self._set is not None:
            self.library.ask("nvmlEventSetFree", self._set)
        self._set = None
        self._registered.clear()


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _instances(gpu: Gpu, gpu_instance_id: int, compute_instance_id: int) -> Iterator[str]:
    """Yield the MIG instances of an event; none if it is of the whole GPU."""
    for target in gpu.instances:
        mig = target.device.mig
        if (
            mig is not None
            and mig.gpu_instance_id == gpu_instance_id
            and compute_instance_id in {_ANY_INSTANCE, mig.compute_instance_id}
        ):
            yield target.device.uuid


class XidEventLog:
    """Log of Xids: at most one line a code and minute, with the number of unlogged ones."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._log = logger("xid")
        self._last: dict[int, Nanoseconds] = {}
        self._without_line: Counter[int] = Counter()

    def log(self, xid: XidEvent) -> None:
        """Log an Xid, or count it until its code's minute is over."""
        now = self._clock.time()
        self._last = {code: at for code, at in self._last.items() if now - at < _LOG_EVERY}
        is_critical = xid.code in CRITICAL_XIDS
        has_own = is_critical or xid.code in self._last or len(self._last) < _CODES_MAXIMUM
        code = xid.code if has_own else OTHER_XID
        if code in self._last:
            self._without_line[code] += 1
            return
        self._last[code] = now
        before = self._without_line.pop(code, 0)
        (self._log.error if is_critical else self._log.warning)(
            "xid",
            code=xid.code,
            uuid=xid.uuid,
            meaning=XID_MEANINGS.get(xid.code, _UNKNOWN),
            critical=is_critical,
            **({"without_a_line_before": before} if before else {}),
        )


class XidListener:
    """Xids of each device; counts outlive inventories and openings of NVML.

    Used by the coordinator's thread only; never blocks.
    """

    def __init__(self, *, clock: Clock, settings: LiveSettings) -> None:
        self._clock = clock
        self._settings = settings
        self._event_log = XidEventLog(clock)
        self.worker: Worker[XidEventSet, XidBatch] = Worker(
            "xid",
            lambda: XidEventSet(()),
            abandon_after_seconds=settings.abandon_after_seconds,
            abandoned_maximum=settings.abandoned_threads_maximum,
        )
        """Worker that holds an event set of the listed inventory."""
        self._inventory: Inventory | None = None
        self._listed: _ListedGpus | None = None
        self._asked_of: _ListedGpus | None = None
        self._is_asking = False
        self._is_idle = True
        self._is_partial = False
        self.xids: Mapping[str, XidLog] = {}
        """By uuid; devices without Xids have an empty log, devices not listened to have none."""
        self.outcome: CollectorOutcome | None = None
        """Outcome of the last read; `None` if no GPU supports Xid events."""

    def set_inventory(self, inventory: Inventory | None) -> None:
        """Listen to the GPUs of an inventory; `None` releases the driver."""
        if inventory is self._inventory:
            return
        self._inventory = inventory
        listed = None if inventory is None else (inventory.generation, inventory.gpus)
        # GPUs that failed to register are tried again with each inventory.
        if listed is not None and listed == self._listed and not self._is_partial:
            return
        self._listed = listed
        gpus = () if inventory is None else inventory.gpus
        self.worker.renew(lambda: XidEventSet(gpus))
        self._is_idle = not gpus
        self._is_partial = False
        self.outcome = None

    def poll(self) -> None:
        """Take the events that arrived, and continue listening."""
        if self._is_asking:
            self._take()
        if not self._is_asking:
            self._ask()

    def close(self, deadline: float) -> None:
        """Free the event set and end the thread; a hung one is left behind."""
        self.set_inventory(None)
        self.worker.close()
        self.worker.join(deadline)

    def _ask(self) -> None:
        if not self._is_idle and self.worker.ask(XidEventSet.read):
            self._is_asking = True
            self._asked_of = self._listed

    def _take(self) -> None:
        answer = self.worker.answer(time.monotonic())
        if isinstance(answer, Stuck):
            if answer.seconds >= self._settings.deadline_seconds:
                self.outcome = CollectorOutcome(success=False, duration_seconds=answer.seconds)
            # Events that arrive now are taken in the next tick.
            if answer.still_seconds >= self._settings.abandon_after_seconds:
                self._ask()
            return
        self._is_asking = False
        if isinstance(answer, Crashed):
            self.outcome = CollectorOutcome(False, 0.0, repr(answer.error))
        else:
            self._accept(answer)

    def _accept(self, heard: XidBatch) -> None:
        quiet = {uuid: XidLog({}) for uuid in heard.listening if uuid not in self.xids}
        if quiet:
            self.xids = {**self.xids, **quiet}
        for xid in heard.xids:
            self._count(xid)
        if self._asked_of != self._listed:
            return  # Last events of GPUs no longer listed.
        self._is_partial = heard.refusal is not None
        if heard.failure is not None:
            # Retrying may be pointless before the next inventory.
            self._is_idle = heard.failure.is_unsupported or heard.failure.driver_is_gone
            if not heard.failure.is_unsupported:
                failure = str(heard.failure)
                self.outcome = CollectorOutcome(False, heard.duration_seconds, failure)
        else:
            self._is_idle = not heard.listening  # None of these GPUs can be listened to.
            if heard.listening or heard.refusal:
                detail = None if heard.refusal is None else str(heard.refusal)
                self.outcome = CollectorOutcome(not detail, heard.duration_seconds, detail)

    def _count(self, xid: XidEvent) -> None:
        self._event_log.log(xid)
        # A GPU's count includes its instances', which come and go.
        for uuid in filter(None, (xid.uuid, xid.parent_uuid)):
            log = self.xids.get(uuid, XidLog({}))
            self.xids = {**self.xids, uuid: log.counted(xid.code, self._clock.wall_time())}


class OutageXids:
    """Names the Xid of each outage: one that came while the device is down, or just before."""

    def __init__(self) -> None:
        self._began: dict[str, Nanoseconds] = {}

    def explained(
        self, down: dict[str, Down], xids: Mapping[str, XidLog], wall_time: Nanoseconds
    ) -> dict[str, Down]:
        """Return why devices are down, with their Xids."""
        self._began = {uuid: self._began.get(uuid, wall_time) for uuid in down}
        return {
            uuid: _with_xid(reason, xids.get(uuid), self._began[uuid] - _BEFORE)
            for uuid, reason in down.items()
        }


def _with_xid(down: Down, xids: XidLog | None, since: Nanoseconds) -> Down:
    if xids is None or xids.last_wall_time is None or not down.reason.is_fault:
        return down
    if xids.last_wall_time < since:
        return down
    cause = f"Xid {xids.last}: {XID_MEANINGS.get(xids.last or 0, _UNKNOWN)}"
    return replace(down, detail=f"{down.detail}; {cause}", cause=cause)
