"""Lease manager: owns the broker's state under a lock, and saves it before any answer."""

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.broker.broker import Broker
from rightsizer.broker.lease import (
    HOLDER_NOTICES,
    BrokerEvent,
    EventKind,
    LeaseOwner,
    Reservation,
    Ticket,
)
from rightsizer.broker.observer import BrokerObservation, ProcfsNodeObserver
from rightsizer.broker.repository import BrokerRepository, StateWriter, must_save
from rightsizer.broker.scheduling_state import EarliestStart, NodeObservation
from rightsizer.broker.state import BrokerState
from rightsizer.broker.transitions import BrokerTransition
from rightsizer.io.clock import Clock
from rightsizer.io.log import logger
from rightsizer.model.values import HistoryError, Nanoseconds, RightsizerError, seconds

_MESSAGES_KEPT: Final = 20
"""Latest notices kept per lease, so that a holder polling after a month gets only these."""
_GRANTS: Final = "rightsizer_broker_grants_total"
_WAITED: Final = "rightsizer_broker_wait_seconds_total"
_NOT_OBSERVED: Final = "the broker has not looked at it yet"


class BrokerOverview(Struct, frozen=True):
    """Consistent snapshot of state and queue."""

    state: BrokerState
    waiting: tuple[tuple[Ticket, str], ...] = ()
    """Tickets in queue order as last served, each with its reason to wait."""
    promised: EarliestStart | None = None
    """Latest start of the first waiting ticket, by the known limits."""
    node: NodeObservation | None = None
    trouble: str | None = None
    """Reason why nothing is granted at present."""

    def place_of(self, ticket_id: str) -> int | None:
        """Position from 1; `None` if the queue was not yet served with it."""
        ids = [ticket.id for ticket, _ in self.waiting]
        return ids.index(ticket_id) + 1 if ticket_id in ids else None

    def why_waiting(self, ticket_id: str) -> str | None:
        """Reason to wait, as a clause; `None` if the queue was not yet served with it."""
        return self.trouble or {ticket.id: why for ticket, why in self.waiting}.get(ticket_id)


class LeaseManager:
    """Handles requests from any thread; serves the queue at each `turn`.

    A change that cannot be saved is not made: the request then raises a RightsizerError.
    """

    def __init__(
        self,
        broker: Broker,
        state: BrokerState,
        repository: BrokerRepository,
        clock: Clock,
        observer: ProcfsNodeObserver,
    ) -> None:
        self._broker = broker
        self._repository = repository
        self._clock = clock
        self._observer = observer
        """Possibly slow; called without the lock."""
        self._lock = threading.Lock()
        self.overview = BrokerOverview(state, trouble=_NOT_OBSERVED)
        """Replaced as a whole; readable without the lock."""
        self._writer = StateWriter(repository, clock)
        self._trouble: str | None = None
        self._messages: dict[str, deque[str]] = {}
        self.listener: Callable[[BrokerEvent], None] = lambda _: None
        """Called for every event, after its state is saved."""
        self._log = logger("broker")
        self._counters = {_GRANTS: 0.0, _WAITED: 0.0}
        self.woken = threading.Event()
        """Set to request an observation before the next regular turn."""

    def metrics(self) -> dict[str, float]:
        """Grants and waiting since the start; current leases, queue and lost GPUs."""
        state = self.overview.state
        return {
            **self._counters,
            "rightsizer_broker_leases": float(len(state.leases)),
            "rightsizer_broker_queue_length": float(len(state.tickets)),
            "rightsizer_broker_lost_gpus": float(
                len({uuid for lease in state.leases for uuid in lease.lost})
            ),
        }

    def messages_for(self, lease_id: str) -> tuple[str, ...]:
        """Latest twenty notices to the holder of a lease since the agent started."""
        return tuple(self._messages.get(lease_id, ()))

    def change_broker(self, broker: Broker) -> None:
        """Use another broker from now on, after a change of settings."""
        with self._lock:
            self._broker = broker

    def begin(self, step: BrokerTransition) -> None:
        """Adopt the initial state: save it if the disk has room, and publish its events."""
        with self._lock:
            # A crash would lose nothing: the next start gets it from the same file and processes.
            self._writer.try_save(step.state)
            self.overview = BrokerOverview(step.state, trouble=_NOT_OBSERVED)
        self._publish(step.events)

    def ask(self, ticket: Ticket) -> BrokerTransition:
        """Queue a ticket."""
        node = self._observer.node(self.overview.state)
        return self._apply(lambda state, now: self._broker.ask(state, now, ticket, node))

    def end(self, item_id: str, by: LeaseOwner) -> BrokerTransition:
        """End a lease or withdraw a ticket."""
        return self._apply(lambda state, now: self._broker.end(state, now, item_id, by))

    def reserve(
        self, reservation: Callable[[Nanoseconds], Reservation], by: LeaseOwner
    ) -> BrokerTransition:
        """Make a reservation, which depends on the current time."""
        if (node := self._observer.node(self.overview.state)) is None:
            raise RightsizerError("nothing can be reserved before a GPU was read; ask again")
        return self._apply(
            lambda state, now: self._broker.reserve(state, now, reservation(now), by, node)
        )

    def cancel(self, reservation_id: str, by: LeaseOwner) -> BrokerTransition:
        """Cancel a reservation."""
        return self._apply(lambda state, now: self._broker.cancel(state, now, reservation_id, by))

    def turn(self) -> None:
        """Observe once and serve the queue; a state that cannot be saved is discarded."""
        self.woken.clear()
        state = self.overview.state
        if not (state.leases or state.tickets or state.bookings) and self.overview.node is not None:
            return
        observed = self._observer.observe(state)
        with self._lock:
            before = self.overview
            if {lease_record.id for lease_record in state.leases} - {
                lease_record.id for lease_record in before.state.leases
            }:
                # Processes of a lease that just ended were excluded as its own: observe again.
                self.woken.set()
                return
            step = self._observed(observed)
            try:
                self._writer.follow(before.state, step.state)
            except HistoryError as error:
                why = f"nothing can be granted, for it cannot be saved: {error}"
                self._warn_once(why)
                self.overview = replace(before, promised=None, node=observed.node, trouble=why)
                return
            self._warn_once(observed.trouble)
            waiting = step.waiting or before.waiting if observed.node is None else step.waiting
            self.overview = BrokerOverview(
                step.state, waiting, step.promised, observed.node, observed.trouble
            )
            for lease in (record.lease for record in step.grants):
                waited_seconds = seconds(lease.granted - lease.asked)
                self._counters[_GRANTS] += 1
                self._counters[_WAITED] += waited_seconds
        self._publish(step.events)

    def close(self) -> None:
        """Save a last time and release the database."""
        with self._lock:
            try:
                self._writer.save(self.overview.state)
            except HistoryError as error:
                self._log.error("broker_not_saved", error=str(error))
            self._repository.close()

    def _observed(self, observed: BrokerObservation) -> BrokerTransition:
        state = self.overview.state
        now = self._clock.time()
        # Items newer than the observation are not covered by it and stay unchanged.
        if observed.node is not None:
            return self._broker.turn(state, now, observed.observations, observed.node)
        step = self._broker.observe(state, now, observed.observations)
        return step.then(self._broker.expire, now)

    def _apply(
        self, act: Callable[[BrokerState, Nanoseconds], BrokerTransition]
    ) -> BrokerTransition:
        with self._lock:
            before = self.overview
            step = act(before.state, self._clock.time())
            if step.is_refused:
                return step
            try:
                self._writer.follow(before.state, step.state)
            except HistoryError as error:
                raise RightsizerError(
                    f"the broker cannot save what it is asked, and has not done it: {error}"
                ) from None
            self.overview = replace(before, state=step.state)
        if must_save(before.state, step.state):
            self._publish(step.events)
        self.woken.set()
        return step

    def _warn_once(self, trouble: str | None) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            if trouble is not None:
                self._log.warning("broker_waits", reason=trouble)

    def _publish(self, events: Iterable[BrokerEvent]) -> None:
        for event in events:
            is_notice = event.kind in HOLDER_NOTICES
            facts = {"id": event.id, "user": event.user, "message": event.message}
            if event.reason is not None:
                facts["reason"] = str(event.reason)
            write = self._log.warning if is_notice else self._log.info
            write(f"broker_{event.kind}", **facts)
            if is_notice:
                messages = self._messages.setdefault(event.id, deque(maxlen=_MESSAGES_KEPT))
                messages.append(event.message)
            elif event.kind is EventKind.ENDED:
                self._messages.pop(event.id, None)
            self.listener(event)
