"""The processes of one lease: whoever asked, and all that came of it.

A process belongs if its parent belongs, if it is in a session that one of them began, or if it
carries the lease in its environment and is the same user's. Once it belongs it stays, whoever its
parent is by then: a daemon has forked twice to be rid of it.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rightsizer.placement.kin import Kin
from rightsizer.placement.lease import Client
from rightsizer.runtime.broker.process_table import ProcessRow, ProcessTable, Unseen

__all__ = ["Family", "Seen"]


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a family at one look."""

    pids: frozenset[int]
    is_alive: bool | None
    """Whether any of it runs; so does one of which not all could be looked at. `None`: a read
    failed, and nobody knows."""
    kin: Kin = field(default_factory=Kin)
    """What a later agent needs to know of it."""


class Family:
    """Remembers members by pid and start; a pid that was used again is nobody's."""

    def __init__(self, client: Client, kin: Kin) -> None:
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

    def kin(self, maximum: int) -> Kin:
        """What a later agent needs to know.

        Args:
            maximum: How many members; the oldest, for the others are mostly below them.
        """
        oldest = sorted(self._members.items(), key=lambda each: (each[1], each[0]))[:maximum]
        return Kin(tuple(oldest), tuple(sorted(self._sessions | self._unproven)[:maximum]))

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
