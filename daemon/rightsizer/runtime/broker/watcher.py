"""Which processes belong to which lease, look after look, with bounded work."""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from rightsizer.placement.kin import Kin
from rightsizer.placement.lease import Client
from rightsizer.runtime.broker.family import Family, Seen
from rightsizer.runtime.broker.marker import LEASE
from rightsizer.runtime.broker.process_table import ProcessRow, ProcessTable, Unseen

__all__ = ["Watcher"]

_LOOKS_UNTIL_ALL_ANEW: Final = 60
"""A pid that was nobody's and is used again between two looks is noticed after so many."""
_NOBODY: Final[Mapping[str, Kin]] = MappingProxyType({})


class Watcher:
    """Looks at new processes once each, and at members each time."""

    def __init__(self, table: ProcessTable, maximum: int) -> None:
        """Knows nobody yet.

        Args:
            table: The processes.
            maximum: Members of a lease, and new processes, that are looked at in one look.
        """
        self._table, self.maximum = table, maximum
        self._families: dict[str, Family] = {}
        self._strangers: set[int] = set()
        self._looks = 0

    def is_alive(self, client: Client) -> bool | None:
        """Whether a client runs; `None` where nobody could look."""
        row = self._table.look(client.pid)
        if isinstance(row, ProcessRow):
            return row.is_alive and row.started_ticks == client.started_ticks
        return False if row is Unseen.GONE and self._table.pids() else None

    def look(
        self, clients: Mapping[str, Client], known: Mapping[str, Kin] = _NOBODY
    ) -> Mapping[str, Seen]:
        """Each lease's processes as they are now.

        Args:
            clients: Whoever asked, by lease; those that were there before keep their families.
            known: Who belonged to a lease when another agent last looked; of those that were not
                there before.
        """
        self._families = {
            name: self._families.get(name) or Family(client, known.get(name, Kin()))
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
                name: Seen(family.pids, None, family.kin(self.maximum))
                for name, family in self._families.items()
            }
        before = {name: family.pids for name, family in self._families.items()}
        is_more = self._take_in_the_new(there)
        return {
            name: Seen(
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
