"""The driver behind the library: handles, the time of the readings, and the node."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.telemetry.simulated.counters import Counters
from rightsizer.telemetry.simulated.library.calls import (
    Code,
    Refusal,
    point,
    read_pointer,
    write_pointer,
)
from rightsizer.telemetry.simulated.library.faults import Faults
from rightsizer.telemetry.simulated.library.lent import Lent
from rightsizer.telemetry.simulated.library.support import Support, support_of
from rightsizer.telemetry.simulated.node import Node, Unit
from rightsizer.telemetry.simulated.physics import BoardState

__all__ = ["REFRESH", "Driver", "Handle", "Sample"]

REFRESH: Final[Nanoseconds] = NANOSECONDS_PER_SECOND // 10
"""How often the driver renews its readings: calls in between see the same."""

_FIRST_ADDRESS: Final = 0x7F00_0000_0000
_GPU_STRIDE: Final = 0x10000
_INSTANCE_STRIDE: Final = 0x100
_FIRST_SAMPLE: Final = 0x7E00_0000_0000
_FIRST_EVENT_SET: Final = 0x7D00_0000_0000


@dataclass(frozen=True, slots=True)
class Sample:
    """When which device was sampled; the model knows the rest."""

    uuid: str
    time: Nanoseconds


class Handle:
    """A device as the library's functions see it."""

    __slots__ = ("_driver", "address", "instances", "parent", "support", "unit", "uuid")

    def __init__(self, driver: "Driver", unit: Unit, address: int, parent: "Handle | None") -> None:
        """A device at an address."""
        self._driver = driver
        self.unit = unit
        self.uuid = unit.device.uuid
        self.address = address
        self.parent = parent or self
        self.support: Support = support_of(unit.slot.board)
        self.instances: tuple[Handle, ...] = tuple(
            Handle(driver, instance, address + (number + 1) * _INSTANCE_STRIDE, self)
            for number, instance in enumerate(unit.instances)
        )

    @property
    def state(self) -> BoardState:
        """What is true of the device now."""
        return self._driver.node.state(self.uuid, self._driver.now())

    @property
    def counters(self) -> Counters:
        """What the GPU has used and moved until now."""
        return self._driver.node.counters(self.uuid, self._driver.now())

    def need(self, condition: object) -> None:
        """Answer that something is not supported unless it is.

        Raises:
            Refusal: the condition does not hold.
        """
        if not condition:
            raise Refusal(Code.NOT_SUPPORTED)

    def need_whole(self) -> None:
        """Answer that a reading is not supported while the GPU is cut into instances.

        Raises:
            Refusal: it is.
        """
        self.need(not self.instances)


class Driver:
    """The state of a loaded library."""

    def __init__(self, node: Node, time: Callable[[], Nanoseconds], faults: Faults) -> None:
        """A driver of a node's devices, which reads the time from a clock."""
        self.node = node
        self.faults = faults
        self._time = time
        self.references = 0
        self.samples: Lent[Sample] = Lent(_FIRST_SAMPLE)
        self.event_sets: Lent[set[str]] = Lent(_FIRST_EVENT_SET)
        self.gpus = tuple(
            Handle(self, unit, _FIRST_ADDRESS + number * _GPU_STRIDE, None)
            for number, unit in enumerate(node.units)
        )
        self._handles = {
            handle.address: handle for gpu in self.gpus for handle in (gpu, *gpu.instances)
        }
        self._by_uuid = {handle.uuid: handle for handle in self._handles.values()}

    def now(self) -> Nanoseconds:
        """The time of the readings: wall time, in steps of the driver's refresh."""
        time = self._time()
        return time - time % REFRESH

    def microseconds(self) -> int:
        """The time as NVML's timestamps give it."""
        return self.now() // 1000

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
            Refusal: the GPU is lost.
        """
        if self.faults.is_lost(handle.parent.uuid):
            raise Refusal(Code.GPU_IS_LOST)
        write_pointer(reference, handle.address)

    def give_into(self, pointer: Any, handle: Handle) -> None:
        """Write a device's address into a pointer inside a structure or an array."""
        point(pointer, handle.address)
