"""State of the broker: tickets, leases, reservations, endings, usage per user and its ranking."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from rightsizer.broker.lease import Lease, LeaseEnding, LeaseRecord, Reservation, Ticket
from rightsizer.broker.settings import BrokerSettings
from rightsizer.model.frozen import dataclass, field, replace
from rightsizer.model.units import Nanoseconds, nanoseconds, seconds

_FORGOTTEN: Final = 1.0
"""GPU-seconds below which a user without a lease counts as one without usage."""
_ENDINGS_KEPT: Final = 1000


@dataclass(frozen=True, slots=True)
class ShareUsage:
    """GPU-seconds by user, decayed up to some moment."""

    as_of: Nanoseconds = 0
    gpu_seconds: Mapping[str, float] = field(default_factory=dict)
    """Of a shared GPU by the part of its memory that was set aside."""

    def charged(
        self, now: Nanoseconds, rates: Mapping[str, float], half_life_seconds: float
    ) -> "ShareUsage":
        """The usage at a later moment, exact however often it is computed.

        An earlier `now` changes nothing; `rates` are the GPUs that each user held all the time
        since, shared ones in part.
        """
        if (elapsed := seconds(now - self.as_of)) <= 0:
            return self
        kept = 2.0 ** (-elapsed / half_life_seconds)
        life = half_life_seconds / math.log(2)
        added = life * -math.expm1(-elapsed / life)
        used = self.gpu_seconds
        users = sorted({*used, *(user for user, rate in rates.items() if rate > 0)})
        sums = {each: used.get(each, 0.0) * kept + rates.get(each, 0.0) * added for each in users}
        known = {each: sum_ for each, sum_ in sums.items() if sum_ >= _FORGOTTEN or rates.get(each)}
        return ShareUsage(now, known)

    def factor(self, user: str, users: Collection[str]) -> float:
        """1 for a user without usage, 1/2 for an equal share, nearly 0 for far more.

        `users` and those with usage share the node.
        """
        if (total := sum(self.gpu_seconds.values())) <= 0:
            return 1.0
        count = len({*users, *self.gpu_seconds})
        return float(2.0 ** (-self.gpu_seconds.get(user, 0.0) / total * count))


def ranked(
    tickets: Iterable[Ticket], usage: ShareUsage, settings: BrokerSettings, now: Nanoseconds
) -> tuple[Ticket, ...]:
    """Tickets in the order in which they are served.

    A step of priority outweighs any fair share, and waiting for `aging_seconds` is worth a step, so
    that no ticket starves. Of equal ones the older is first.
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


def leases_by_slot(leases: Iterable[Lease]) -> Mapping[str, tuple[Lease, ...]]:
    """Leases by the uuid of each of their slots."""
    found: dict[str, tuple[Lease, ...]] = defaultdict(tuple)
    for lease in leases:
        for uuid in lease.uuids:
            found[uuid] += (lease,)
    return dict(found)


@dataclass(frozen=True, slots=True)
class Booking:
    """A reservation and the slots that are kept free for it."""

    reservation: Reservation
    uuids: tuple[str, ...]
    uid: int
    """Of the client that reserved; operators may reserve for others."""
    is_at_risk: bool = False
    """Whether its user was notified that the slots will not be free in time."""
    weights: tuple[float, ...] = ()
    """What part of a GPU each slot is; empty: each is a whole one."""
    unavailable: tuple[str, ...] = ()
    """Slots of one that has begun which were broken, or had work without a lease, at the last
    observation: others may use these."""
    replaces: str | None = None
    """Id of the lease whose holder it is kept for, because slots of that are gone; it is over with
    the first lease of it."""

    @property
    def id(self) -> str:
        """The reservation's."""
        return self.reservation.id

    def is_within(self, start: Nanoseconds, end: Nanoseconds | None) -> bool:
        """Whether it overlaps a period; `None`: one without an end."""
        return self.reservation.ends > start and (end is None or self.reservation.starts < end)

    def kept_from_others(self, at: Nanoseconds) -> Mapping[str, float]:
        """By the uuid of each slot that it blocks at a moment, its part of a GPU.

        None before it begins: until then any work that ends in time may run there.
        """
        if not self.reservation.starts <= at < self.reservation.ends:
            return {}
        weights = self.weights or (1.0,) * len(self.uuids)
        slots = zip(self.uuids, weights, strict=True)
        return {uuid: weight for uuid, weight in slots if uuid not in self.unavailable}


@dataclass(frozen=True, slots=True)
class BrokerState:
    """Immutable state, everything sorted by id; only `Broker` makes new ones."""

    boot: str
    """Of the machine's boot whose clock the times are of."""
    as_of: Nanoseconds = 0
    """The latest moment that it knows; earlier ones are taken for this one."""
    tickets: tuple[Ticket, ...] = ()
    leases: tuple[LeaseRecord, ...] = ()
    bookings: tuple[Booking, ...] = ()
    usage: ShareUsage = field(default_factory=ShareUsage)
    endings: tuple[LeaseEnding, ...] = ()
    """The latest thousand: clients poll every few seconds."""

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
        """Who ended a ticket or a lease; `None` where no one has, or long ago."""
        return next((each for each in self.endings if each.id == item_id), None)

    def leased(self) -> Mapping[str, tuple[Lease, ...]]:
        """Leases by the uuid of each slot."""
        return leases_by_slot(record.lease for record in self.leases)

    def rates(self) -> Mapping[str, float]:
        """GPUs that each user holds as of the state, shared ones in part.

        By leases, and by the unleased part of reservations that have begun.
        """
        found: dict[str, float] = defaultdict(float)
        leased: dict[str, float] = defaultdict(float)
        for record in self.leases:
            for uuid, rate in record.rates.items():
                found[record.lease.client.user] += rate
                leased[uuid] += rate
        for booking in self.bookings:
            for uuid, weight in booking.kept_from_others(self.as_of).items():
                if weight > leased[uuid]:
                    found[booking.reservation.user] += weight - leased[uuid]
        return dict(found)

    def charged(self, now: Nanoseconds, half_life_seconds: float) -> "BrokerState":
        """The state at a later moment, with users charged for what they held until then."""
        until, state = max(now, self.as_of), self
        periods = [each.reservation for each in self.bookings]
        edges = {each.starts for each in periods} | {each.ends for each in periods}
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
        """The state with the latest of these endings in place of its own."""
        latest = sorted(endings, key=lambda each: (each.at, each.id))[-_ENDINGS_KEPT:]
        return replace(self, endings=tuple(sorted(latest, key=lambda each: each.id)))

    def joined_by(self, found: Iterable[Lease]) -> "BrokerState":
        """The state with leases that only the environments of running processes describe, from now.

        They are unverified: of two that claim a slot that not both share, or a slot of a known
        lease, the older one has it, and the other's processes count as ones without a lease.
        Several of one id count once, by the oldest process.
        """
        kept = list(self.leases)
        for each in sorted(found, key=lambda each: (each.client.started_ticks, each.id)):
            is_whole = bool(each.uuids) and len(each.uuids) == len(each.memory_bytes)
            rivals = [record for record in kept if set(each.uuids) & set(record.lease.uuids)]
            all_share = each.is_shared and all(rival.lease.is_shared for rival in rivals)
            is_known = any(record.id == each.id for record in kept)
            if is_whole and not is_known and (all_share or not rivals):
                now, count = self.as_of, len(each.uuids)
                lease = replace(each, asked=now, granted=now)
                kept.append(LeaseRecord(lease, (1.0,) * count, (None,) * count, now, now))
        return self.with_leases(kept)
