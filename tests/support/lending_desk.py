"""A broker's desk over a world of processes that are told, with a real file and real routes."""

import json
from http import HTTPStatus
from pathlib import Path
from typing import Any

from broker_node import World
from rightsizer.domain.units import Nanoseconds
from rightsizer.placement.broker import Broker
from rightsizer.placement.broker_state import BrokerState
from rightsizer.placement.kin import Kin
from rightsizer.placement.lease_record import Sighting
from rightsizer.placement.settings import PlacementSettings
from rightsizer.placement.standing import Look
from rightsizer.publish.freshness import FreshnessSettings
from rightsizer.publish.metrics import Exposition
from rightsizer.publish.web.message import Peer, Request, Response
from rightsizer.publish.web.page import Page
from rightsizer.publish.web.routes import Site
from rightsizer.publish.web.view import FitSettings
from rightsizer.runtime.broker.desk import Desk, Moment
from rightsizer.runtime.broker.process_table import ProcessTable
from rightsizer.runtime.broker.routes import BrokerRoutes, Office
from rightsizer.runtime.broker.settings import BrokerSection
from rightsizer.runtime.broker.store import BrokerStore

__all__ = ["LentDesk", "ToldClock"]


class ToldClock:
    """Says what it is told; the wall's steps are not the boot's."""

    speed = 1.0

    def __init__(self) -> None:
        self.now: Nanoseconds = 10**9
        self.wall: Nanoseconds = 10**18

    def time(self) -> Nanoseconds:
        """Since boot."""
        return self.now

    def wall_time(self) -> Nanoseconds:
        """Since the epoch."""
        return self.wall

    def wait_until(self, deadline: Nanoseconds, stop: object) -> bool:
        """Nobody waits by it."""
        raise AssertionError((deadline, stop))


class LentDesk:
    """The eyes of a desk, which see a world; and the desk."""

    def __init__(
        self,
        world: World,
        path: Path,
        settings: BrokerSection | None = None,
        procfs: Path = Path("/proc"),
    ) -> None:
        self.world, self.clock = world, ToldClock()
        self.settings = settings or BrokerSection()
        self.dead: set[str] = set()
        self.is_active = False
        self.trouble: str | None = None
        self.kin: Kin | None = None
        """Of every lease."""
        self.store = BrokerStore(path)
        broker = Broker(self.settings, PlacementSettings())
        state = self.store.load() or BrokerState("boot", self.clock.now)
        self.desk = Desk(broker, state, self.store, self.clock, self)
        table = ProcessTable(procfs)
        office = Office(self.desk, table, self.clock, lambda: self.settings)
        freshness = FreshnessSettings()
        self._site = Site(
            latest=lambda: None,
            exposition=Exposition(lambda: None),
            page=Page(freshness, FitSettings(), 0.0),
            freshness=freshness,
            wall_time=self.clock.wall_time,
            routes=BrokerRoutes(office).routes,
        )

    def look(self, state: BrokerState) -> Moment:
        """What is told."""
        seen = {
            each.id: Sighting(
                is_alive=each.id not in self.dead, is_active=self.is_active, kin=self.kin
            )
            for each in (*state.leases, *state.tickets)
        }
        return Moment(None if self.trouble else self.world.look(), seen, self.trouble)

    def glance(self, _: BrokerState) -> Look | None:
        """The node alone."""
        return None if self.trouble else self.world.look()

    def ask(self, method: str, path: str, body: Any = None, peer: Peer | None = None) -> Response:
        """An answer of the routes; the body as bytes, or as what becomes JSON."""
        raw = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        return self._site.answer(Request(method, path, body=raw, peer=peer))

    def asked(self, body: Any, peer: Peer) -> Any:
        """The answer to somebody who was taken into the queue, or has a lease."""
        answer = self.ask("POST", "/api/v1/leases", body, peer)
        assert answer.status == HTTPStatus.OK, answer.body
        return json.loads(answer.body)
