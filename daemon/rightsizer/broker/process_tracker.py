"""Tracker of the processes of each lease, with bounded work per look.

And orphans of ended leases.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from rightsizer.broker.environment_tag import LEASE
from rightsizer.broker.lease import LeaseOwner, LeaseProcesses, LeaseRecord
from rightsizer.host.process_table import ProcessRow, ProcessTable, Unseen


@dataclass(frozen=True, slots=True)
class ObservedProcesses:
    """What was seen of a family at one look."""

    pids: frozenset[int]
    is_alive: bool | None
    """Whether any of it runs; so does one of which not all could be looked at. `None`: a read
    failed, and nobody knows."""
    kin: LeaseProcesses = field(default_factory=LeaseProcesses)
    """What a later agent needs to know of it."""


class ProcessTree:
    """Remembers members by pid and start; a pid that was used again is nobody's."""

    def __init__(self, client: LeaseOwner, kin: LeaseProcesses) -> None:
        """A family of whoever asked.

        Args:
            client: He.
            kin: Who belonged to it when somebody last looked, on the same boot. It is believed as
                far as the next look finds it: the same process, and in it the session.
        """
        self.uid = client.uid
        self._members: dict[int, int] = {client.pid: client.started_ticks, **dict(kin.processes)}
        self._sessions: set[int] = set()
        self._unproven: set[int] = set(kin.sessions)
        """Sessions that nobody was seen in yet: their numbers may be others' by now."""
        self._before = self._members, self._sessions, self._unproven

    @property
    def pids(self) -> frozenset[int]:
        """Of all members that were not seen to end."""
        return frozenset(self._members)

    def kin(self, maximum: int) -> LeaseProcesses:
        """What a later agent needs to know.

        Args:
            maximum: How many members; the oldest, for the others are mostly below them.
        """
        oldest = sorted(self._members.items(), key=lambda each: (each[1], each[0]))[:maximum]
        return LeaseProcesses(
            tuple(oldest), tuple(sorted(self._sessions | self._unproven)[:maximum])
        )

    def look(self, table: ProcessTable, maximum: int) -> bool | None:
        """Take note of who has ended; whether any is alive, `None` where that cannot be told.

        Args:
            table: The processes.
            maximum: How many to look at; the others' turn comes at the next looks.
        """
        self._before = dict(self._members), set(self._sessions), self._unproven
        is_alive, is_unknown = len(self._members) > maximum, False
        sessions: set[int] = set()
        for pid in list(self._members)[:maximum]:
            started = self._members.pop(pid)
            row = table.look(pid)
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

    def forget_look(self) -> None:
        """Have all members that there were before the last look: it saw nothing."""
        self._members, self._sessions, self._unproven = self._before

    def grow(self, rows: Iterable[ProcessRow], children: Mapping[int, list[ProcessRow]]) -> None:
        """Take in those of some processes that belong.

        Args:
            rows: Processes that were not looked at before.
            children: The same by their parents.
        """
        found = deque(row for row in rows if row.session in self._sessions)
        found.extend(child for pid in self._members for child in children.get(pid, ()))
        while found:
            row = found.popleft()
            if self._members.get(row.pid) != row.started_ticks:
                self.take_in(row)
                found.extend(children.get(row.pid, ()))

    def take_in(self, row: ProcessRow) -> None:
        """A process that belongs."""
        self._members[row.pid] = row.started_ticks
        if row.session == row.pid:
            self._sessions.add(row.session)


_LOOKS_UNTIL_ALL_ANEW: Final = 60
"""A pid that was nobody's and is used again between two looks is noticed after so many."""
_NOBODY: Final[Mapping[str, LeaseProcesses]] = MappingProxyType({})


class ProcessTracker:
    """Looks at new processes once each, and at members each time."""

    def __init__(self, table: ProcessTable, maximum: int) -> None:
        """Knows nobody yet.

        Args:
            table: The processes.
            maximum: Members of a lease, and new processes, that are looked at in one look.
        """
        self._table, self.maximum = table, maximum
        self._families: dict[str, ProcessTree] = {}
        self._strangers: set[int] = set()
        self._looks = 0

    def is_alive(self, client: LeaseOwner) -> bool | None:
        """Whether a client runs; `None` where nobody could look."""
        row = self._table.look(client.pid)
        if isinstance(row, ProcessRow):
            return row.is_alive and row.started_ticks == client.started_ticks
        return False if row is Unseen.GONE and self._table.pids() else None

    def look(
        self, clients: Mapping[str, LeaseOwner], known: Mapping[str, LeaseProcesses] = _NOBODY
    ) -> Mapping[str, ObservedProcesses]:
        """Each lease's processes as they are now.

        Args:
            clients: Whoever asked, by lease; those that were there before keep their families.
            known: Who belonged to a lease when another agent last looked; of those that were not
                there before.
        """
        self._families = {
            name: self._families.get(name) or ProcessTree(client, known.get(name, LeaseProcesses()))
            for name, client in clients.items()
        }
        if not clients:
            self._strangers.clear()
            return {}
        alive = {
            name: family.look(self._table, self.maximum) for name, family in self._families.items()
        }
        there = self._table.pids()
        if not there:
            for family in self._families.values():
                family.forget_look()
            return {
                name: ObservedProcesses(family.pids, None, family.kin(self.maximum))
                for name, family in self._families.items()
            }
        before = {name: family.pids for name, family in self._families.items()}
        is_more = self._take_in_the_new(there)
        return {
            name: ObservedProcesses(
                family.pids,
                # Whoever was taken in just now runs, though all that were known have ended.
                bool(alive[name] or family.pids - before[name])
                or (is_more if alive[name] is False else None),
                family.kin(self.maximum),
            )
            for name, family in self._families.items()
        }

    def _take_in_the_new(self, there: Collection[int]) -> bool | None:
        """Whether more are to be looked at; `None` where a read failed."""
        self._looks += 1
        if self._looks % _LOOKS_UNTIL_ALL_ANEW == 0:
            self._strangers.clear()
        known = self._strangers.union(*(family.pids for family in self._families.values()))
        # The youngest last: what is left over for the next look has its parents among the known.
        new = sorted(pid for pid in there if pid not in known)
        looked_at = new[: self.maximum]
        looks = {pid: self._table.look(pid) for pid in looked_at}
        rows = [row for row in looks.values() if isinstance(row, ProcessRow)]
        unknown = {pid for pid, row in looks.items() if row is Unseen.UNKNOWN}
        children: dict[int, list[ProcessRow]] = {}
        for row in rows:
            children.setdefault(row.parent, []).append(row)
        self._take_in_marked(rows)
        for family in self._families.values():
            family.grow(rows, children)
        members = frozenset[int]().union(*(family.pids for family in self._families.values()))
        self._strangers = (self._strangers | set(looked_at) - unknown) & set(there) - members
        return len(looked_at) < len(new) or (None if unknown else False)

    def _take_in_marked(self, rows: Iterable[ProcessRow]) -> None:
        """Processes that carry a lease of their own user."""
        users = {family.uid for family in self._families.values()}
        for row in rows:
            if self._table.user(row.pid) not in users:
                continue
            name = self._table.environment(row.pid, (LEASE,)).get(LEASE, "")
            family = self._families.get(name)
            # Anybody can write anything into the environment of what is his own.
            if family is not None and family.uid == self._table.user(row.pid) and row.is_alive:
                family.take_in(row)


_PIDS_NAMED: Final = 8


def orphans(record: LeaseRecord, table: ProcessTable) -> str:
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
