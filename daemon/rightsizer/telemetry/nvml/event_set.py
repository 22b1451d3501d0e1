"""An event set of the driver's: which GPU reported which Xid, heard by one thread alone."""

import ctypes
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import pynvml

from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.inventory import Gpu
from rightsizer.telemetry.nvml.library import Library

__all__ = ["EventSet", "Heard", "Xid"]

_XID: Final = pynvml.nvmlEventTypeXidCriticalError
_WAIT_MILLISECONDS: Final = 50
"""The driver keeps what happens between two waits; a short one lets go of the driver soon."""
_MOST_EVENTS: Final = 256
"""Of one look; the rest of a storm is heard with the next."""
_ANY_INSTANCE: Final = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Xid:
    """An error as the driver reported it."""

    uuid: str | None
    """Of the GPU or, where the driver tells, of the MIG instance; `None` where nobody knows."""
    code: int
    parent_uuid: str | None = None
    """The GPU of a MIG instance."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What one look brought."""

    xids: tuple[Xid, ...]
    listening: frozenset[str]
    """Uuids of the GPUs whose Xids are reported, and of their MIG instances."""
    is_partial: bool
    """Whether a GPU that has such events could not be registered this time."""
    failure: Failure | None
    """Why nothing more is heard, beside that nothing happens."""
    duration_seconds: float


class EventSet:
    """The event set of some GPUs; made with the first look, freed when the thread leaves it."""

    def __init__(self, gpus: Sequence[Gpu]) -> None:
        """Asks the driver for nothing yet."""
        self.library = Library()
        self._gpus = gpus
        self._set: Any = None
        self._registered: dict[int, Gpu] = {}
        self._is_partial = False

    def look(self) -> Heard:
        """What was reported since the last look."""
        started = time.perf_counter()
        failure = self._open() if self._set is None else None
        xids: list[Xid] = []
        if failure is None and self._registered:
            failure = self._drain(xids)
        return Heard(
            tuple(xids),
            frozenset(
                target.device.uuid for gpu in self._registered.values() for target in gpu.targets
            ),
            self._is_partial,
            failure,
            time.perf_counter() - started,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._free()

    def _open(self) -> Failure | None:
        """Make the set; a GPU that spoils it is left out of the next attempt."""
        gpus = list(self._gpus)
        self._is_partial = False
        while True:
            made = self.library.ask("nvmlEventSetCreate")
            if isinstance(made, Failure):
                return made
            self._set = made
            spoiler = next((gpu for gpu in gpus if not self._register(gpu)), None)
            if spoiler is None:
                return None
            gpus.remove(spoiler)
            self._free()

    def _register(self, gpu: Gpu) -> bool:
        """Whether the set is still good afterwards, with the GPU in it or without."""
        handle = gpu.whole.handle
        kinds = self.library.ask("nvmlDeviceGetSupportedEventTypes", handle)
        answer = kinds
        if not isinstance(kinds, Failure):
            if not kinds & _XID:
                return True
            answer = self.library.ask("nvmlDeviceRegisterEvents", handle, _XID, self._set)
        if not isinstance(answer, Failure):
            self._registered[_address(handle)] = gpu
            return True
        self._is_partial = self._is_partial or not answer.is_unsupported
        return not answer.is_unknown

    def _drain(self, xids: list[Xid]) -> Failure | None:
        for place in range(_MOST_EVENTS):
            event = self.library.ask(
                "nvmlEventSetWait_v2", self._set, 0 if place else _WAIT_MILLISECONDS
            )
            if isinstance(event, Failure):
                return self._end(event)
            if event.eventType & _XID:
                xids.append(self._xid(event))
        return None

    def _end(self, failure: Failure) -> Failure | None:
        """What the end of the events means: that there are no more, or that the set is worn out."""
        if failure.code == pynvml.NVML_ERROR_TIMEOUT:
            return None
        self._free()
        # A GPU is off the bus: the next set is for the others.
        self._is_partial = True
        return failure

    def _xid(self, event: Any) -> Xid:
        code = int(event.eventData)
        gpu = self._registered.get(_address(event.device))
        if gpu is None:
            told = self.library.ask("nvmlDeviceGetUUID", event.device)
            return Xid(None if isinstance(told, Failure) else str(told), code)
        whole = gpu.whole.device.uuid
        hit = tuple(_instances(gpu, event.gpuInstanceId, event.computeInstanceId))
        return Xid(hit[0], code, parent_uuid=whole) if len(hit) == 1 else Xid(whole, code)

    def _free(self) -> None:
        if self._set is not None:
            self.library.ask("nvmlEventSetFree", self._set)
        self._set = None
        self._registered.clear()


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _instances(gpu: Gpu, gpu_instance_id: int, compute_instance_id: int) -> Iterator[str]:
    """The MIG instances that an event is of; none where it is of the whole GPU."""
    for target in gpu.instances:
        mig = target.device.mig
        if (
            mig is not None
            and mig.gpu_instance_id == gpu_instance_id
            and compute_instance_id in {_ANY_INSTANCE, mig.compute_instance_id}
        ):
            yield target.device.uuid
