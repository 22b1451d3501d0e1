"""Observer of the node for the broker, by the latest report and the processes of each lease."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.broker.lease import LeaseObservation, LeaseRecord
from rightsizer.broker.placement import view_of
from rightsizer.broker.process_tracker import ObservedProcesses, ProcessTracker
from rightsizer.broker.scheduling_state import NodeObservation
from rightsizer.broker.settings import PlacementSettings
from rightsizer.broker.slot import SlotHolder
from rightsizer.broker.slot_builder import slots_of
from rightsizer.broker.state import BrokerState
from rightsizer.io.clock import Clock
from rightsizer.model.values import IDLE_STATES, DeviceReport, Missing, Report, State, Topology
from rightsizer.report.freshness import FreshnessSettings

_NOT_READ: Final = "no GPU has been read yet"
_NOT_LISTED: Final = "the driver no longer offers it"


class BrokerObservation(Struct, frozen=True):
    """Node and processes at one moment."""

    node: NodeObservation | None
    """`None` if unknown; nothing is granted then."""
    observations: dict[str, LeaseObservation] = {}
    trouble: str | None = None


def _observation(
    record: LeaseRecord, seen: ObservedProcesses, devices: Mapping[str, DeviceReport]
) -> LeaseObservation:
    device_reports = [devices[uuid] for uuid in record.lease.uuids if uuid in devices]
    active = [
        _is_active(device_report, seen.pids, is_shared=record.lease.is_shared)
        for device_report in device_reports
    ]
    is_known = len(active) == len(record.lease.uuids) and None not in active
    is_active = True if True in active else (False if is_known else None)
    memory = {
        device_report.device.uuid: _memory_bytes(device_report, seen.pids)
        for device_report in device_reports
    }
    return LeaseObservation(
        is_alive=seen.is_alive,
        is_active=is_active,
        memory_bytes={uuid: held for uuid, held in memory.items() if held is not None},
        processes=seen.processes,
        lost=_lost(record, devices) if devices else None,
    )


def _lost(record: LeaseRecord, devices: Mapping[str, DeviceReport]) -> dict[str, str]:
    """Reasons of a lease's lost slots by uuid; slow devices are not lost."""
    reasons: dict[str, str] = {}
    for uuid in record.lease.uuids:
        if (slot_report := devices.get(uuid)) is None:
            reasons[uuid] = _NOT_LISTED
            continue
        for device_report in (slot_report, devices.get(slot_report.device.board_uuid, slot_report)):
            if device_report.down is not None and device_report.down.reason is Missing.LOST:
                reasons[uuid] = device_report.down.detail
    return reasons


def _is_active(device: DeviceReport, pids: frozenset[int], *, is_shared: bool) -> bool | None:
    if device.down is not None or device.state is State.UNKNOWN:
        return None
    if device.state in IDLE_STATES:
        return False
    if not is_shared:
        return True
    processes = () if device.reading is None else device.reading.processes or ()
    if (
        gpu_busies := [process.gpu_busy for process in processes if process.pid in pids]
    ) and None not in gpu_busies:
        return any(gpu_busies)
    return bool(gpu_busies)


def _memory_bytes(device: DeviceReport, pids: frozenset[int]) -> float | None:
    if device.reading is None or device.reading.processes is None:
        return None
    used_bytes = [
        process.memory_used_bytes for process in device.reading.processes if process.pid in pids
    ]
    known_bytes = [held for held in used_bytes if held is not None]
    return float(sum(known_bytes)) if len(known_bytes) == len(used_bytes) else None


class ProcfsNodeObserver:
    """Observes slots in reports, and leases in procfs."""

    def __init__(
        self,
        latest: Callable[[], Report | None],
        tracker: ProcessTracker,
        settings: Callable[[], PlacementSettings],
        freshness: FreshnessSettings,
        clock: Clock,
    ) -> None:
        self._latest = latest
        self._tracker = tracker
        self._settings = settings
        self._freshness = freshness
        self._clock = clock
        self._seen: Mapping[str, ObservedProcesses] = {}
        """Last observation by lease; replaced as a whole."""

    def leased_pids(self, state: BrokerState) -> frozenset[int]:
        """Processes of all leases, as last observed."""
        return _observed_pids(self._seen_of(state))

    def observe(self, state: BrokerState) -> BrokerObservation:
        """Observe processes, then the last report's data on them; one thread at a time."""
        # Report first, so that all of its processes exist when procfs is read.
        report = self._latest()
        self._seen = seen = self._tracker.observe(
            {lease.id: lease.lease.client for lease in state.leases},
            {lease.id: lease.processes for lease in state.leases},
        )
        devices = (
            {} if report is None else {device.device.uuid: device for device in report.devices}
        )
        observations = {
            ticket.id: LeaseObservation(is_alive=self._tracker.is_alive(ticket.client))
            for ticket in state.tickets
        } | {
            record.id: _observation(record, seen[record.id], devices)
            for record in state.leases
            if record.id in seen
        }
        if report is None or not report.devices:
            trouble = None if report is None else report.agent.trouble
            return BrokerObservation(None, observations, trouble or _NOT_READ)
        return BrokerObservation(self._observed(report, state), observations)

    def node(self, state: BrokerState) -> NodeObservation | None:
        """Node by the last report; `None` before the first; callable from any thread."""
        report = self._latest()
        return None if report is None or not report.devices else self._observed(report, state)

    def _observed(self, report: Report, state: BrokerState) -> NodeObservation:
        seen = self._seen_of(state)
        settings = self._settings()
        now = self._clock.wall_time()
        view = view_of(settings, now, self._freshness, _observed_pids(seen))
        pids = {
            device.device.uuid: {process.pid for process in device.reading.processes or ()}
            for device in report.devices
            if device.reading is not None
        }
        slots = []
        for slot in slots_of(report, view):
            # Processes of a lease on slots that it does not hold.
            outsiders = [
                SlotHolder(f"lease {record.id}, which has other GPUs,", True)
                for record in state.leases
                if slot.uuid not in record.lease.uuids and record.id in seen
                if not seen[record.id].pids.isdisjoint(pids.get(slot.uuid, ()))
            ]
            slots.append(replace(slot, holders=(*slot.holders, *outsiders)) if outsiders else slot)
        return NodeObservation(tuple(slots), report.node.topology or Topology())

    def _seen_of(self, state: BrokerState) -> Mapping[str, ObservedProcesses]:
        seen = self._seen
        return {lease.id: seen[lease.id] for lease in state.leases if lease.id in seen}


def _observed_pids(seen: Mapping[str, ObservedProcesses]) -> frozenset[int]:
    return frozenset[int]().union(*(processes.pids for processes in seen.values()))
