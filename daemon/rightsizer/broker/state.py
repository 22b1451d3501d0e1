"""State of the broker: tickets, leases, reservations, endings, fair-share usage and ranking."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.broker.lease import Lease, LeaseEnding, LeaseRecord, Reservation, Ticket
from rightsizer.broker.settings import BrokerSettings
from rightsizer.model.values import Nanoseconds, nanoseconds, seconds

_FORGOTTEN: Final = 1.0
"""GPU-seconds below which the usage of a user without a lease is dropped."""
_ENDINGS_KEPT: Final = 1000


class ShareUsage(Struct, frozen=True):
    """GPU-seconds by user, decayed to a point in time."""

    as_of: Nanoseconds = 0
    gpu_seconds: Mapping[str, float] = {}
    """Shared GPUs count by their share of reserved memory."""

    def charged(
        self, now: Nanoseconds, rates: Mapping[str, float], half_life_seconds: float
    ) -> "ShareUsage":
        """Decay and charge usage to a later time, exact regardless of the number of steps.

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
        sums = {user: used.get(user, 0.0) * kept + rates.get(user, 0.0) * added for user in users}
        remembered = {
            user: usage for user, usage in sums.items() if usage >= _FORGOTTEN or rates.get(user)
        }
        return ShareUsage(now, remembered)

    def factor(self, user: str, users: Collection[str]) -> float:
        """Fair-share factor: 1 without usage, 1/2 for an equal share, near 0 for far more.

        The node is shared by `users` and all those with usage.
        """
        if (total := sum(self.gpu_seconds.values())) <= 0:
            return 1.0
        count = len({*users, *self.gpu_seconds})
        return float(2.0 ** (-self.gpu_seconds.get(user, 0.0) / total * count))


def ranked(
    tickets: Iterable[Ticket], usage: ShareUsage, settings: BrokerSettings, now: Nanoseconds
) -> tuple[Ticket, ...]:
    """Sort tickets into serving order.

    A step of priority outweighs any fair share. Waiting for `aging_seconds` is worth a step, so
    that no ticket starves. Older tickets win ties.
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
    leases_by_uuid: dict[str, tuple[Lease, ...]] = defaultdict(tuple)
    for lease in leases:
        for uuid in lease.uuids:
            leases_by_uuid[uuid] += (lease,)
    return dict(leases_by_uuid)


class Booking(Struct, frozen=True):
    """Reservation with the slots kept free for it."""

    reservation: Reservation
    uuids: tuple[str, ...]
    uid: int
    """Uid of the client that reserved; operators may reserve for others."""
    is_at_risk: bool = False
    """Whether the user was notified that the slots will not be free in time."""
    weights: tuple[float, ...] = ()
    """Size of each slot in GPUs; empty if all are whole ones."""
    unavailable: tuple[str, ...] = ()
    """Slots of a reservation that has begun which were broken or occupied without a lease when last
    observed: others may use them."""
    replaces: str | None = None
    """Id of the lease whose lost slots it replaces; it then ends with the first lease that uses
    it."""

    @property
    def id(self) -> str:
        """Id of the reservation."""
        return self.reservation.id

    def is_within(self, start: Nanoseconds, end: Nanoseconds | None) -> bool:
        """Whether it overlaps a period; `end=None` for an open one."""
        return self.reservation.ends > start and (end is None or self.reservation.starts < end)

    def kept_from_others(self, at: Nanoseconds) -> Mapping[str, float]:
        """Blocked slots at a time, by uuid, with their size in GPUs.

        Empty before it begins: until then, work that ends in time may run there.
        """
        if not self.reservation.starts <= at < self.reservation.ends:
            return {}
        weights = self.weights or (1.0,) * len(self.uuids)
        slots = zip(self.uuids, weights, strict=True)
        return {uuid: weight for uuid, weight in slots if uuid not in self.unavailable}


class BrokerState(Struct, frozen=True):
    """Immutable state, sorted by id; only `Broker` creates new ones."""

    boot: str
    """Id of the boot that the times refer to."""
    as_of: Nanoseconds = 0
    """Latest known time; earlier ones are clamped to it."""
    tickets: tuple[Ticket, ...] = ()
    leases: tuple[LeaseRecord, ...] = ()
    bookings: tuple[Booking, ...] = ()
    usage: ShareUsage = ShareUsage()
    endings: tuple[LeaseEnding, ...] = ()
    """Latest thousand, which suffices for clients that poll every few seconds."""

    def ticket(self, ticket_id: str) -> Ticket | None:
        """Waiting ticket, or `None`."""
        return next((ticket for ticket in self.tickets if ticket.id == ticket_id), None)

    def lease(self, lease_id: str) -> LeaseRecord | None:
        """Active lease, or `None`."""
        return next(
            (lease_record for lease_record in self.leases if lease_record.id == lease_id), None
        )

    def booking(self, reservation_id: str) -> Booking | None:
        """Current or future reservation, or `None`."""
        return next((booking for booking in self.bookings if booking.id == reservation_id), None)

    def ending(self, item_id: str) -> LeaseEnding | None:
        """Recorded end of a ticket or lease; `None` if not ended by others, or long ago."""
        return next(
            (lease_ending for lease_ending in self.endings if lease_ending.id == item_id), None
        )

    def leased(self) -> Mapping[str, tuple[Lease, ...]]:
        """Leases by slot uuid."""
        return leases_by_slot(record.lease for record in self.leases)

    def rates(self) -> Mapping[str, float]:
        """GPUs that each user holds now, shared ones in part.

        Counts leases, and the unleased part of reservations that have begun.
        """
        gpus_by_user: dict[str, float] = defaultdict(float)
        leased: dict[str, float] = defaultdict(float)
        for record in self.leases:
            for uuid, rate in record.rates.items():
                gpus_by_user[record.lease.client.user] += rate
                leased[uuid] += rate
        for booking in self.bookings:
            for uuid, weight in booking.kept_from_others(self.as_of).items():
                if weight > leased[uuid]:
                    gpus_by_user[booking.reservation.user] += weight - leased[uuid]
        return dict(gpus_by_user)

    def charged(self, now: Nanoseconds, half_life_seconds: float) -> "BrokerState":
        """Advance to a later time, charging users for what they held until then."""
        until = max(now, self.as_of)
        state = self
        periods = [booking.reservation for booking in self.bookings]
        edges = {period.starts for period in periods} | {period.ends for period in periods}
        for at in (*sorted(edge for edge in edges if self.as_of < edge < until), until):
            usage = state.usage.charged(at, state.rates(), half_life_seconds)
            state = replace(state, as_of=at, usage=usage)
        return state

    def with_tickets(self, tickets: Iterable[Ticket]) -> "BrokerState":
        """Copy with other tickets."""
        return replace(self, tickets=tuple(sorted(tickets, key=lambda ticket: ticket.id)))

    def with_leases(self, leases: Iterable[LeaseRecord]) -> "BrokerState":
        """Copy with other leases."""
        return replace(self, leases=tuple(sorted(leases, key=lambda record: record.id)))

    def with_bookings(self, bookings: Iterable[Booking]) -> "BrokerState":
        """Copy with other reservations."""
        return replace(self, bookings=tuple(sorted(bookings, key=lambda booking: booking.id)))

    def with_endings(self, endings: Iterable[LeaseEnding]) -> "BrokerState":
        """Copy with other endings, limited to the latest."""
        latest = sorted(endings, key=lambda lease_ending: (lease_ending.at, lease_ending.id))[
            -_ENDINGS_KEPT:
        ]
        return replace(
            self, endings=tuple(sorted(latest, key=lambda lease_ending: lease_ending.id))
        )

    def joined_by(self, leases: Iterable[Lease]) -> "BrokerState":
        """Add leases recovered from the environments of running processes.

        They are unverified: if two claim a slot that not both share, or a slot of a known lease,
        the older wins, and the other's processes count as without a lease. Several with one id
        count once, by the oldest process.
        """
        kept = list(self.leases)
        by_age = sorted(leases, key=lambda lease: (lease.client.started_ticks, lease.id))
        for recovered in by_age:
            is_whole = bool(recovered.uuids) and len(recovered.uuids) == len(recovered.memory_bytes)
            rivals = [record for record in kept if set(recovered.uuids) & set(record.lease.uuids)]
            all_share = recovered.is_shared and all(rival.lease.is_shared for rival in rivals)
            is_known = any(record.id == recovered.id for record in kept)
            if is_whole and not is_known and (all_share or not rivals):
                now = self.as_of
                count = len(recovered.uuids)
                lease = replace(recovered, asked=now, granted=now)
                kept.append(LeaseRecord(lease, (1.0,) * count, (None,) * count, now, now))
        return self.with_leases(kept)
