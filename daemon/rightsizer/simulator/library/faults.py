"""Faults of a scenario as its driver library shows them."""

import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct

from rightsizer.model.values import Nanoseconds
from rightsizer.simulator.device import SimulatedDevice
from rightsizer.simulator.faults import CallFailure, CallHang, GpuAbsence, GpuLoss
from rightsizer.simulator.library.calls import NvmlCode
from rightsizer.simulator.node import SimulatedNode

WITHOUT_DRIVER: Final = frozenset({"nvmlErrorString"})
"""Functions that never call the driver."""
_POLL_SECONDS: Final = 0.02
"""Polling interval of a hanging call."""
_NO_INSTANCE: Final = 0xFFFFFFFF


class XidReportEvent(Struct, frozen=True):
    """An Xid that the driver reports."""

    uuid: str
    code: int
    gpu_instance_id: int = _NO_INSTANCE
    compute_instance_id: int = _NO_INSTANCE


class ScenarioFaults:
    """Active faults of a node's scenario."""

    def __init__(self, node: SimulatedNode, now: Callable[[], Nanoseconds]) -> None:
        self._node = node
        self._now = now
        self.active = node.has_faults
        """Whether calls need to check for faults."""

    def refusal(self, uuid: str) -> int:
        """Return the error code of a lookup of a GPU, or 0."""
        return self._scenario_code("", uuid)

    def code(self, function: str, uuid: str, parent: str) -> int:
        """Return the error code of a call, or 0; block while it hangs.

        `uuid` is the device's, empty without one; `parent` is its GPU's.
        """
        del parent
        while uuid and self._hangs(function, uuid):
            time.sleep(_POLL_SECONDS)
        return self._scenario_code(function, uuid)

    def wait_for_xid(
        self, uuids: AbstractSet[str], timeout_seconds: float
    ) -> XidReportEvent | None:
        """Wait for an injected Xid; the scenario itself has none."""
        del uuids
        time.sleep(timeout_seconds)
        return None

    def _hangs(self, function: str, uuid: str) -> bool:
        hangs = self._node.timeline(self._node.unit(uuid)).effects(CallHang, self._now())
        return any(hang.function in {"", function} for hang in hangs)

    def _scenario_code(self, function: str, uuid: str) -> int:
        now = self._now()
        unload = self._node.unload(now)
        if unload is not None and function not in WITHOUT_DRIVER:
            return unload.code
        return self._code_of(self._node.unit(uuid), function, now) if uuid else NvmlCode.SUCCESS

    def _code_of(self, unit: SimulatedDevice, function: str, now: Nanoseconds) -> int:
        timeline = self._node.timeline(unit)
        if timeline.has(GpuLoss, now):
            return NvmlCode.GPU_IS_LOST
        is_there = not unit.is_instance or timeline.holds(unit.spot, now)
        if timeline.has(GpuAbsence, now) or not is_there:
            return NvmlCode.INVALID_ARGUMENT
        failures = timeline.effects(CallFailure, now)
        codes = (failure.code for failure in failures if failure.function in {"", function})
        return next(codes, NvmlCode.SUCCESS)
