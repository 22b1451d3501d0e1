"""Driver behind the library: device handles, event sets, sample buffers, time of readings."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, Final, TypeVar

from msgspec import Struct

from rightsizer.model.values import NANOSECONDS_PER_SECOND, Nanoseconds, Signal
from rightsizer.simulator.device import SimulatedDevice
from rightsizer.simulator.faults import GpuAbsence
from rightsizer.simulator.gpu import GpuTimeline
from rightsizer.simulator.library.calls import (
    NvmlCallError,
    NvmlCode,
    needed,
    number,
    one_of,
    out,
    put,
    put_text,
    read_pointer,
    refuse_if,
    versioned,
    write_pointer,
)
from rightsizer.simulator.library.faults import ScenarioFaults, XidReportEvent
from rightsizer.simulator.node import SimulatedNode
from rightsizer.simulator.physics import BoardState
from rightsizer.simulator.signals import ROWS
from rightsizer.simulator.support import BoardFeature
from rightsizer.simulator.transients import wake_transient
from rightsizer.simulator.view import DeviceView

_Held = TypeVar("_Held")
_STRIDE = 0x100
_LOOK_SECONDS: Final = 0.05
"""Polling interval of the scenario."""
REFRESH: Final[Nanoseconds] = NANOSECONDS_PER_SECOND // 10
"""Interval at which readings change: calls in between return the same values."""
_FIRST_ADDRESS: Final = 0x7F00_0000_0000
_GPU_STRIDE: Final = 0x10000
_FIRST_SAMPLE: Final = 0x7E00_0000_0000
_FIRST_EVENT_SET: Final = 0x7D00_0000_0000


class HandleTable(dict[int, _Held]):
    """Objects by the addresses that represent them; an unknown address is an invalid argument."""

    def __init__(self, first_address: int) -> None:
        super().__init__()
        self._addresses = count(first_address, _STRIDE)

    def add(self, held: _Held) -> int:
        """Add an object; return its address."""
        address = next(self._addresses)
        self[address] = held
        return address

    def replace(self, address: int, held: _Held) -> None:
        """Replace the object at an address."""
        refuse_if(address not in self)
        self[address] = held

    def remove(self, address: int) -> None:
        """Free an address."""
        refuse_if(self.pop(address, None) is None)

    def __missing__(self, address: int) -> _Held:
        raise NvmlCallError(NvmlCode.INVALID_ARGUMENT)


class SimulatedEventSet:
    """Receives the Xids of GPUs from their registration on."""

    def __init__(self, faults: ScenarioFaults, now: Callable[[], Nanoseconds]) -> None:
        self._faults = faults
        self._now = now
        self._since: dict[str, Nanoseconds] = {}
        self._registered: dict[str, GpuTimeline] = {}
        self._pending: deque[XidReportEvent] = deque()
        self._lock = threading.Lock()

    def register(self, uuid: str, timeline: GpuTimeline) -> None:
        """Receive the Xids of a GPU from now on."""
        with self._lock:
            self._registered[uuid] = timeline
            self._since.setdefault(uuid, self._now())

    def wait(self, timeout_seconds: float, monotonic: Callable[[], float]) -> XidReportEvent | None:
        """Return the next Xid, or `None` after the timeout."""
        deadline = monotonic() + timeout_seconds
        while True:
            self._collect_faults()
            if self._pending:
                return self._pending.popleft()
            left = max(0.0, deadline - monotonic())
            event = self._faults.wait_for_xid(self._registered.keys(), min(left, _LOOK_SECONDS))
            if event is not None or left <= 0.0:
                return event

    def _collect_faults(self) -> None:
        with self._lock:
            now = self._now()
            xids: list[tuple[Nanoseconds, str, int]] = []
            for uuid, timeline in self._registered.items():
                xids.extend((at, uuid, code) for at, code in timeline.xids(self._since[uuid], now))
                self._since[uuid] = now
            self._pending.extend(XidReportEvent(uuid, code) for _, uuid, code in sorted(xids))


class SimulatedHandle(DeviceView):
    """A GPU or MIG instance with its address."""

    def __init__(
        self,
        driver: "SimulatedDriver",
        unit: SimulatedDevice,
        address: int,
        parent: "SimulatedHandle | None" = None,
    ) -> None:
        super().__init__(driver.node, unit, driver.now)
        self.driver = driver
        self._sleeps = not unit.slot.is_persistent
        self.address = address
        self.parent = parent or self
        self.wake_time: Nanoseconds = 0
        self.parts: tuple[SimulatedHandle, ...] = tuple(
            SimulatedHandle(driver, instance, address + place * _STRIDE, self)
            for place, instance in enumerate(unit.instances, 1)
        )

    @property
    def instances(self) -> "tuple[SimulatedHandle, ...]":
        """MIG instances that exist now."""
        if not self.parts or not self.unit.slot.mig_reconfigurations:
            return self.parts
        return tuple(self.parts[spot.instance or 0] for spot in self.timeline.spots(self.now()))

    def instance(self, identifier: Any, refusal: NvmlCode) -> "SimulatedHandle":
        """Return the existing MIG instance with an id; fail the call with `refusal` without one."""
        for part in self.instances:
            if part.unit.device.mig and part.unit.device.mig.gpu_instance_id == number(identifier):
                return part
        raise NvmlCallError(refusal)

    @property
    def state(self) -> BoardState:
        """Present readable state, including the transient after a wake-up."""
        return self.state_at(self.now())

    def state_at(self, time: Nanoseconds) -> BoardState:
        """Return the readable state at a time."""
        state = self.node.state(self.uuid, time)
        return wake_transient(state, self.around, time - self.wake_time) if self._sleeps else state

    @property
    def offered(self) -> frozenset[BoardFeature]:
        """Features offered now, which depend on MIG instances."""
        return self.support.features_with_mig if self.instances else self.support.features

    def need(self, feature: BoardFeature) -> None:
        """Fail the call if the board does not offer a feature now."""
        refuse_if(feature not in self.offered, NvmlCode.NOT_SUPPORTED)


class GpmSample(Struct, frozen=True):
    """Device and time of a sample; the model has the values."""

    uuid: str
    time: Nanoseconds


class SimulatedDriver:
    """State of a loaded library."""

    def __init__(
        self, node: SimulatedNode, time: Callable[[], Nanoseconds], faults: ScenarioFaults
    ) -> None:
        self.node = node
        self.faults = faults
        self._time = time
        self.references = 0
        self._started_at: Nanoseconds = 0
        self.has_faults = node.has_faults
        self.samples: HandleTable[GpmSample] = HandleTable(_FIRST_SAMPLE)
        self.event_sets: HandleTable[SimulatedEventSet] = HandleTable(_FIRST_EVENT_SET)
        self.gpus = tuple(
            SimulatedHandle(self, unit, _FIRST_ADDRESS + place * _GPU_STRIDE)
            for place, unit in enumerate(node.units)
        )
        self._handles = {
            handle.address: handle for gpu in self.gpus for handle in (gpu, *gpu.parts)
        }
        self._by_uuid = {handle.uuid: handle for handle in self._handles.values()}

    def now(self) -> Nanoseconds:
        """Return the time of readings: wall time, rounded down to the driver's refresh."""
        time = self._time()
        refreshed = time - time % REFRESH
        # Not before the start: faults from the start on apply at once.
        return max(refreshed, min(time, self.node.start or 0))

    def microseconds(self) -> int:
        """Return the time as an NVML timestamp."""
        return self.now() // 1000

    def start(self) -> None:
        """Add a user of the library; the first one wakes the GPUs."""
        if not self.is_started():
            self.references = 0
            # Exact: a driver loaded within this refresh step is already there.
            self._started_at = self._time()
            wake_time = self.now()
            for gpu in self.gpus:
                gpu.wake_time = wake_time
        self.references += 1

    def is_started(self) -> bool:
        """Whether the library is initialized, for the present driver."""
        if not self.references:
            return False
        return not self.has_faults or self.node.loaded_at(self.now()) <= self._started_at

    def present(self) -> tuple[SimulatedHandle, ...]:
        """Return the GPUs in their slots, in index order."""
        if not self.has_faults:
            return self.gpus
        now = self.now()
        return tuple(gpu for gpu in self.gpus if not gpu.timeline.has(GpuAbsence, now))

    def at(self, pointer: Any) -> SimulatedHandle:
        """Return the device at an address; fail the call if unknown."""
        try:
            return self._handles[read_pointer(pointer)]
        except (KeyError, TypeError, ValueError):
            raise NvmlCallError(NvmlCode.INVALID_ARGUMENT) from None

    def of_uuid(self, uuid: str) -> SimulatedHandle:
        """Return the device with a UUID; fail the call if unknown."""
        return needed(self._by_uuid.get(uuid), NvmlCode.NOT_FOUND)

    def give(self, reference: Any, handle: SimulatedHandle) -> None:
        """Write a device's address, unless the GPU is lost or only returns errors."""
        if self.faults.active and (code := self.faults.refusal(handle.parent.uuid)):
            raise NvmlCallError(code)
        write_pointer(reference, handle.address)


def value(read: Callable[..., float], feature: BoardFeature | None = None) -> Callable[..., None]:
    """Create a function that writes a number of a device, if the feature is offered."""

    def write(device: SimulatedHandle, *arguments: Any) -> None:
        put(arguments[-1], read(device, *arguments[:-1]))

    return _offered(feature, write)


def signal_value(*signals: Signal) -> Callable[..., None]:
    """Create a function that writes a signal, of several the one that its argument selects."""
    rows = [ROWS[signal] for signal in signals]
    places = range(len(rows))

    def write(device: SimulatedHandle, *arguments: Any) -> None:
        row = rows[one_of(arguments[0], places) if len(arguments) > 1 else 0]
        device.need(row.feature)
        put(arguments[-1], row.read(device))

    return write


def values(
    read: Callable[[SimulatedHandle], Iterable[float]], feature: BoardFeature | None = None
) -> Callable[..., None]:
    """Create a function that writes several numbers of a device, if the feature is offered."""

    def write(device: SimulatedHandle, *references: Any) -> None:
        for reference, value in zip(references, read(device), strict=True):
            put(reference, value)

    return _offered(feature, write)


def text_value(
    read: Callable[[SimulatedHandle], str], feature: BoardFeature | None = None
) -> Callable[..., None]:
    """Create a function that writes a text of a device, if the feature is offered."""
    return _offered(feature, lambda device, buffer, size: put_text(buffer, size, read(device)))


def structure(
    read: Callable[..., Mapping[str, Any]],
    feature: BoardFeature | None = None,
    version: int | None = None,
) -> Callable[..., None]:
    """Create a function that fills a structure, versioned or not, if the feature is offered."""

    def write(device: SimulatedHandle, *arguments: Any) -> None:
        *given, reference = arguments
        target = out(reference) if version is None else versioned(reference, version)
        for name, value in read(device, *given).items():
            setattr(target, name, value)

    return _offered(feature, write)


def signal_structure(version: int | None = None, **parts: Signal) -> Callable[..., None]:
    """Create a function that fills a structure's parts with signals of one feature."""
    rows = {name: ROWS[signal] for name, signal in parts.items()}
    feature = next(iter(rows.values())).feature
    return structure(
        lambda device: {name: row.read(device) for name, row in rows.items()}, feature, version
    )


def _offered(feature: BoardFeature | None, write: Callable[..., None]) -> Callable[..., None]:
    def answer(device: SimulatedHandle, *arguments: Any) -> None:
        if feature is not None:
            device.need(feature)
        write(device, *arguments)

    return answer
