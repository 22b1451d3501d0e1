"""Tracker of each lease's processes, with bounded work per pass; orphans of ended leases."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from rightsizer.broker.launch import LEASE
from rightsizer.broker.lease import LeaseOwner, LeaseProcesses, LeaseRecord
from rightsizer.host.process_table import ProcessRow, ProcessTable, Unseen

_LOOKS_UNTIL_RESCAN: Final = 60
"""Passes until all pids are rescanned, which finds reused pids of unrelated processes."""
_PIDS_NAMED: Final = 8


class ObservedProcesses(Struct, frozen=True):
    """Processes of one lease in one pass."""

    pids: frozenset[int]
    is_alive: bool | None
    """Whether any runs; true while some were not examined; `None` after a failed read."""
    processes: LeaseProcesses = LeaseProcesses()
    """To be stored for a restarted agent."""


class ProcessTree:
    """Processes of one lease, by pid and start; reused pids are excluded."""

    def __init__(self, client: LeaseOwner, stored: LeaseProcesses) -> None:
        """Start with the client, and members stored by an earlier agent.

        These are of the same boot; the next pass verifies that they still exist.
        """
        self.uid = client.uid
        self._members: dict[int, int] = {client.pid: client.started_ticks, **dict(stored.processes)}
        self._sessions: set[int] = set()
        self._unproven: set[int] = set(stored.sessions)
        """Stored sessions without an observed member, whose numbers may have been reused."""
        self._before = self._members, self._sessions, self._unproven

    @property
    def pids(self) -> frozenset[int]:
        """Pids of all members not seen to exit."""
        return frozenset(self._members)

    def processes(self, maximum: int) -> LeaseProcesses:
        """Oldest members, limited in number; the others mostly descend from them."""
        oldest = sorted(self._members.items(), key=lambda member: (member[1], member[0]))[:maximum]
        sessions = sorted(self._sessions | self._unproven)[:maximum]
        return LeaseProcesses(tuple(oldest), tuple(sessions))

    def update(self, table: ProcessTable, maximum: int) -> bool | None:
        """Remove exited members; return whether any is alive, `None` if unknown.

        Examines at most `maximum` members, and the others in the next passes.
        """
        self._before = dict(self._members), set(self._sessions), self._unproven
        is_alive = len(self._members) > maximum
        is_unknown = False
        sessions: set[int] = set()
        for pid in list(self._members)[:maximum]:
            started = self._members.pop(pid)
            row = table.find(pid)
            if row is Unseen.GONE or (isinstance(row, ProcessRow) and row.started_ticks != started):
                continue
            # Append, so that members not examined come first next time.
            self._members[pid] = started
            if isinstance(row, Unseen):
                is_unknown = True
            elif row.is_alive:
                is_alive = True
                sessions |= {row.session} & (self._sessions | self._unproven | {pid})
        if not is_unknown and (not is_alive or len(self._members) <= maximum):
            # A session number may be reused once its last process has exited.
            self._sessions = sessions
            self._unproven = set()
        else:
            self._sessions |= sessions
        return True if is_alive else (None if is_unknown else False)

    def restore(self) -> None:
        """Restore the members before the last pass."""
        self._members, self._sessions, self._unproven = self._before

    def extend_members(
        self, rows: Iterable[ProcessRow], children: Mapping[int, list[ProcessRow]]
    ) -> None:
        """Add new processes that are members; `children` maps pids to their new children."""
        candidates = deque(row for row in rows if row.session in self._sessions)
        candidates.extend(child for pid in self._members for child in children.get(pid, ()))
        while candidates:
            row = candidates.popleft()
            if self._members.get(row.pid) != row.started_ticks:
                self.add(row)
                candidates.extend(children.get(row.pid, ()))

    def add(self, row: ProcessRow) -> None:
        """Add a member."""
        self._members[row.pid] = row.started_ticks
        if row.session == row.pid:
            self._sessions.add(row.session)


class ProcessTracker:
    """Examines new processes once, and members in each pass."""

    def __init__(self, table: ProcessTable, maximum: int) -> None:
        self._table = table
        self.maximum = maximum
        """Maximum of members per lease, and of new processes, examined in one pass."""
        self._trees: dict[str, ProcessTree] = {}
        self._unrelated: set[int] = set()
        self._looks = 0

    def is_alive(self, client: LeaseOwner) -> bool | None:
        """Whether a client runs; `None` is unknown."""
        row = self._table.find(client.pid)
        if isinstance(row, ProcessRow):
            return row.is_alive and row.started_ticks == client.started_ticks
        return False if row is Unseen.GONE and self._table.pids() else None

    def observe(
        self,
        clients: Mapping[str, LeaseOwner],
        stored: Mapping[str, LeaseProcesses] = MappingProxyType({}),
    ) -> Mapping[str, ObservedProcesses]:
        """Update and return the processes of each lease.

        Leases of the last pass keep their trees; `stored` holds the members of leases that are
        new.
        """
        self._trees = {
            name: self._trees.get(name) or ProcessTree(client, stored.get(name, LeaseProcesses()))
            for name, client in clients.items()
        }
        if not clients:
            self._unrelated.clear()
            return {}
        alive = {name: tree.update(self._table, self.maximum) for name, tree in self._trees.items()}
        if present := self._table.pids():
            before = {name: tree.pids for name, tree in self._trees.items()}
            is_more = self._add_new(present)
            for name, tree in self._trees.items():
                # New members are running even if all known ones have exited.
                is_seen = bool(alive[name] or tree.pids - before[name])
                alive[name] = is_seen or (is_more if alive[name] is False else None)
        else:
            for name, tree in self._trees.items():
                tree.restore()
                alive[name] = None
        return {
            name: ObservedProcesses(tree.pids, alive[name], tree.processes(self.maximum))
            for name, tree in self._trees.items()
        }

    def _add_new(self, present: Collection[int]) -> bool | None:
        """Add new members; return whether more are left, `None` after a failed read."""
        self._looks += 1
        if self._looks % _LOOKS_UNTIL_RESCAN == 0:
            self._unrelated.clear()
        known_pids = self._unrelated.union(*(tree.pids for tree in self._trees.values()))
        # Ascending, so that parents are known before the processes left for the next pass.
        new = sorted(pid for pid in present if pid not in known_pids)
        examined = new[: self.maximum]
        rows_by_pid = {pid: self._table.find(pid) for pid in examined}
        rows = [row for row in rows_by_pid.values() if isinstance(row, ProcessRow)]
        unknown = {pid for pid, row in rows_by_pid.items() if row is Unseen.UNKNOWN}
        children: dict[int, list[ProcessRow]] = {}
        for row in rows:
            children.setdefault(row.parent, []).append(row)
        self._add_tagged(rows)
        for tree in self._trees.values():
            tree.extend_members(rows, children)
        members = frozenset[int]().union(*(tree.pids for tree in self._trees.values()))
        self._unrelated = (self._unrelated | set(examined) - unknown) & set(present) - members
        return len(examined) < len(new) or (None if unknown else False)

    def _add_tagged(self, rows: Iterable[ProcessRow]) -> None:
        """Add processes tagged with a lease of their own user."""
        users = {tree.uid for tree in self._trees.values()}
        for row in rows:
            if self._table.user(row.pid) not in users:
                continue
            name = self._table.environment(row.pid, (LEASE,)).get(LEASE, "")
            tree = self._trees.get(name)
            # A user controls the environment only of its own processes.
            if tree is not None and tree.uid == self._table.user(row.pid) and row.is_alive:
                tree.add(row)


def orphans(record: LeaseRecord, table: ProcessTable) -> str:
    """Name the remaining processes of an ended lease, as a clause; empty if none is left."""
    client = record.lease.client
    members = {(client.pid, client.started_ticks), *record.processes.processes}
    rows = {pid: table.row(pid) for pid, _ in members}
    pids = sorted(
        pid
        for pid, started in members
        if (row := rows[pid]) is not None and row.is_alive and row.started_ticks == started
    )
    if not pids:
        return ""
    named = ", ".join(map(str, pids[:_PIDS_NAMED]))
    more = f" and {len(pids) - _PIDS_NAMED} more" if len(pids) > _PIDS_NAMED else ""
    what = "process" if len(pids) == 1 else "processes"
    return f"what runs goes on, and no GPU is kept for it any more: {what} {named}{more}"
