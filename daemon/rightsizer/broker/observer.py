"""Observer of the node for the broker: the latest report, and what processes show of each lease."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from rightsizer.broker.lease import LeaseObservation, LeaseRecord
from rightsizer.broker.lease_manager import BrokerObservation
from rightsizer.broker.placement import view_of
from rightsizer.broker.process_tracker import ObservedProcesses, ProcessTracker
from rightsizer.broker.scheduling_state import NodeObservation
from rightsizer.broker.settings import PlacementSettings
from rightsizer.broker.slot import LeaseSlot, SlotHolder
from rightsizer.broker.slot_builder import slots_of
from rightsizer.broker.state import BrokerState
from rightsizer.io.clock import Clock
from rightsizer.model.report import DeviceReport, Report
from rightsizer.model.state import IDLE_STATES, State
from rightsizer.model.topology import Topology
from rightsizer.report.freshness import FreshnessSettings


def observations_of(
    leases: Iterable[LeaseRecord], seen: Mapping[str, ObservedProcesses], report: Report | None
) -> dict[str, LeaseObservation]:
    """One for each lease whose processes were looked at.

    Args:
        leases: That there are.
        seen: Their processes.
        report: The node; `None` where it is unknown: then nobody works and nobody is idle.
    """
    devices = {} if report is None else {each.device.uuid: each for each in report.devices}
    return {
        record.id: _sighting(record, seen[record.id], devices)
        for record in leases
        if record.id in seen
    }


def with_trespassers(
    seats: Iterable[LeaseSlot],
    leases: Iterable[LeaseRecord],
    seen: Mapping[str, ObservedProcesses],
    report: Report,
) -> tuple[LeaseSlot, ...]:
    """Seats on which processes of a lease run that has others are held by these.

    Args:
        seats: Without the processes of any lease.
        leases: That there are.
        seen: Their processes.
        report: That the seats are of.
    """
    pids = {each.device.uuid: _pids(each) for each in report.devices}
    records = tuple(leases)

    def strangers(seat: LeaseSlot) -> tuple[SlotHolder, ...]:
        return tuple(
            SlotHolder(f"lease {record.id}, which has other GPUs,", True, tuple(sorted(found)))
            for record in records
            if seat.uuid not in record.lease.uuids and record.id in seen
            if (found := pids.get(seat.uuid, frozenset()) & seen[record.id].pids)
        )

    return tuple(
        replace(seat, holders=(*seat.holders, *found)) if (found := strangers(seat)) else seat
        for seat in seats
    )


def _sighting(
    record: LeaseRecord, seen: ObservedProcesses, devices: Mapping[str, DeviceReport]
) -> LeaseObservation:
    there = [devices[uuid] for uuid in record.lease.uuids if uuid in devices]
    works = [_works(each, seen.pids, is_shared=record.lease.is_shared) for each in there]
    is_known = len(works) == len(record.lease.uuids) and None not in works
    is_active = True if True in works else (False if is_known else None)
    memory = {each.device.uuid: _memory_bytes(each, seen.pids) for each in there}
    return LeaseObservation(
        is_alive=seen.is_alive,
        is_active=is_active,
        memory_bytes={uuid: held for uuid, held in memory.items() if held is not None},
        kin=seen.kin,
    )


def _works(device: DeviceReport, pids: frozenset[int], *, is_shared: bool) -> bool | None:
    """Whether a lease works on a device; of a shared one, as far as processes can be told apart."""
    if device.down is not None or device.state is State.UNKNOWN:
        return None
    if device.state in IDLE_STATES:
        return False
    if not is_shared:
        return True
    processes = () if device.reading is None else device.reading.processes or ()
    own = [each.gpu_busy for each in processes if each.pid in pids]
    if own and None not in own:
        return any(own)
    return bool(own)


def _memory_bytes(device: DeviceReport, pids: frozenset[int]) -> float | None:
    """What the processes of a lease hold on a device; `None` where it is not measured."""
    if device.reading is None or device.reading.processes is None:
        return None
    own = [each.memory_used_bytes for each in device.reading.processes if each.pid in pids]
    known = [held for held in own if held is not None]
    return float(sum(known)) if len(known) == len(own) else None


def _pids(device: DeviceReport) -> frozenset[int]:
    processes = () if device.reading is None else device.reading.processes or ()
    return frozenset(each.pid for each in processes)


_NOBODY: Final[Mapping[str, ObservedProcesses]] = MappingProxyType({})
_NOT_READ: Final = "no GPU has been read yet"


class ProcfsNodeObserver:
    """Sees seats in reports, and leases in procfs."""

    def __init__(
        self,
        latest: Callable[[], Report | None],
        watcher: ProcessTracker,
        settings: Callable[[], PlacementSettings],
        freshness: FreshnessSettings,
        clock: Clock,
    ) -> None:
        """Eyes that have not looked.

        Args:
            latest: Gives the last report, `None` before the first.
            watcher: Knows which process is whose.
            settings: In force; a reload may change them.
            freshness: When a reading is stale.
            clock: The wall's.
        """
        self._latest, self._watcher = latest, watcher
        self._settings, self._freshness, self._clock = settings, freshness, clock
        self._seen = _NOBODY

    def leased_pids(self, state: BrokerState) -> frozenset[int]:
        """All processes of the leases that last, as they were last seen."""
        return _observed_pids(_lasting(self._seen, state))

    def look(self, state: BrokerState) -> BrokerObservation:
        """Look at the processes, then at what the last report says of them."""
        # Whatever began before the report was made is known by then.
        report = self._latest()
        seen = self._watcher.look(
            {each.id: each.lease.client for each in state.leases},
            {each.id: each.kin for each in state.leases},
        )
        self._seen = seen
        sightings: dict[str, LeaseObservation] = {
            ticket.id: LeaseObservation(is_alive=self._watcher.is_alive(ticket.client))
            for ticket in state.tickets
        }
        sightings |= observations_of(state.leases, seen, report)
        if report is None or not report.devices:
            trouble = None if report is None else report.agent.trouble
            return BrokerObservation(None, sightings, trouble or _NOT_READ)
        return BrokerObservation(self._seats(report, state), sightings)

    def glance(self, state: BrokerState) -> NodeObservation | None:
        """The node by the last report; processes of leases that are over are anybody's."""
        report = self._latest()
        return None if report is None or not report.devices else self._seats(report, state)

    def _seats(self, report: Report, state: BrokerState) -> NodeObservation:
        seen, now = _lasting(self._seen, state), self._clock.wall_time()
        seats = slots_of(
            report, view_of(self._settings(), now, self._freshness, _observed_pids(seen))
        )
        seats = with_trespassers(seats, state.leases, seen, report)
        return NodeObservation(seats, report.node.topology or Topology())


def _lasting(
    seen: Mapping[str, ObservedProcesses], state: BrokerState
) -> Mapping[str, ObservedProcesses]:
    return {each.id: seen[each.id] for each in state.leases if each.id in seen}


def _observed_pids(seen: Mapping[str, ObservedProcesses]) -> frozenset[int]:
    return frozenset[int]().union(*(each.pids for each in seen.values()))
