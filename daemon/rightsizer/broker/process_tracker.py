"""Tracker of the processes of each lease, with bounded work per look; orphans of ended leases."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from rightsizer.broker.launch import LEASE
from rightsizer.broker.lease import LeaseOwner, LeaseProcesses, LeaseRecord
from rightsizer.host.process_table import ProcessRow, ProcessTable, Unseen
from rightsizer.model.frozen import dataclass, field

_LOOKS_UNTIL_RESCAN: Final = 60
"""A pid of an unrelated process that is reused between two looks is noticed after so many."""
_PIDS_NAMED: Final = 8


@dataclass(frozen=True, slots=True)
class ObservedProcesses:
    """Processes of one lease at one look."""

    pids: frozenset[int]
    is_alive: bool | None
    """Whether any of them runs; true while some were not looked at; `None` after a failed read."""
    processes: LeaseProcesses = field(default_factory=LeaseProcesses)
    """To store for a later agent."""


class ProcessTree:
    """Processes of one lease, by pid and start; a reused pid is no member."""

    def __init__(self, client: LeaseOwner, known: LeaseProcesses) -> None:
        """A tree of the client that asked, and of members that a former agent stored.

        These were seen on the same boot; the next look verifies that they still exist.
        """
        self.uid = client.uid
        self._members: dict[int, int] = {client.pid: client.started_ticks, **dict(known.processes)}
        self._sessions: set[int] = set()
        self._unproven: set[int] = set(known.sessions)
        """Sessions without a member seen in them yet: their numbers may have been reused."""
        self._before = self._members, self._sessions, self._unproven

    @property
    def pids(self) -> frozenset[int]:
        """Of all members that were not seen to exit."""
        return frozenset(self._members)

    def processes(self, maximum: int) -> LeaseProcesses:
        """At most so many members, the oldest: the others mostly descend from them."""
        oldest = sorted(self._members.items(), key=lambda each: (each[1], each[0]))[:maximum]
        sessions = sorted(self._sessions | self._unproven)[:maximum]
        return LeaseProcesses(tuple(oldest), tuple(sessions))

    def update(self, table: ProcessTable, maximum: int) -> bool | None:
        """Remove members that have exited; whether any is alive, `None` is unknown.

        At most `maximum` are looked at, the others at the next looks.
        """
        self._before = dict(self._members), set(self._sessions), self._unproven
        is_alive, is_unknown = len(self._members) > maximum, False
        sessions: set[int] = set()
        for pid in list(self._members)[:maximum]:
            started = self._members.pop(pid)
            row = table.find(pid)
            if row is Unseen.GONE or (isinstance(row, ProcessRow) and row.started_ticks != started):
                continue
            # At the end, so that those not looked at come first next time.
            self._members[pid] = started
            if isinstance(row, Unseen):
                is_unknown = True
            elif row.is_alive:
                is_alive = True
                sessions |= {row.session} & (self._sessions | self._unproven | {pid})
        if not is_unknown and (not is_alive or len(self._members) <= maximum):
            # A session's number is free again with its last process.
            self._sessions, self._unproven = sessions, set()
        else:
            self._sessions |= sessions
        return True if is_alive else (None if is_unknown else False)

    def restore(self) -> None:
        """Restore the members from before the last look."""
        self._members, self._sessions, self._unproven = self._before

    def extend_members(
        self, rows: Iterable[ProcessRow], children: Mapping[int, list[ProcessRow]]
    ) -> None:
        """Add the members among new processes; `children` are the same by their parents."""
        found = deque(row for row in rows if row.session in self._sessions)
        found.extend(child for pid in self._members for child in children.get(pid, ()))
        while found:
            row = found.popleft()
            if self._members.get(row.pid) != row.started_ticks:
                self.add(row)
                found.extend(children.get(row.pid, ()))

    def add(self, row: ProcessRow) -> None:
        """Add a member."""
        self._members[row.pid] = row.started_ticks
        if row.session == row.pid:
            self._sessions.add(row.session)


class ProcessTracker:
    """Looks at new processes once each, and at members each time."""

    def __init__(self, table: ProcessTable, maximum: int) -> None:
        self._table = table
        self.maximum = maximum
        """Members of a lease, and new processes, that are looked at in one look."""
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
        known: Mapping[str, LeaseProcesses] = MappingProxyType({}),
    ) -> Mapping[str, ObservedProcesses]:
        """Each lease's processes now.

        Leases of the last look keep their trees; `known` are stored members of those that it did
        not know.
        """
        self._trees = {
            name: self._trees.get(name) or ProcessTree(client, known.get(name, LeaseProcesses()))
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
                # New members run, though all known ones have exited.
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
        """Whether more are to be looked at; `None` after a failed read."""
        self._looks += 1
        if self._looks % _LOOKS_UNTIL_RESCAN == 0:
            self._unrelated.clear()
        known = self._unrelated.union(*(tree.pids for tree in self._trees.values()))
        # The youngest last: the parents of those left over for the next look are known then.
        new = sorted(pid for pid in present if pid not in known)
        examined = new[: self.maximum]
        found = {pid: self._table.find(pid) for pid in examined}
        rows = [row for row in found.values() if isinstance(row, ProcessRow)]
        unknown = {pid for pid, row in found.items() if row is Unseen.UNKNOWN}
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
        """Processes that carry a lease of their own user."""
        users = {tree.uid for tree in self._trees.values()}
        for row in rows:
            if self._table.user(row.pid) not in users:
                continue
            name = self._table.environment(row.pid, (LEASE,)).get(LEASE, "")
            tree = self._trees.get(name)
            # A user controls the environment of its own processes.
            if tree is not None and tree.uid == self._table.user(row.pid) and row.is_alive:
                tree.add(row)


def orphans(record: LeaseRecord, table: ProcessTable) -> str:
    """A clause that names the remaining processes of an ended lease; empty where none is left."""
    client = record.lease.client
    known = {(client.pid, client.started_ticks), *record.processes.processes}
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
