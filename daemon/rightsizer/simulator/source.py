"""Source of snapshots directly from the model, for spans too long for a driver."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    CollectorOutcome,
    Device,
    Down,
    Missing,
    Nanoseconds,
    Nvlink,
    Process,
    Reading,
    Signal,
    Snapshot,
    XidLog,
)
from rightsizer.owners.holdings import holdings_on, workloads_on
from rightsizer.simulator.counters import STEP
from rightsizer.simulator.device import SimulatedDevice
from rightsizer.simulator.faults import (
    CallFailure,
    CallHang,
    DeadCounters,
    FaultEffect,
    GpuAbsence,
    GpuLoss,
)
from rightsizer.simulator.library.calls import NvmlCode
from rightsizer.simulator.node import SimulatedNode, host_signals
from rightsizer.simulator.physics import BoardState
from rightsizer.simulator.scenario import SimulatedScenario
from rightsizer.simulator.signals import SIGNALS, SimulatedSignal
from rightsizer.simulator.support import BoardFeature
from rightsizer.simulator.view import DeviceView

_SLOW: Final[Nanoseconds] = 10 * NANOSECONDS_PER_SECOND
_ALL: Final = frozenset(row.signal for row in SIGNALS)


class _Offer(Struct, frozen=True):
    """What a device answers while it has MIG instances or not, and counters that work or not."""

    rows: tuple[SimulatedSignal, ...]
    steady: Mapping[Signal, float]
    """Values that never change."""
    missing: Mapping[Signal, Missing]


class ModelReader(DeviceView):
    """Reader of one device of a node."""

    def __init__(self, node: SimulatedNode, unit: SimulatedDevice) -> None:
        super().__init__(node, unit, lambda: self._time)
        self._time: Nanoseconds = 0
        self._state = node.state(self.uuid, 0)
        self._processes: tuple[Process, ...] = ()
        self._links: tuple[int, tuple[Nvlink, ...]] = (-1, ())
        self._varies = node.has_faults
        self._offers = {
            (is_cut, is_dead): self._offer(is_cut=is_cut, is_dead=is_dead)
            for is_cut in (False, True)
            for is_dead in (False, True)
        }

    def read(self, time: Nanoseconds) -> Reading:
        """Read the device at a time."""
        self._time = time
        self._state = self.node.state(self.uuid, time)
        is_cut = not self.unit.is_instance and bool(self.timeline.spots(time))
        is_dead = self._varies and self.timeline.has(DeadCounters, time)
        offer = self._offers[is_cut, is_dead]
        self._processes = () if is_cut else self._present(time)
        values = {row.signal: row.read(self) / row.per for row in offer.rows}
        values |= offer.steady
        if self._processes:
            pids = (process.pid for process in self._processes)
            host = self.node.workloads.owner_host(pids, time)
            values |= host_signals(host) if host is not None else {}
        links = self.links if Signal.NVLINK_LINKS in values else ()
        processes = None if is_cut else self._processes
        return Reading(self.uuid, time, values, offer.missing, processes, links)

    @property
    def state(self) -> BoardState:
        """Readable state."""
        return self._state

    @property
    def processes(self) -> tuple[Process, ...]:
        """Processes on the device, with the shares of active ones."""
        return self._processes

    @property
    def links(self) -> tuple[Nvlink, ...]:
        """NVLinks that lead anywhere, without faults only at the live source's slow interval."""
        step = self._time if self._varies else self._time // _SLOW
        if self._links[0] != step:
            self._links = step, super().links
        return self._links[1]

    def _offer(self, *, is_cut: bool, is_dead: bool) -> _Offer:
        """Return what the device answers: of a signal, the first row that it has."""
        scope = "instance" if self.unit.is_instance else "cut" if is_cut else "whole"
        features = set(self.support.features_with_mig if is_cut else self.support.features)
        if not self.support.nvlink_up:
            features.discard(BoardFeature.NVLINK)
        rows = [row for row in SIGNALS if row.feature in features and scope in row.scopes]
        if is_dead:
            rows.sort(key=lambda row: row.feature is BoardFeature.GPM)
            rows = [_dead(row) for row in rows]
        by_signal = {row.signal: row for row in reversed(rows)}
        lasting = [row for row in by_signal.values() if row.is_steady and not self._varies]
        return _Offer(
            tuple(row for row in by_signal.values() if row not in lasting),
            {row.signal: row.read(self) / row.per for row in lasting},
            dict.fromkeys(_ALL - by_signal.keys(), Missing.NOT_SUPPORTED),
        )

    def _present(self, time: Nanoseconds) -> tuple[Process, ...]:
        if self.unit.is_instance:
            return self.node.processes(self.uuid, time)
        processes: list[Process] = []
        for member in self.node.members(self.uuid, time):
            load = member.load
            works = load.gpu_busy > 0.0 or load.engines > 0.0
            share = round(load.sm_active / len(member.pids), 2) if works else None
            processes.extend(replace(process, gpu_busy=share) for process in member.processes)
        return tuple(processes)


def _dead(row: SimulatedSignal) -> SimulatedSignal:
    """Return the row while profiling counters read 0."""
    return replace(row, read=lambda _: 0.0) if row.feature is BoardFeature.GPM else row


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
