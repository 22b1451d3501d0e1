"""What a report and the processes tell of each lease."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from rightsizer.domain.report import DeviceReport, Report
from rightsizer.domain.state import IDLE_STATES, State
from rightsizer.placement.lease_record import LeaseRecord, Sighting
from rightsizer.placement.seat import Holder, Seat
from rightsizer.runtime.broker.family import Seen

__all__ = ["sightings_of", "with_trespassers"]


def sightings_of(
    leases: Iterable[LeaseRecord], seen: Mapping[str, Seen], report: Report | None
) -> dict[str, Sighting]:
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
    seats: Iterable[Seat],
    leases: Iterable[LeaseRecord],
    seen: Mapping[str, Seen],
    report: Report,
) -> tuple[Seat, ...]:
    """Seats on which processes of a lease run that has others are held by these.

    Args:
        seats: Without the processes of any lease.
        leases: That there are.
        seen: Their processes.
        report: That the seats are of.
    """
    pids = {each.device.uuid: _pids(each) for each in report.devices}
    records = tuple(leases)

    def strangers(seat: Seat) -> tuple[Holder, ...]:
        return tuple(
            Holder(f"lease {record.id}, which has other GPUs,", True, tuple(sorted(found)))
            for record in records
            if seat.uuid not in record.lease.uuids and record.id in seen
            if (found := pids.get(seat.uuid, frozenset()) & seen[record.id].pids)
        )

    return tuple(
        replace(seat, holders=(*seat.holders, *found)) if (found := strangers(seat)) else seat
        for seat in seats
    )


def _sighting(record: LeaseRecord, seen: Seen, devices: Mapping[str, DeviceReport]) -> Sighting:
    there = [devices[uuid] for uuid in record.lease.uuids if uuid in devices]
    works = [_works(each, seen.pids, is_shared=record.lease.is_shared) for each in there]
    is_known = len(works) == len(record.lease.uuids) and None not in works
    is_active = True if True in works else (False if is_known else None)
    memory = {each.device.uuid: _memory_bytes(each, seen.pids) for each in there}
    return Sighting(
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
