"""Looks at the node for the broker: the latest report, and the processes of each lease."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from rightsizer.domain.report import Report
from rightsizer.domain.topology import Topology
from rightsizer.edge.clock import Clock
from rightsizer.placement.broker_state import BrokerState
from rightsizer.placement.lease_record import Sighting
from rightsizer.placement.standing import Look
from rightsizer.publish.freshness import FreshnessSettings
from rightsizer.runtime.broker.desk import Moment
from rightsizer.runtime.broker.family import Seen
from rightsizer.runtime.broker.sightings import sightings_of, with_trespassers
from rightsizer.runtime.broker.watcher import Watcher
from rightsizer.runtime.placing import view_of
from rightsizer.runtime.seats import seats_of
from rightsizer.runtime.settings import Settings

__all__ = ["NodeEyes"]

_NOBODY: Final[Mapping[str, Seen]] = MappingProxyType({})
_NOT_READ: Final = "no GPU has been read yet"


class NodeEyes:
    """Sees seats in reports, and leases in procfs."""

    def __init__(
        self,
        latest: Callable[[], Report | None],
        watcher: Watcher,
        settings: Callable[[], Settings],
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
        return _pids(_lasting(self._seen, state))

    def look(self, state: BrokerState) -> Moment:
        """Look at the processes, then at what the last report says of them."""
        # Whatever began before the report was made is known by then.
        report = self._latest()
        seen = self._watcher.look(
            {each.id: each.lease.client for each in state.leases},
            {each.id: each.kin for each in state.leases},
        )
        self._seen = seen
        sightings: dict[str, Sighting] = {
            ticket.id: Sighting(is_alive=self._watcher.is_alive(ticket.client))
            for ticket in state.tickets
        }
        sightings |= sightings_of(state.leases, seen, report)
        if report is None or not report.devices:
            trouble = None if report is None else report.agent.trouble
            return Moment(None, sightings, trouble or _NOT_READ)
        return Moment(self._seats(report, state), sightings)

    def glance(self, state: BrokerState) -> Look | None:
        """The node by the last report; processes of leases that are over are anybody's."""
        report = self._latest()
        return None if report is None or not report.devices else self._seats(report, state)

    def _seats(self, report: Report, state: BrokerState) -> Look:
        seen, now = _lasting(self._seen, state), self._clock.wall_time()
        seats = seats_of(report, view_of(self._settings(), now, self._freshness, _pids(seen)))
        seats = with_trespassers(seats, state.leases, seen, report)
        return Look(seats, report.node.topology or Topology())


def _lasting(seen: Mapping[str, Seen], state: BrokerState) -> Mapping[str, Seen]:
    return {each.id: seen[each.id] for each in state.leases if each.id in seen}


def _pids(seen: Mapping[str, Seen]) -> frozenset[int]:
    return frozenset[int]().union(*(each.pids for each in seen.values()))
