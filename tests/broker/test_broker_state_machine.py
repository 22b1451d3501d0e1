"""For any sequence of events the broker leases nothing twice and loses nothing."""

from functools import partial
from typing import Any

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from broker_node import TOTAL_BYTES, Running, World, client, hgx, ticket
from readings import DAY, GIBIBYTE, HOUR, MINUTE, SECOND
from rightsizer.broker.broker import Broker
from rightsizer.broker.lease import (
    EndReason,
    EventKind,
    GpuRequest,
    LeaseObservation,
    Reservation,
    Ticket,
)
from rightsizer.broker.repository import decode_item, encode_item
from rightsizer.broker.scheduling_state import NodeObservation
from rightsizer.broker.settings import BrokerSettings, GpuPlacementSettings
from rightsizer.broker.state import BrokerState
from rightsizer.broker.transitions import BrokerTransition

PLACEMENT = GpuPlacementSettings()
BROKER = Broker(
    BrokerSettings(
        maximum_tickets_per_user=6, settling_seconds=0.0, maximum_reservations_per_user=2
    ),
    PLACEMENT,
)
USERS = st.sampled_from(["ada", "bo", "cy"])
SIZES = st.sampled_from([1, 1, 1, 2])
GPUS = 2
DEMANDS = st.sampled_from([0.05, 0.1])
WISHES = st.builds(
    partial(ticket, ""),
    gpus=SIZES,
    user=USERS,
    memory=st.sampled_from([None, 20, 40, 60]),
    may_share=st.sampled_from([False, True, True]),
    limit_seconds=st.one_of(st.none(), st.sampled_from([60.0, 3600.0, 4 * 3600.0])),
    priority=st.integers(-10, 0),
)


class LifeOfABroker(RuleBasedStateMachine):
    """All possible clients, and a record of promises."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(hgx(GPUS))
        self.state = BrokerState("0")
        self.now = 0
        self.waiting: set[str] = set()
        self.holding: set[str] = set()
        self.over: set[str] = set()
        self.count = 0

    @initialize(start=st.integers(0, DAY))
    def begin(self, start: int) -> None:
        """Some time after the boot."""
        self.now = start
        self.state = BrokerState("0", start)

    @rule(wanted=WISHES)
    def ask(self, wanted: Ticket) -> None:
        """Request GPUs."""
        name = self._name()
        step = BROKER.ask(self.state, self.now, replace(wanted, id=name), self.world.observe())
        if not step.is_refused:
            self.waiting.add(name)
        self._follow(step)
        self._serve()

    @rule(chance=st.randoms(use_true_random=False))
    def serve(self, chance: Any) -> None:
        """Run a step; the order of slots and observations does not matter."""
        look = self.world.observe()
        observations = self.world.observations(self.state)
        observations = {
            **observations,
            **{name: LeaseObservation(is_alive=True) for name in self.waiting},
        }
        slots = list(look.slots)
        seen = list(observations.items())
        chance.shuffle(slots)
        chance.shuffle(seen)
        step = BROKER.turn(self.state, self.now, observations, look)
        shuffled = NodeObservation(tuple(slots), look.topology)
        assert BROKER.turn(self.state, self.now, dict(seen), shuffled).state == step.state
        self._serve()

    @rule(pick=st.integers(0, 99), memory=st.sampled_from([5, 10, 20, 45]), demand=DEMANDS)
    @precondition(lambda self: self.holding)
    def work(self, pick: int, memory: int, demand: float) -> None:
        """Let a lease's processes use as much memory as reserved, less, or more."""
        name = self._picked(self.holding, pick)
        record = self.state.lease(name)
        assert record is not None
        self.world.running[name] = Running(record.lease.uuids, memory * GIBIBYTE, demand)

    @rule(pick=st.integers(0, 99))
    @precondition(lambda self: self.holding)
    def die(self, pick: int) -> None:
        """End a lease's processes; the next step notices."""
        self.world.running.pop(self._picked(self.holding, pick), None)

    @rule(pick=st.integers(0, 99))
    @precondition(lambda self: self.holding)
    def give_back(self, pick: int) -> None:
        """Return a lease."""
        name = self._picked(self.holding, pick)
        self.world.running.pop(name, None)
        self._follow(BROKER.end(self.state, self.now, name))

    @rule(pick=st.integers(0, 99))
    @precondition(lambda self: self.waiting)
    def withdraw(self, pick: int) -> None:
        """Withdraw a ticket."""
        self._follow(BROKER.end(self.state, self.now, self._picked(self.waiting, pick)))

    @rule(index=st.integers(0, GPUS - 1), memory=st.sampled_from([5, 20, 40]))
    def intrude(self, index: int, memory: int) -> None:
        """Start a process without a lease."""
        self.world.outsiders[f"GPU-{index}"] = Running((f"GPU-{index}",), memory * GIBIBYTE)

    @rule(index=st.integers(0, GPUS - 1))
    def leave(self, index: int) -> None:
        """End a process without a lease."""
        self.world.outsiders.pop(f"GPU-{index}", None)

    @rule(index=st.integers(0, GPUS - 1))
    def break_or_mend(self, index: int) -> None:
        """Let a GPU fall off the bus, or return."""
        self.world.broken ^= {f"GPU-{index}"}

    @rule(
        gpus=SIZES,
        begins=st.sampled_from([0, 1, 30, 200]),
        lasts=st.sampled_from([1, 60, 600]),
        user=USERS,
    )
    def reserve(self, gpus: int, begins: int, lasts: int, user: str) -> None:
        """Reserve GPUs for later."""
        starts = self.now + begins * MINUTE
        wanted = Reservation(self._name(), user, GpuRequest(gpus), starts, starts + lasts * MINUTE)
        self._follow(
            BROKER.reserve(self.state, self.now, wanted, client(user), self.world.observe())
        )
        self._serve()

    @rule(pick=st.integers(0, 99))
    @precondition(lambda self: self.state.bookings)
    def draw(self, pick: int) -> None:
        """Request GPUs of a reservation."""
        booking = self.state.bookings[pick % len(self.state.bookings)]
        wanted = booking.reservation
        name = self._name()
        drawn = ticket(name, wanted.request.gpus, wanted.user, reservation=wanted.id)
        step = BROKER.ask(self.state, self.now, drawn, self.world.observe())
        if not step.is_refused:
            self.waiting.add(name)
        self._follow(step)

    @rule(pick=st.integers(0, 99))
    @precondition(lambda self: self.state.bookings)
    def cancel(self, pick: int) -> None:
        """Cancel a reservation."""
        booking = self.state.bookings[pick % len(self.state.bookings)]
        self._follow(BROKER.cancel(self.state, self.now, booking.id))

    @rule(minutes=st.sampled_from([-5, 1, 30, 300]))
    def pass_time(self, minutes: int) -> None:
        """Let time pass; the broker is also given an earlier time."""
        before = self.now
        self.now += minutes * MINUTE
        self._follow(BROKER.expire(self.state, self.now))
        self.now = max(before, self.now)
        self._serve()

    @rule()
    def restart(self) -> None:
        """Kill the agent; only its saved state remains."""
        saved = replace(
            self.state,
            tickets=tuple(_stored("ticket", each) for each in self.state.tickets),
            leases=tuple(_stored("lease", lease) for lease in self.state.leases),
            bookings=tuple(_stored("reservation", booking) for booking in self.state.bookings),
        )
        self._follow(BROKER.after_restart(saved, self.now, self.state.boot))

    @rule(minutes=st.integers(1, 600))
    def reboot(self, minutes: int) -> None:
        """Reboot the machine: its clock at 0, its processes gone."""
        shift = -self.now - minutes * MINUTE
        self.now = 10 * SECOND
        self.world.running.clear()
        boot = str(int(self.state.boot) + 1)
        step = BROKER.after_restart(self.state, self.now, boot, shift)
        assert {event.reason for event in step.events} <= {EndReason.REBOOTED, None}
        self._follow(step)
        assert not self.waiting
        assert not self.holding

    @invariant()
    def every_lease_has_its_promised_gpus(self) -> None:
        """No lease or ticket is lost, returns after its end, or exists twice."""
        assert {each.id for each in self.state.tickets} == self.waiting
        assert {lease.id for lease in self.state.leases} == self.holding
        assert not self.waiting & self.holding
        assert not (self.waiting | self.holding) & self.over

    @invariant()
    def nothing_is_lent_twice(self) -> None:
        """Unless all may share it."""
        for uuid, leases in self.state.leased().items():
            assert len(leases) == 1 or all(lease.is_shared for lease in leases), uuid

    @invariant()
    def reservations_do_not_get_in_one_anothers_way(self) -> None:
        """GPUs kept for one are not kept for another at the same time."""
        for one in self.state.bookings:
            for other in self.state.bookings:
                if one.id != other.id and not (one.is_at_risk or other.is_at_risk):
                    wanted = other.reservation
                    meet = one.is_within(wanted.starts, wanted.ends)
                    assert not (meet and set(one.uuids) & set(other.uuids))

    def _serve(self) -> None:
        observations = self.world.observations(self.state)
        step = BROKER.turn(self.state, self.now, observations, self.world.observe())
        self._check_grants(step)
        self._follow(step)

    def _check_grants(self, step: BrokerTransition) -> None:
        reserve = PLACEMENT.free.shared_memory_reserve_bytes
        for grant in step.grants:
            lease = grant.lease
            for uuid in lease.uuids:
                assert uuid not in self.world.broken
                assert lease.is_shared or not self._outsider_on(uuid)
                there = [each for each in step.state.leases if uuid in each.lease.uuids]
                taken = sum(each.set_aside_on(uuid) for each in there)
                taken += self.world.outside_bytes(uuid)
                if len(there) > 1 or self._outsider_on(uuid):
                    assert taken <= TOTAL_BYTES - reserve
            for booking in step.state.bookings:
                if booking.id != lease.reservation and set(booking.uuids) & set(lease.uuids):
                    assert not booking.is_within(self.state.as_of, lease.ends)

    def _outsider_on(self, uuid: str) -> bool:
        return uuid in self.world.outsiders

    def _follow(self, step: BrokerTransition) -> None:
        """Record the response."""
        for event in step.events:
            if event.kind is EventKind.GRANTED:
                self.waiting.remove(event.id)
                self.holding.add(event.id)
            elif event.kind is EventKind.ENDED:
                assert event.reason is not None
                (self.holding if event.lease else self.waiting).remove(event.id)
                self.over.add(event.id)
        self.state = step.state

    def _name(self) -> str:
        self.count += 1
        return f"{self.count:03}"

    @staticmethod
    def _picked(names: set[str], pick: int) -> str:
        return sorted(names)[pick % len(names)]

    def teardown(self) -> None:
        """In the end, with all others gone, every ticket is granted or finally refused."""
        self.world.outsiders.clear()
        self.world.broken.clear()
        for _ in range(3 * len(self.waiting) + 3):
            self.world.running.clear()
            for record in self.state.leases:
                self._follow(BROKER.end(self.state, self.now, record.id))
            self.now += 16 * HOUR
            self._follow(BROKER.turn(self.state, self.now, {}, self.world.observe()))
        assert not self.waiting


def _stored(kind: str, item: Any) -> Any:
    return decode_item(kind, encode_item(item))


TestLifeOfABroker = LifeOfABroker.TestCase
TestLifeOfABroker.settings = hypothesis_settings(stateful_step_count=40)
