"""A lease manager on a simulated set of processes, with a real file and real routes."""

import json
from http import HTTPStatus
from pathlib import Path
from typing import Any

from broker_node import World
from rightsizer.broker.api import BrokerApi
from rightsizer.broker.broker import Broker
from rightsizer.broker.lease import LeaseObservation, LeaseProcesses, LeaseRecord, Ticket
from rightsizer.broker.lease_manager import LeaseManager
from rightsizer.broker.observer import BrokerObservation
from rightsizer.broker.repository import BrokerRepository
from rightsizer.broker.scheduling_state import NodeObservation
from rightsizer.broker.settings import BrokerSettings, GpuPlacementSettings
from rightsizer.broker.state import BrokerState
from rightsizer.host.process_table import ProcessTable
from rightsizer.model.units import Nanoseconds
from rightsizer.web.message import SocketPeer, WebRequest, WebResponse
from rightsizer.web.router import Router

__all__ = ["BootClock", "ManagedNode"]


class BootClock:
    """A clock set by the test; steps of the wall clock leave boot time unchanged."""

    speed = 1.0

    def __init__(self) -> None:
        self.now: Nanoseconds = 10**9
        self.wall: Nanoseconds = 10**18

    def time(self) -> Nanoseconds:
        """Time since boot."""
        return self.now

    def wall_time(self) -> Nanoseconds:
        """Time since the epoch."""
        return self.wall

    def wait_until(self, deadline: Nanoseconds, stop: object) -> bool:
        """It is never waited for."""
        raise AssertionError((deadline, stop))


class ManagedNode:
    """A lease manager and its observer."""

    def __init__(
        self,
        world: World,
        path: Path,
        settings: BrokerSettings | None = None,
        procfs: Path = Path("/proc"),
    ) -> None:
        self.world = world
        self.clock = BootClock()
        self.settings = settings or BrokerSettings()
        self.dead: set[str] = set()
        self.is_active = False
        self.trouble: str | None = None
        self.processes: LeaseProcesses | None = None
        """Of every lease."""
        self.store = BrokerRepository(path)
        broker = Broker(self.settings, GpuPlacementSettings())
        state = self.store.load() or BrokerState("boot", self.clock.now)
        observer: Any = self
        self.manager = LeaseManager(broker, state, self.store, self.clock, observer)
        api = BrokerApi(self.manager, ProcessTable(procfs), self.clock, lambda: self.settings)
        self._router = Router(api.routes)

    def observe(self, state: BrokerState) -> BrokerObservation:
        """The simulated world and the given processes."""
        records: list[LeaseRecord | Ticket] = [*state.leases, *state.tickets]
        seen = {
            record.id: LeaseObservation(
                is_alive=record.id not in self.dead,
                is_active=self.is_active,
                processes=self.processes,
            )
            for record in records
        }
        return BrokerObservation(None if self.trouble else self.world.observe(), seen, self.trouble)

    def node(self, _: BrokerState) -> NodeObservation | None:
        """The node only."""
        return None if self.trouble else self.world.observe()

    def ask(
        self, method: str, path: str, body: Any = None, peer: SocketPeer | None = None
    ) -> WebResponse:
        """A response of the routes; the body as bytes, or as an object for JSON."""
        raw = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        return self._router.answer(WebRequest(method, path, body=raw, peer=peer))

    def asked(self, body: Any, peer: SocketPeer) -> Any:
        """The response to a user who was queued or has a lease."""
        answer = self.ask("POST", "/api/v1/leases", body, peer)
        assert answer.status == HTTPStatus.OK, answer.body
        return json.loads(answer.body)
