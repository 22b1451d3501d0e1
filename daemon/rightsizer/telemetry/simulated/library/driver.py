"""The driver behind the library: handles, the time of the readings, and the node."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.telemetry.simulated.library.calls import (
    Code,
    Refusal,
    point,
    read_pointer,
    write_pointer,
)
from rightsizer.telemetry.simulated.library.faults import Faults
from rightsizer.telemetry.simulated.library.handle import Handle
from rightsizer.telemetry.simulated.library.lent import Lent
from rightsizer.telemetry.simulated.library.listener import Listener
from rightsizer.telemetry.simulated.node import Node

__all__ = ["REFRESH", "Driver", "Handle", "Sample"]

REFRESH: Final[Nanoseconds] = NANOSECONDS_PER_SECOND // 10
"""How often the driver renews its readings: calls in between see the same."""

_FIRST_ADDRESS: Final = 0x7F00_0000_0000
_GPU_STRIDE: Final = 0x10000
_FIRST_SAMPLE: Final = 0x7E00_0000_0000
_FIRST_EVENT_SET: Final = 0x7D00_0000_0000


@dataclass(frozen=True, slots=True)
class Sample:
    """When which device was sampled; the model knows the rest."""

    uuid: str
    time: Nanoseconds


class Driver:
    """The state of a loaded library."""

    def __init__(self, node: Node, time: Callable[[], Nanoseconds], faults: Faults) -> None:
        """A driver of a node's devices, which reads the time from a clock."""
        self.node = node
        self.faults = faults
        self._time = time
        self.references = 0
        self._started_at: Nanoseconds = 0
        self.has_faults = node.has_faults
        self.samples: Lent[Sample] = Lent(_FIRST_SAMPLE)
        self.event_sets: Lent[Listener] = Lent(_FIRST_EVENT_SET)
        self.streaming: set[str] = set()
        """GPUs whose profiling counters run all the time."""
        self.gpus = tuple(
            Handle(node, self.now, unit, _FIRST_ADDRESS + number * _GPU_STRIDE, None)
            for number, unit in enumerate(node.units)
        )
        self._handles = {
            handle.address: handle for gpu in self.gpus for handle in (gpu, *gpu.parts)
        }
        self._by_uuid = {handle.uuid: handle for handle in self._handles.values()}

    def now(self) -> Nanoseconds:
        """The time of the readings: wall time, in steps of the driver's refresh."""
        time = self._time()
        refreshed = time - time % REFRESH
        # Nothing was read before there was anything: what is wrong from the start on is so at once.
        return max(refreshed, min(time, self.node.start or 0))

    def microseconds(self) -> int:
        """The time as NVML's timestamps give it."""
        return self.now() // 1000

    def start(self) -> None:
        """One more user of the library; the first wakes the GPUs."""
        if not self.is_started():
            self.references = 0
            # To the nanosecond: a driver that was loaded within this step is there already.
            self._started_at = self._time()
            woken_at = self.now()
            for gpu in self.gpus:
                gpu.woken_at = woken_at
        self.references += 1

    def is_started(self) -> bool:
        """Whether the library may be used: not before it is started, nor with a new driver."""
        if not self.references:
            return False
        return not self.has_faults or self.node.loaded_at(self.now()) <= self._started_at

    def present(self) -> tuple[Handle, ...]:
        """The GPUs that are in their slots, in the order that their indices follow."""
        if not self.has_faults:
            return self.gpus
        now = self.now()
        return tuple(gpu for gpu in self.gpus if not gpu.course.is_absent(now))

    def at(self, pointer: Any) -> Handle:
        """The device at an address.

        Raises:
            Refusal: there is none.
        """
        try:
            return self._handles[read_pointer(pointer)]
        except (KeyError, TypeError, ValueError):
            raise Refusal(Code.INVALID_ARGUMENT) from None

    def of_uuid(self, uuid: str) -> Handle:
        """The device with a UUID.

        Raises:
            Refusal: there is none.
        """
        handle = self._by_uuid.get(uuid)
        if handle is None:
            raise Refusal(Code.NOT_FOUND)
        return handle

    def give(self, reference: Any, handle: Handle) -> None:
        """Write a device's address into the caller's handle.

        Raises:
            Refusal: the GPU is lost, or answers nothing but a code.
        """
        if self.faults.active and (code := self.faults.refusal(handle.parent.uuid)):
            raise Refusal(code)
        write_pointer(reference, handle.address)

    def give_into(self, pointer: Any, handle: Handle) -> None:
        """Write a device's address into a pointer inside a structure or an array."""
        point(pointer, handle.address)
