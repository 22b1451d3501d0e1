"""All that the broker knows: who waits, who has what, what is kept free, who used how much."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from rightsizer.domain.units import Nanoseconds
from rightsizer.placement.ending import Ending
from rightsizer.placement.fair_share import Usage
from rightsizer.placement.lease import Lease, Reservation, Ticket
from rightsizer.placement.lease_record import FoundLease, LeaseRecord

__all__ = ["Booking", "BrokerState"]

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
    usage: Usage = field(default_factory=Usage)
    endings: tuple[Ending, ...] = ()
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

    def ending(self, item_id: str) -> Ending | None:
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

    def with_endings(self, endings: Iterable[Ending]) -> "BrokerState":
        """The state with these endings, as far as they are kept, in place of its own."""
        latest = sorted(endings, key=lambda each: (each.at, each.id))[-_ENDINGS_KEPT:]
        return replace(self, endings=tuple(sorted(latest, key=lambda each: each.id)))

    def joined_by(self, found: Iterable[FoundLease]) -> "BrokerState":
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
        boot: str, now: Nanoseconds, found: Iterable[FoundLease], usage: Usage | None = None
    ) -> "BrokerState":
        """What can be known without a store: the leases that running processes carry.

        Tickets and reservations are gone; clients that still wait ask again.

        Args:
            boot: The machine's boot.
            now: CLOCK_BOOTTIME.
            found: As `joined_by` takes them.
            usage: Where it could be saved.
        """
        usage = Usage(now) if usage is None else usage.moved(now)
        return BrokerState(boot, now, usage=usage).joined_by(found)
