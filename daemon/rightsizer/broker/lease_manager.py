"""Lease manager: the broker's state under one lock, saved before any answer; counters."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

import structlog

from rightsizer.broker.broker import Broker
from rightsizer.broker.lease import (
    BrokerEvent,
    EventKind,
    Lease,
    LeaseObservation,
    LeaseOwner,
    Reservation,
    Ticket,
)
from rightsizer.broker.repository import BrokerRepository, StateWriter, must_save
from rightsizer.broker.scheduling_state import EarliestStart, NodeObservation
from rightsizer.broker.state import BrokerState
from rightsizer.broker.transitions import BrokerTransition
from rightsizer.io.clock import Clock
from rightsizer.model.errors import HistoryError, RightsizerError
from rightsizer.model.units import Nanoseconds, seconds


class BrokerCounters:
    """Counts grants and how long they had to be waited for; changed under the desk's lock."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._grants = 0
        self._waited_seconds = 0.0

    def granted(self, lease: Lease) -> None:
        """Count one."""
        self._grants += 1
        self._waited_seconds += seconds(lease.granted - lease.asked)

    def counters(self) -> dict[str, float]:
        """Since the agent started, by the names of metrics."""
        return {
            "rightsizer_broker_grants_total": float(self._grants),
            "rightsizer_broker_wait_seconds_total": self._waited_seconds,
        }

    @staticmethod
    def gauges(state: BrokerState) -> dict[str, float]:
        """As it stands, by the names of metrics."""
        return {
            "rightsizer_broker_leases": float(len(state.leases)),
            "rightsizer_broker_queue_length": float(len(state.tickets)),
        }


_TELLINGS: Final = frozenset({EventKind.IDLE, EventKind.OVER_MEMORY, EventKind.TIME_UP})
_MESSAGES_KEPT: Final = 20
"""Of each lease, the latest: a holder that asks in a month is not told a month of them."""
_NOT_LOOKED: Final = "the broker has not looked at it yet"


@dataclass(frozen=True, slots=True)
class BrokerObservation:
    """What was seen of the node and of the processes at one look."""

    look: NodeObservation | None
    """`None` where there is nothing to go by; then nothing is granted."""
    sightings: dict[str, LeaseObservation] = field(default_factory=dict)
    trouble: str | None = None
    """Why there is nothing to go by."""


class NodeObserver(Protocol):
    """Whoever looks at the node."""

    def look(self, state: BrokerState) -> BrokerObservation:
        """What there is to see for the leases and tickets of a state; by one thread at a time."""

    def glance(self, state: BrokerState) -> NodeObservation | None:
        """The node as it stands, processes of a state's leases as last seen; from any thread."""


@dataclass(frozen=True, slots=True)
class BrokerOverview:
    """How things stand, for whoever asks; one consistent value."""

    state: BrokerState
    waiting: tuple[tuple[Ticket, str], ...] = ()
    """In the order of the queue as it was last served, each with what it waits for."""
    promised: EarliestStart | None = None
    """When the first that waits can start at the latest."""
    look: NodeObservation | None = None
    """The node as it was last seen."""
    trouble: str | None = None
    """Why nothing is granted at present."""

    def place_of(self, ticket_id: str) -> int | None:
        """From 1; `None` before the queue was served with it."""
        ids = [ticket.id for ticket, _ in self.waiting]
        return ids.index(ticket_id) + 1 if ticket_id in ids else None

    def why_waiting(self, ticket_id: str) -> str | None:
        """A clause; `None` before anybody has looked."""
        if self.trouble is not None:
            return self.trouble
        return next((why for ticket, why in self.waiting if ticket.id == ticket_id), None)


class LeaseManager:
    """Takes what is asked from any thread; serves the queue whenever it is told to look."""

    def __init__(
        self,
        broker: Broker,
        state: BrokerState,
        store: BrokerRepository,
        clock: Clock,
        eyes: NodeObserver,
    ) -> None:
        """A desk that goes on with a state.

        Args:
            broker: The rules.
            state: As it was saved, or rebuilt.
            store: Where it is kept.
            clock: CLOCK_BOOTTIME and the wall's.
            eyes: Looks at the node; slow things are done there, without the lock.
        """
        self._broker, self._store, self._clock, self._eyes = broker, store, clock, eyes
        self._lock = threading.Lock()
        self._now = BrokerOverview(state, trouble=_NOT_LOOKED)
        self._saving = StateWriter(store, clock)
        self._trouble: str | None = None
        self._told: dict[str, deque[str]] = {}
        self._listeners: list[Callable[[BrokerEvent], None]] = []
        self._log = structlog.get_logger(component="broker")
        self.tally = BrokerCounters()
        self.woken = threading.Event()
        """Set where it is worth looking before the next turn."""

    @property
    def standing(self) -> BrokerOverview:
        """How things stand; asks nobody."""
        return self._now

    def messages_for(self, lease_id: str) -> tuple[str, ...]:
        """What the holder of a lease was told since the agent started, the latest twenty."""
        return tuple(self._told.get(lease_id, ()))

    def listen(self, listener: Callable[[BrokerEvent], None]) -> None:
        """Have somebody told of every event, once what it tells of is saved."""
        self._listeners.append(listener)

    def follow(self, broker: Broker) -> None:
        """Go by other rules from now on."""
        with self._lock:
            self._broker = broker

    def begin(self, step: BrokerTransition) -> None:
        """Take over what an agent's start has brought: saved, then told.

        Raises:
            HistoryError: it cannot be saved.
        """
        with self._lock:
            self._saving.save(step.state)
            self._now = BrokerOverview(step.state, trouble=_NOT_LOOKED)
        self._tell(step.events)

    def ask(self, ticket: Ticket) -> BrokerTransition:
        """Put a ticket into the queue.

        Raises:
            RightsizerError: it cannot be saved, and was not taken.
        """
        look = self._eyes.glance(self._now.state)
        return self._carry_out(lambda state, now: self._broker.ask(state, now, ticket, look))

    def end(self, item_id: str, by: LeaseOwner) -> BrokerTransition:
        """Give a lease back, or take a ticket back.

        Raises:
            RightsizerError: it cannot be saved, and stays.
        """

        def ended(state: BrokerState, now: Nanoseconds) -> BrokerTransition:
            if state.ticket(item_id) is not None:
                return self._broker.withdraw(state, now, item_id, by)
            return self._broker.give_back(state, now, item_id, by)

        return self._carry_out(ended)

    def reserve(
        self, wish: Callable[[Nanoseconds], Reservation], by: LeaseOwner
    ) -> BrokerTransition:
        """Keep seats free.

        Args:
            wish: What is wanted, by the moment at which it is asked for.
            by: Who asks.

        Raises:
            RightsizerError: nobody has looked at the node, or it cannot be saved.
        """
        look = self._eyes.glance(self._now.state)
        if look is None:
            raise RightsizerError("nothing can be reserved before a GPU was read; ask again")
        return self._carry_out(
            lambda state, now: self._broker.reserve(state, now, wish(now), by, look)
        )

    def cancel(self, reservation_id: str, by: LeaseOwner) -> BrokerTransition:
        """Take a reservation back.

        Raises:
            RightsizerError: it cannot be saved, and stays.
        """
        return self._carry_out(
            lambda state, now: self._broker.cancel(state, now, reservation_id, by)
        )

    def turn(self) -> None:
        """Look once, and do what follows; a state that cannot be saved stays as it was."""
        self.woken.clear()
        state = self._now.state
        if not (state.leases or state.tickets or state.bookings) and self._now.look is not None:
            return
        moment = self._eyes.look(state)
        with self._lock:
            if {each.id for each in state.leases} - {each.id for each in self._now.state.leases}:
                # Processes of a lease that has just ended were taken for its own, and left out.
                self.woken.set()
                return
            step = self._looked(moment)
            try:
                self._saving.follow(self._now.state, step.state)
            except HistoryError as error:
                why = f"nothing can be granted, for it cannot be saved: {error}"
                self._say_once(why)
                self._now = BrokerOverview(
                    self._now.state, self._now.waiting, None, moment.look, why
                )
                return
            self._say_once(moment.trouble)
            self._now = BrokerOverview(
                step.state,
                step.waiting or self._now.waiting if moment.look is None else step.waiting,
                step.promised,
                moment.look,
                moment.trouble,
            )
            for grant in step.grants:
                self.tally.granted(grant.record.lease)
        self._tell(step.events)

    def close(self) -> None:
        """Save for the last time, and let others write."""
        with self._lock:
            try:
                self._saving.save(self._now.state)
            except HistoryError as error:
                self._log.error("broker_not_saved", error=str(error))
            self._store.close()

    def _looked(self, moment: BrokerObservation) -> BrokerTransition:
        state, now = self._now.state, self._clock.time()
        # What has begun since the look was not looked at, and is left as it is.
        if moment.look is not None:
            return self._broker.turn(state, now, moment.sightings, moment.look)
        seen = self._broker.observe(state, now, moment.sightings)
        over = self._broker.expire(seen.state, now)
        return BrokerTransition(over.state, (*seen.events, *over.events))

    def _carry_out(
        self, act: Callable[[BrokerState, Nanoseconds], BrokerTransition]
    ) -> BrokerTransition:
        with self._lock:
            before = self._now
            step = act(before.state, self._clock.time())
            if step.is_refused:
                return step
            try:
                self._saving.follow(self._now.state, step.state)
            except HistoryError as error:
                raise RightsizerError(
                    f"the broker cannot save what it is asked, and has not done it: {error}"
                ) from None
            self._now = BrokerOverview(
                step.state, before.waiting, before.promised, before.look, before.trouble
            )
        if must_save(before.state, step.state):
            self._tell(step.events)
        self.woken.set()
        return step

    def _say_once(self, trouble: str | None) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            if trouble is not None:
                self._log.warning("broker_waits", reason=trouble)

    def _tell(self, events: Iterable[BrokerEvent]) -> None:
        for event in events:
            write = self._log.warning if event.kind in _TELLINGS else self._log.info
            reason = {} if event.reason is None else {"reason": str(event.reason)}
            write(
                f"broker_{event.kind}",
                id=event.id,
                user=event.user,
                message=event.message,
                **reason,
            )
            if event.kind in _TELLINGS:
                self._told.setdefault(event.id, deque(maxlen=_MESSAGES_KEPT)).append(event.message)
            elif event.kind is EventKind.ENDED:
                self._told.pop(event.id, None)
            for listener in self._listeners:
                listener(event)
