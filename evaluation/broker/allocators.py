"""Who lends a node's GPUs: the broker, the broker in a process that is killed, and first-free."""

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Mapping
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.broker.broker import Broker
from rightsizer.broker.lease import EventKind, LeaseObservation, Ticket
from rightsizer.broker.repository import BrokerRepository, must_save
from rightsizer.broker.scheduling_state import NodeObservation
from rightsizer.broker.settings import BrokerSettings, GpuPlacementSettings
from rightsizer.broker.state import BrokerState
from rightsizer.broker.transitions import BrokerTransition
from rightsizer.model.units import Nanoseconds

_BOOT: Final = "one boot"
_ANSWERED_RATIO: Final = 0.3
"""Of the kills that come after the answer was sent, and before the client has taken it."""
_REQUEST_SECONDS: Final = 0.01
"""About as long as a request takes, half of it to write; the other kills come within."""
_CONTEXT: Final = multiprocessing.get_context("forkserver")
# What is imported before the fork is not imported again after each kill.
_CONTEXT.set_forkserver_preload([__name__])


class Answer(Struct, frozen=True):
    """Client's view of the node."""

    granted: Mapping[str, tuple[str, ...]]
    """Uuids by ticket, of those that were granted again."""
    state: BrokerState | None = None
    notices: int = 0
    """How many holders were told something."""


class Lender(Protocol):
    """Lends GPUs."""

    def ask(self, now: Nanoseconds, ticket: Ticket) -> Answer:
        """Take a ticket."""

    def give_back(self, now: Nanoseconds, name: str) -> None:
        """Take a lease back."""

    def turn(
        self, now: Nanoseconds, seen: Mapping[str, LeaseObservation], look: NodeObservation
    ) -> Answer:
        """Grant what can be granted."""


class LocalBroker:
    """The broker, without a store."""

    def __init__(self, settings: BrokerSettings | None = None, *, may_share: bool = True) -> None:
        self._broker = Broker(settings or BrokerSettings(), GpuPlacementSettings())
        self._state = BrokerState(_BOOT)
        self._may_share = may_share

    def ask(self, now: Nanoseconds, ticket: Ticket) -> Answer:
        """Take a ticket; where nothing is shared, it is for GPUs of its own."""
        if not self._may_share:
            ticket = replace(ticket, request=replace(ticket.request, may_share=False))
        return self._after(self._broker.ask(self._state, now, ticket))

    def give_back(self, now: Nanoseconds, name: str) -> None:
        """Take a lease back."""
        self._after(self._broker.end(self._state, now, name))

    def turn(
        self, now: Nanoseconds, seen: Mapping[str, LeaseObservation], look: NodeObservation
    ) -> Answer:
        """Observe, expire, serve."""
        return self._after(self._broker.turn(self._state, now, seen, look))

    def _after(self, step: BrokerTransition) -> Answer:
        self._state = step.state
        return _answer(step)


class FirstFree:
    """First come, first served, the first free GPUs by their index, each for one piece of work."""

    def __init__(self) -> None:
        self._queue: list[Ticket] = []
        self._held: dict[str, tuple[str, ...]] = {}

    def ask(self, now: Nanoseconds, ticket: Ticket) -> Answer:
        """Queue up."""
        self._queue.append(ticket)
        return Answer({})

    def give_back(self, now: Nanoseconds, name: str) -> None:
        """Free for the next."""
        self._held.pop(name, None)

    def turn(
        self, now: Nanoseconds, seen: Mapping[str, LeaseObservation], look: NodeObservation
    ) -> Answer:
        """Serve the first as long as there is enough."""
        for name in [each for each in self._held if seen[each].is_alive is False]:
            del self._held[name]
        granted = {}
        while self._queue:
            taken = {uuid for uuids in self._held.values() for uuid in uuids}
            free = [s.uuid for s in look.slots if s.uuid not in taken and not s.holders]
            ticket = self._queue[0]
            if len(free) < ticket.request.gpus:
                break
            granted[ticket.id] = self._held[ticket.id] = tuple(free[: ticket.request.gpus])
            self._queue.pop(0)
        return Answer(granted)


class KilledAgents:
    """The broker with its store in a process of its own, which is killed with -9 and begun again.

    After a kill, what the next one has is held against what clients were told, and all that wait
    ask again, for an answer may have been lost.
    """

    def __init__(self, path: Path, kills: int, requests: int, seed: int) -> None:
        """Kill at so many moments among so many requests, in whatever the agent does then."""
        self._path = path
        self._chance = Random(f"kills {seed}")
        self._fatal = frozenset(self._chance.sample(range(10, requests), kills))
        self._count = 0
        self._waiting: dict[str, Ticket] = {}
        self._held: dict[str, tuple[str, ...]] = {}
        """As clients were told."""
        self._over: set[str] = set()
        self._last_end: str | None = None
        self.kills = self.lost = self.resurrected = self.torn = 0
        self._start()

    def ask(self, now: Nanoseconds, ticket: Ticket) -> Answer:
        """Take a ticket."""
        self._waiting[ticket.id] = ticket
        return self._apply(self._request(now, "ask", now, ticket))

    def give_back(self, now: Nanoseconds, name: str) -> None:
        """Take a lease back; whether the agent knows it already does not matter."""
        self._apply(self._request(now, "end", now, name))

    def turn(
        self, now: Nanoseconds, seen: Mapping[str, LeaseObservation], look: NodeObservation
    ) -> Answer:
        """Observe, expire, serve."""
        return self._apply(self._request(now, "turn", now, seen, look))

    def close(self) -> None:
        """End the last agent."""
        self._connection.close()
        self._process.join()

    def _start(self) -> None:
        self._connection, theirs = _CONTEXT.Pipe()
        self._process = _CONTEXT.Process(target=serve_agent, args=(theirs, self._path), daemon=True)
        self._process.start()
        theirs.close()
        self._connection.recv()

    def _request(self, now: Nanoseconds, *request: Any) -> Answer:
        self._count += 1
        self._connection.send(request)
        if self._count not in self._fatal:
            return self._received()
        if self._chance.random() < _ANSWERED_RATIO:
            self._connection.poll(None)
        else:
            time.sleep(self._chance.uniform(0, _REQUEST_SECONDS))
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.join()
        answered: Answer | None = None
        with contextlib.suppress(EOFError, OSError):
            answered = self._received()
        if answered is not None:
            self._apply(answered)
        self.kills += 1
        self.torn += answered is None
        self._connection.close()
        self._start()
        return self._recovered(now, request, answered)

    def _recovered(
        self, now: Nanoseconds, request: tuple[Any, ...], answered: Answer | None
    ) -> Answer:
        """Hold the new agent against what clients know, let them ask again, and go on."""
        self._connection.send(("state",))
        state = self._received().state
        assert state is not None
        leases = {record.id: record.lease.uuids for record in state.leases}
        ending = set()
        if request[0] == "end":
            ending = {request[2]}
        elif request[0] == "turn":
            ending = {name for name, seen in request[2].items() if seen.is_alive is False}
        self.lost += sum(
            leases.get(name) != uuids for name, uuids in self._held.items() if name not in ending
        )
        self.resurrected += len(leases.keys() & self._over)
        granted = {} if answered is None else dict(answered.granted)
        for ticket in list(self._waiting.values()):
            self._connection.send(("ask", now, ticket))
            granted |= self._apply(self._received()).granted
        self._connection.send(request)
        again = self._received()
        return replace(again, granted={**granted, **again.granted})

    def _received(self) -> Answer:
        found = self._connection.recv()
        assert isinstance(found, Answer)
        return found

    def _apply(self, answer: Answer) -> Answer:
        """Note what clients know now."""
        assert answer.state is not None
        for name, uuids in answer.granted.items():
            self._waiting.pop(name, None)
            self._held[name] = uuids
        leases = {record.id for record in answer.state.leases}
        for name in [each for each in self._held if each not in leases]:
            del self._held[name]
            self._over.add(name)
        return answer


def serve_agent(connection: Connection, path: Path) -> None:
    """An agent's loop: take a request, make the step, save what matters, and only then answer."""
    broker = Broker(BrokerSettings(), GpuPlacementSettings())
    with closing(BrokerRepository(path)) as store:
        state = store.load() or BrokerState(_BOOT)
        state = broker.after_restart(state, state.as_of, _BOOT).state
        connection.send(True)
        while True:
            try:
                name, *arguments = connection.recv()
            except EOFError:
                return
            step = (
                BrokerTransition(state)
                if name == "state"
                else getattr(broker, name)(state, *arguments)
            )
            if name != "state" and must_save(state, step.state):
                store.save(step.state, step.state.as_of)
            state = step.state
            connection.send(_answer(step))


def _answer(step: BrokerTransition) -> Answer:
    granted = {
        event.id: event.lease.uuids
        for event in step.events
        if event.kind is EventKind.GRANTED and event.lease is not None
    }
    notices = sum(event.kind in _NOTICES for event in step.events)
    return Answer(granted, step.state, notices)


_NOTICES: Final = {EventKind.IDLE, EventKind.OVER_MEMORY, EventKind.TIME_UP}
