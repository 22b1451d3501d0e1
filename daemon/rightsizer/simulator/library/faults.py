"""Faults of the driver: those of the scenario, and those that tests switch on."""

import threading
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from rightsizer.model.units import Nanoseconds
from rightsizer.simulator.device import SimulatedDevice
from rightsizer.simulator.faults import CallFailure, CallHang, GpuAbsence, GpuLoss
from rightsizer.simulator.library.calls import NvmlCode
from rightsizer.simulator.node import SimulatedNode

_SURVIVE: Final = frozenset({"nvmlErrorString"})
"""Functions that never reach the driver."""


class ScenarioFaults:
    """The active faults of a node's scenario."""

    def __init__(self, node: SimulatedNode, now: Callable[[], Nanoseconds]) -> None:
        self._node = node
        self._now = now

    def hangs(self, function: str, uuid: str) -> bool:
        """Whether a call does not come back."""
        if not uuid:
            return False
        hangs = self._node.timeline(self._node.unit(uuid)).effects(CallHang, self._now())
        return any(hang.function in {"", function} for hang in hangs)

    def code(self, function: str, uuid: str) -> int:
        """The error code of a call; 0 where it works."""
        now = self._now()
        unload = self._node.unload(now)
        if unload is not None and function not in _SURVIVE:
            return unload.code
        return self._code_of(self._node.unit(uuid), function, now) if uuid else NvmlCode.SUCCESS

    def _code_of(self, unit: SimulatedDevice, function: str, now: Nanoseconds) -> int:
        timeline = self._node.timeline(unit)
        if timeline.has(GpuLoss, now):
            return NvmlCode.GPU_IS_LOST
        if timeline.has(GpuAbsence, now) or not self._is_cut_so(unit, now):
            return NvmlCode.INVALID_ARGUMENT
        failures = timeline.effects(CallFailure, now)
        codes = (each.code for each in failures if each.function in {"", function})
        return next(codes, NvmlCode.SUCCESS)

    def _is_cut_so(self, unit: SimulatedDevice, now: Nanoseconds) -> bool:
        return not unit.is_instance or self._node.timeline(unit).holds(unit.spot, now)


_ANY: Final = ""
_LOOK_SECONDS: Final = 0.02
"""How often a hanging call polls the scenario."""


@dataclass(frozen=True, slots=True)
class XidReportEvent:
    """A critical error that the driver reports of a GPU."""

    uuid: str
    code: int
    gpu_instance_id: int | None = None
    compute_instance_id: int | None = None


class DriverFaults:
    """Faults that tests and demonstrations switch on, beside those of the scenario."""

    def __init__(self, script: ScenarioFaults | None = None) -> None:
        self._script = script
        self.active = script is not None
        self._answers: dict[tuple[str, str], int] = {}
        self._hangs: set[tuple[str, str]] = set()
        self._removed: set[str] = set()
        self._lost: set[str] = set()
        self._whole: int | None = None
        self._released = threading.Event()
        self._xids: list[XidReportEvent] = []
        self._news = threading.Condition()

    def answer(self, function: str, code: int, uuid: str = _ANY) -> None:
        """Let a function answer with a code, for one device or for all."""
        self._answers[function, uuid] = code
        self.active = True

    def hang(self, function: str = _ANY, uuid: str = _ANY) -> None:
        """Let calls of a function, or on a device, or both, block until `clear`."""
        self._hangs.add((function, uuid))
        self._released.clear()
        self.active = True

    def lose(self, uuid: str) -> None:
        """Let a GPU fall off the bus."""
        self._lost.add(uuid)
        self.active = True

    def remove(self, function: str) -> None:
        """Remove a function, as from an older driver's library."""
        self._removed.add(function)
        self.active = True

    def unload(self, code: int = NvmlCode.DRIVER_NOT_LOADED) -> None:
        """Let every call fail, as with no driver behind the library or a newer one."""
        self._whole = code
        self.active = True

    def report(self, xid: XidReportEvent) -> None:
        """Report an error once, to the first that waits for it."""
        with self._news:
            self._xids.append(xid)
            self._news.notify_all()

    def wait_for_xid(
        self, uuids: AbstractSet[str], timeout_seconds: float
    ) -> XidReportEvent | None:
        """The next error of some GPUs; `None` where none comes in time."""

        def first() -> XidReportEvent | None:
            return next((xid for xid in self._xids if xid.uuid in uuids), None)

        with self._news:
            self._news.wait_for(first, timeout_seconds)
            found = first()
            if found is not None:
                self._xids.remove(found)
            return found

    def clear(self) -> None:
        """End all faults, the scenario's too, and release hanging calls."""
        self._script = None
        self.active = False
        self._whole = None
        for switches in (self._answers, self._hangs, self._removed, self._lost):
            switches.clear()
        self._released.set()

    def is_removed(self, function: str) -> bool:
        """Whether the library lacks a function."""
        return function in self._removed

    def refusal(self, uuid: str) -> int:
        """The error code of a lookup of a GPU; 0 where it works."""
        if uuid in self._lost:
            return NvmlCode.GPU_IS_LOST
        script = self._script
        return NvmlCode.SUCCESS if script is None else script.code(_ANY, uuid)

    def code(self, function: str, uuid: str, parent: str) -> int:
        """The error code of a call, 0 where it works; blocks where it hangs.

        `uuid` is that of the device, empty without one, `parent` that of its GPU.
        """
        names = {uuid, parent, _ANY}
        if any((name, on) in self._hangs for name in (function, _ANY) for on in names):
            self._released.wait()
        if (script := self._script) is not None:
            while script is self._script and script.hangs(function, uuid):
                self._released.wait(_LOOK_SECONDS)
            if script is self._script and (code := script.code(function, uuid)):
                return code
        if function in self._removed:
            return NvmlCode.FUNCTION_NOT_FOUND
        if self._whole is not None and function not in _SURVIVE:
            return self._whole
        if self._lost & names:
            return NvmlCode.GPU_IS_LOST
        return next(
            (self._answers[function, on] for on in names if (function, on) in self._answers),
            NvmlCode.SUCCESS,
        )
