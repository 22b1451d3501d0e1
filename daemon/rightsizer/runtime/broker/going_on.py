"""What runs on although its lease is over."""

from typing import Final

from rightsizer.placement.lease_record import LeaseRecord
from rightsizer.runtime.broker.process_table import ProcessTable

__all__ = ["going_on"]

_PIDS_NAMED: Final = 8


def going_on(record: LeaseRecord, table: ProcessTable) -> str:
    """A clause that names the processes; empty where none is left.

    Args:
        record: The lease as it last stood.
        table: Tells which of its processes are still there.
    """
    client = record.lease.client
    known = {(client.pid, client.started_ticks), *record.kin.processes}
    rows = {pid: table.row(pid) for pid, _ in known}
    pids = sorted(
        pid
        for pid, started in known
        if (row := rows[pid]) is not None and row.is_alive and row.started_ticks == started
    )
    if not pids:
        return ""
    named = ", ".join(map(str, pids[:_PIDS_NAMED]))
    more = f" and {len(pids) - _PIDS_NAMED} more" if len(pids) > _PIDS_NAMED else ""
    what = "process" if len(pids) == 1 else "processes"
    return f"what runs goes on, and no GPU is kept for it any more: {what} {named}{more}"
