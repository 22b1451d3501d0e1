"""Environment tag of a lease's processes, by which they are recognized."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from rightsizer.broker.lease import GpuRequest, Lease, LeaseOwner
from rightsizer.host.process_table import ProcessTable
from rightsizer.model.units import Nanoseconds

LEASE: Final = "RIGHTSIZER_LEASE"
_SEATS: Final = "RIGHTSIZER_LEASE_GPUS"
_SHARED: Final = "RIGHTSIZER_LEASE_SHARED"
_ENDS: Final = "RIGHTSIZER_LEASE_ENDS"
_SOCKET: Final = "RIGHTSIZER_LEASE_SOCKET"
MARKS: Final = (LEASE, _SEATS, _SHARED, _ENDS, _SOCKET)


def environment_tags(  # noqa: PLR0913 - all that makes up a lease.
    lease_id: str,
    uuids: Sequence[str],
    memory_bytes: Sequence[float],
    *,
    is_shared: bool,
    ends: Nanoseconds | None,
    socket: str,
) -> dict[str, str]:
    """The variables of a lease.

    `memory_bytes` are set aside on each slot; `ends` is CLOCK_BOOTTIME, `None` without a limit; the
    agent's socket tells several on a machine apart.
    """
    slots = zip(uuids, memory_bytes, strict=True)
    return {
        LEASE: lease_id,
        _SEATS: ",".join(f"{uuid}={int(aside)}" for uuid, aside in slots),
        _SHARED: str(int(is_shared)),
        _ENDS: "" if ends is None else str(ends),
        _SOCKET: socket,
    }


def found_leases(
    table: ProcessTable, name_of: Callable[[int], str], socket: str
) -> Iterator[Lease]:
    """The leases of an agent by the environments of running processes, as far as readable.

    The client is the process that carries it; when it was granted is not known.
    """
    for pid in table.pids():
        marks = table.environment(pid, MARKS)
        if not marks.get(LEASE) or marks.get(_SOCKET) != socket:
            continue
        row, uid = table.row(pid), table.user(pid)
        if row is None or uid is None or not row.is_alive:
            continue
        found = _found(marks, LeaseOwner(uid, name_of(uid), pid, row.started_ticks))
        if found is not None:
            yield found


def _found(marks: Mapping[str, str], client: LeaseOwner) -> Lease | None:
    """The lease of a process; `None` where its variables are invalid."""
    pairs = [each.partition("=") for each in marks.get(_SEATS, "").split(",")]
    try:
        asides = tuple(float(aside) for _, _, aside in pairs)
        ends = int(marks[_ENDS]) if marks.get(_ENDS) else None
    except ValueError:
        return None
    if not all(math.isfinite(aside) and aside >= 0 for aside in asides):
        return None
    is_shared = marks.get(_SHARED) == "1"
    return Lease(
        id=marks[LEASE],
        client=client,
        request=GpuRequest(len(pairs), max(asides), is_shared),
        uuids=tuple(uuid for uuid, _, _ in pairs),
        memory_bytes=asides,
        is_shared=is_shared,
        asked=0,
        granted=0,
        ends=ends,
    )
