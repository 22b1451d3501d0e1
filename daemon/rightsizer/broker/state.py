"""State of the broker: tickets, leases, reservations, endings, usage per user and its ranking."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from rightsizer.broker.lease import (
    Lease,
    LeaseEnding,
    LeaseRecord,
    RecoveredLease,
    Reservation,
    Ticket,
)
from rightsizer.broker.settings import BrokerSettings
from rightsizer.model.units import Nanoseconds, nanoseconds, seconds

_FORGOTTEN: Final = 1.0
"""GPU-seconds below which somebody who holds nothing has used nothing."""


@dataclass(frozen=True, slots=True)
class ShareUsage:
    """GPU-seconds by user, decayed up to some moment."""

    as_of: Nanoseconds = 0
    gpu_seconds: Mapping[str, float] = field(default_factory=dict)
    """Of a shared GPU the part of its memory that was set aside; of a MIG instance its part."""

    def charged(
        self, now: Nanoseconds, rates: Mapping[str, float], half_life_seconds: float
    ) -> "ShareUsage":
        """The usage at a later moment.

        The integral is exact, so that it does not matter how often this is asked.

        Args:
            now: Until when; nothing happens where that is not later.
            rates: GPUs that each user held all the time since, shared ones in part.
            half_life_seconds: In which usage decays by half.
        """
        elapsed = seconds(now - self.as_of)
        if elapsed <= 0:
            return self
        kept = 2.0 ** (-elapsed / half_life_seconds)
        life = half_life_seconds / math.log(2)
        added = life * -math.expm1(-elapsed / life)
        users = sorted({*self.gpu_seconds, *(user for user, rate in rates.items() if rate > 0)})
        sums = {
            user: self.gpu_seconds.get(user, 0.0) * kept + rates.get(user, 0.0) * added
            for user in users
        }
        return ShareUsage(
            now,
            {user: sums[user] for user in users if sums[user] >= _FORGOTTEN or rates.get(user)},
        )

    def moved(self, now: Nanoseconds) -> "ShareUsage":
        """The same as of another clock's moment."""
        return ShareUsage(now, self.gpu_seconds)

    def factor(self, user: str, users: Collection[str]) -> float:
        """1 for somebody who used nothing, 1/2 for his due part, nearly 0 for far more.

        Args:
            user: Whose.
            users: All among whom the node is divided; those with usage are of them anyway.
        """
        total = sum(self.gpu_seconds.values())
        if total <= 0:
            return 1.0
        count = len({*users, *self.gpu_seconds})
        return float(2.0 ** (-self.gpu_seconds.get(user, 0.0) / total * count))


def ranked(
    tickets: Iterable[Ticket], usage: ShareUsage, settings: BrokerSettings, now: Nanoseconds
) -> tuple[Ticket, ...]:
    """Tickets in the order in which they are served.

    A step of priority goes before any fair share, and waiting for `aging_seconds` is worth a
    step, so that every ticket is some day before all that come after it. Of equal ones the older
    is first, then that with the smaller id; the order that they come in does not matter.
    """
    waiting = tuple(tickets)
    users = {ticket.client.user for ticket in waiting}
    factors = {user: usage.factor(user, users) for user in users}
    aging = nanoseconds(settings.aging_seconds)

    def key(ticket: Ticket) -> tuple[float, Nanoseconds, str]:
        waited = max(0, now - ticket.asked) / aging
        fair = settings.fair_share_weight * factors[ticket.client.user]
        return -(ticket.priority + waited + fair), ticket.asked, ticket.id

    return tuple(sorted(waiting, key=key))


_ENDINGS_KEPT: Final = 1000


@dataclass(frozen=True, slots=True)
class Booking:
    """A reservation and the seats that are kept free for it."""

    reservation: Reservation
    uuids: tuple[str, ...]
    uid: int
    """Of whoever reserved; operators may reserve for others."""
    is_at_risk: bool = False
    """Whether somebody was told that the seats will not be free in time."""
    weights: tuple[float, ...] = ()
    """What part of a GPU each seat is; empty: each is a whole one."""
    unavailable: tuple[str, ...] = ()
    """Seats of one that has begun which were broken, or had work without a lease, at the last
    look: it keeps nobody away from these."""

    @property
    def id(self) -> str:
        """The reservation's."""
        return self.reservation.id

    def is_within(self, start: Nanoseconds, end: Nanoseconds | None) -> bool:
        """Whether it has to do with a stretch of time; `None`: one without an end."""
        return self.reservation.ends > start and (end is None or self.reservation.starts < end)

    def kept_from_others(self, at: Nanoseconds) -> Mapping[str, float]:
        """By the uuid of each seat that it keeps others away from at a moment, its part of a GPU.

        None before it begins: until then whatever ends in time may be there.
        """
        if not self.reservation.starts <= at < self.reservation.ends:
            return {}
        weights = self.weights or (1.0,) * len(self.uuids)
        seats = zip(self.uuids, weights, strict=True)
        return {uuid: weight for uuid, weight in seats if uuid not in self.unavailable}


@dataclass(frozen=True, slots=True)
class BrokerState:
    """An immutable whole; only `Broker` makes new ones.

    Everything is sorted by id, so that equal states are equal values, and their order never
    matters.
    """

    boot: str
    """Of the machine's boot whose clock the times are of."""
    as_of: Nanoseconds = 0
    """The latest moment that it was told of; earlier ones are taken for this one."""
    tickets: tuple[Ticket, ...] = ()
    leases: tuple[LeaseRecord, ...] = ()
    bookings: tuple[Booking, ...] = ()
    usage: ShareUsage = field(default_factory=ShareUsage)
    endings: tuple[LeaseEnding, ...] = ()
    """The latest thousand: whoever asks about something does so every few seconds."""

    def ticket(self, ticket_id: str) -> Ticket | None:
        """A ticket that waits."""
        return next((each for each in self.tickets if each.id == ticket_id), None)

    def lease(self, lease_id: str) -> LeaseRecord | None:
        """A lease that lasts."""
        return next((each for each in self.leases if each.id == lease_id), None)

    def booking(self, reservation_id: str) -> Booking | None:
        """A reservation that is not over."""
        return next((each for each in self.bookings if each.id == reservation_id), None)

    def ending(self, item_id: str) -> LeaseEnding | None:
        """Who ended a ticket or a lease; `None` where nobody has, or long ago."""
        return next((each for each in self.endings if each.id == item_id), None)

    def leased(self) -> Mapping[str, tuple[Lease, ...]]:
        """Leases by the uuid of each seat, for `choose` and for whoever shows seats."""
        found: dict[str, tuple[Lease, ...]] = {}
        for record in self.leases:
            for uuid in record.lease.uuids:
                found[uuid] = (*found.get(uuid, ()), record.lease)
        return found

    def rates(self) -> Mapping[str, float]:
        """GPUs that each user holds as of the state, shared ones in part.

        By his leases, and by reservations that have begun: of these what no lease has. So no seat
        that is reserved counts for more than itself, whoever draws on it.
        """
        found: dict[str, float] = {}
        lent: dict[str, float] = {}
        for record in self.leases:
            user = record.lease.client.user
            found[user] = found.get(user, 0.0) + record.rate
            for uuid, rate in record.rates.items():
                lent[uuid] = lent.get(uuid, 0.0) + rate
        for booking in self.bookings:
            user = booking.reservation.user
            for uuid, weight in booking.kept_from_others(self.as_of).items():
                kept = weight - lent.get(uuid, 0.0)
                if kept > 0:
                    found[user] = found.get(user, 0.0) + kept
        return found

    def charged(self, now: Nanoseconds, half_life_seconds: float) -> "BrokerState":
        """The state at a later moment, everybody charged for what he held until then.

        Args:
            now: Until when; one before `as_of` counts as that.
            half_life_seconds: In which usage decays by half.
        """
        until, state = max(now, self.as_of), self
        edges = {
            edge
            for each in self.bookings
            for edge in (each.reservation.starts, each.reservation.ends)
        }
        for at in (*sorted(edge for edge in edges if self.as_of < edge < until), until):
            usage = state.usage.charged(at, state.rates(), half_life_seconds)
            state = replace(state, as_of=at, usage=usage)
        return state

    def with_tickets(self, tickets: Iterable[Ticket]) -> "BrokerState":
        """The state with these tickets in place of its own."""
        return replace(self, tickets=tuple(sorted(tickets, key=lambda each: each.id)))

    def with_leases(self, leases: Iterable[LeaseRecord]) -> "BrokerState":
        """The state with these leases in place of its own."""
        return replace(self, leases=tuple(sorted(leases, key=lambda each: each.id)))

    def with_bookings(self, bookings: Iterable[Booking]) -> "BrokerState":
        """The state with these reservations in place of its own."""
        return replace(self, bookings=tuple(sorted(bookings, key=lambda each: each.id)))

    def with_endings(self, endings: Iterable[LeaseEnding]) -> "BrokerState":
        """The state with these endings, as far as they are kept, in place of its own."""
        latest = sorted(endings, key=lambda each: (each.at, each.id))[-_ENDINGS_KEPT:]
        return replace(self, endings=tuple(sorted(latest, key=lambda each: each.id)))

    def joined_by(self, found: Iterable[RecoveredLease]) -> "BrokerState":
        """The state with leases that only running processes tell of.

        Processes say so themselves, and are believed only as far as they contradict neither one
        another nor what is known: of two that claim a seat that not both share, the older one has
        it, and the other is an outsider, whose processes are seen on the seat and respected there.

        Args:
            found: In any order; several of one id count once, by the oldest process.
        """
        kept = list(self.leases)
        for each in sorted(found, key=lambda each: (each.client.started_ticks, each.id)):
            is_whole = bool(each.uuids) and len(each.uuids) == len(each.memory_bytes)
            rivals = [record for record in kept if set(each.uuids) & set(record.lease.uuids)]
            all_share = each.is_shared and all(rival.lease.is_shared for rival in rivals)
            is_known = any(record.id == each.id for record in kept)
            if is_whole and not is_known and (all_share or not rivals):
                kept.append(LeaseRecord.rebuilt(each, self.as_of))
        return self.with_leases(kept)

    @staticmethod
    def rebuilt(
        boot: str,
        now: Nanoseconds,
        found: Iterable[RecoveredLease],
        usage: ShareUsage | None = None,
    ) -> "BrokerState":
        """What can be known without a store: the leases that running processes carry.

        Tickets and reservations are gone; clients that still wait ask again.

        Args:
            boot: The machine's boot.
            now: CLOCK_BOOTTIME.
            found: As `joined_by` takes them.
            usage: Where it could be saved.
        """
        usage = ShareUsage(now) if usage is None else usage.moved(now)
        return BrokerState(boot, now, usage=usage).joined_by(found)
