"""Source of snapshots directly from the model, for spans too long for a driver."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    CollectorOutcome,
    Device,
    Down,
    Missing,
    Nanoseconds,
    Snapshot,
    XidLog,
)
from rightsizer.owners.holdings import holdings_on, workloads_on
from rightsizer.simulator.counters import STEP
from rightsizer.simulator.device import SimulatedDevice
from rightsizer.simulator.faults import CallFailure, CallHang, FaultEffect, GpuAbsence, GpuLoss
from rightsizer.simulator.library.calls import NvmlCode
from rightsizer.simulator.node import SimulatedNode, host_signals
from rightsizer.simulator.readings import ModelReader
from rightsizer.simulator.scenario import SimulatedScenario

_AWAY: Final = Down(Missing.LOST, "the driver is not loaded")
_SILENCED_BY: Final[Mapping[type[FaultEffect], Down]] = {
    GpuLoss: Down(Missing.LOST, "the GPU has fallen off the bus"),
    GpuAbsence: Down(Missing.LOST, "the driver no longer lists the GPU"),
    CallHang: Down(Missing.TIMED_OUT, "the driver does not answer"),
}
DEFAULT_START: Final[Nanoseconds] = 1_767_571_200 * NANOSECONDS_PER_SECOND
"""Monday, 2026-01-05, 00:00 UTC: fixed, so that runs are reproducible."""


def down_reason(node: SimulatedNode, unit: SimulatedDevice, time: Nanoseconds) -> Down | None:
    """Return why a GPU or instance is silent, or `None` if it can be read.

    A function that hangs blocks all others of its GPU; one that fails costs only its own signals.
    """
    if node.unload(time) is not None:
        return _AWAY
    timeline = node.timeline(unit)
    for kind, down in _SILENCED_BY.items():
        if timeline.has(kind, time):
            return down
    codes = (effect.code for effect in timeline.effects(CallFailure, time) if not effect.function)
    refused = next(codes, None)
    if refused is None:
        return None
    code = NvmlCode(refused)
    reason = Missing.LOST if code is NvmlCode.GPU_IS_LOST else Missing.FAILED
    return Down(reason, f"the driver answers {code.name.lower()}")


class SimulatedSource:
    """Source whose simulated clock advances with each read."""

    def __init__(
        self,
        scenario: SimulatedScenario,
        catalogue: Catalogue,
        *,
        start: Nanoseconds | None = None,
        interval: Nanoseconds,
        duration: Nanoseconds | None,
    ) -> None:
        """Create a source of snapshots from `start` on, wall time, for a `duration`.

        The default start is a fixed Monday at midnight, UTC; without a duration it never ends.
        """
        self._next = DEFAULT_START if start is None else start
        self._heard_until = self._next - 1
        self._interval = interval
        self._end = None if duration is None else self._next + duration
        self.node = SimulatedNode(scenario, catalogue, self._next, counter_step=max(STEP, interval))
        """Also to compare readings with its true states."""
        self._usual = self.node.devices
        self._readers = {
            unit.device.uuid: ModelReader(self.node, unit)
            for gpu in self.node.units
            for unit in (gpu, *gpu.instances)
        }
        self._seen: set[str] = set()
        """GPUs that were present before."""
        self._xids: dict[str, XidLog] = {}

    def read(self) -> Snapshot | None:
        """Return the next snapshot, or `None` after the duration."""
        time = self._next
        if self._end is not None and time >= self._end:
            return None
        self._next = time + self._interval
        devices = self._devices(time)
        down = self._silent(devices, time)
        there = (device.uuid for device in devices if device.uuid not in down)
        readings = {uuid: self._readers[uuid].read(time) for uuid in there}
        owners = self.node.workloads
        present = (device for device in devices if device.uuid in readings)
        holdings = {
            device.uuid: holdings_on(
                device, workloads_on(readings[device.uuid].processes or (), owners)
            )
            for device in present
        }
        away = self.node.unload(time)
        return Snapshot(
            wall_time=time,
            time=time,
            interval=self._interval,
            devices=devices,
            readings=readings,
            down=down,
            host=host_signals(self.node.workloads.host(time)),
            holdings={uuid: held for uuid, held in holdings.items() if held},
            collectors={"simulated": CollectorOutcome(success=True, duration_seconds=0.0)},
            xids=self._listen(time),
            driver={"driver_version": self.node.scenario.driver_version},
            trouble=None if away is None else "the driver is not loaded",
        )

    def close(self) -> None:
        """Do nothing: no resources are held."""

    def _devices(self, time: Nanoseconds) -> tuple[Device, ...]:
        if not self.node.has_faults:
            return self._usual
        present = {gpu.device.uuid: gpu for gpu in self.node.present(time)}
        self._seen |= present.keys()
        # A GPU once seen stays listed, as lost, like in the live source.
        listed = [
            present.get(gpu.device.uuid, replace(gpu, instances=()))
            for gpu in self.node.units
            if gpu.device.uuid in self._seen
        ]
        return tuple(unit.device for gpu in listed for unit in (gpu, *gpu.instances))

    def _silent(self, devices: tuple[Device, ...], time: Nanoseconds) -> Mapping[str, Down]:
        if not self.node.has_faults:
            return {}
        node = self.node
        uuids = (device.uuid for device in devices)
        reasons = {uuid: down_reason(node, node.unit(uuid), time) for uuid in uuids}
        return {uuid: down for uuid, down in reasons.items() if down is not None}

    def _listen(self, time: Nanoseconds) -> Mapping[str, XidLog]:
        if not self.node.has_faults:
            return {}
        after = self._heard_until
        self._heard_until = time
        if self.node.unload(time) is None:
            for gpu in self.node.units:
                for at, code in self.node.timeline(gpu).xids(after, time):
                    log = self._xids.get(gpu.device.uuid, XidLog({}))
                    self._xids[gpu.device.uuid] = log.counted(code, at)
        return dict(self._xids)
