"""Active reservations without a lease are charged to the user they are for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker_node import TOTAL_BYTES, Running, World, client, hgx, ticket
from readings import GIBIBYTE, HOUR, MINUTE, SECOND
from rightsizer.broker.broker import Broker
from rightsizer.broker.lease import GpuRequest, Reservation
from rightsizer.broker.scheduling_state import NodeObservation
from rightsizer.broker.settings import BrokerSettings, GpuPlacementSettings
from rightsizer.broker.state import BrokerState
from rightsizer.model.device import MigInstance

SETTINGS = BrokerSettings(maximum_reservations_per_user=2)
BROKER = Broker(SETTINGS, GpuPlacementSettings())
START = BrokerState("boot")
TWO_HOURS = Reservation("r", "bo", GpuRequest(4), HOUR, 3 * HOUR)


def reserved(look: NodeObservation, wanted: Reservation = TWO_HOURS) -> BrokerState:
    """A node with one reservation."""
    step = BROKER.reserve(START, 0, wanted, client("bo"), look)
    assert not step.is_refused, step.events
    return step.state


def used(state: BrokerState, now: int) -> dict[str, float]:
    """GPU-hours by user, over a time too short for decay."""
    usage = BROKER.expire(state, now).state.usage.gpu_seconds
    return {user: each / 3600 for user, each in usage.items()}


def test_reservation_is_charged_to_its_user_from_begin_to_end() -> None:
    """From its start to its end, active or not: it keeps other users away."""
    state = reserved(World(hgx()).observe())
    assert used(state, HOUR) == {}
    assert used(state, 2 * HOUR) == {"bo": pytest.approx(4.0, rel=0.01)}
    assert used(state, 9 * HOUR) == {"bo": pytest.approx(8.0, rel=0.05)}


def test_canceled_reservation_is_charged_until_its_cancellation() -> None:
    """The time after it is not charged."""
    state = reserved(World(hgx()).observe())
    state = BROKER.cancel(state, 2 * HOUR, "r", client("bo")).state
    assert used(state, 3 * HOUR) == {"bo": pytest.approx(4.0, rel=0.01)}


def test_an_operator_who_reserves_for_another_uses_nothing() -> None:
    """It is charged to the user it is for."""
    root = replace(client("root"), uid=0)
    step = BROKER.reserve(START, 0, TWO_HOURS, root, World(hgx()).observe())
    assert used(step.state, 2 * HOUR).keys() == {"bo"}


def test_a_gpu_that_is_reserved_and_lent_is_one_gpu() -> None:
    """A lease on it is charged as a lease, and only the rest as the reservation."""
    world = World(hgx())
    state = reserved(world.observe())
    state = BROKER.ask(state, HOUR, ticket("a", 3, user="bo", reservation="r")).state
    state = BROKER.serve(state, HOUR, world.observe()).state
    assert state.rates() == {"bo": 4.0}
    world.running["a"] = Running(state.leases[0].lease.uuids, GIBIBYTE)
    part = ticket("b", user="bo", memory=20, may_share=True, reservation="r")
    state = BROKER.ask(state, HOUR, part).state
    state = BROKER.serve(state, HOUR, world.observe()).state
    assert len(state.leases) == 2
    assert sum(state.leases[1].rates.values()) == pytest.approx(20 * GIBIBYTE / TOTAL_BYTES)
    assert state.rates() == {"bo": pytest.approx(4.0)}


def test_occupied_gpu_is_not_charged_to_the_reservation() -> None:
    """An overdue lease, work without a lease, and a faulty GPU are not charged."""
    world = World(hgx())
    state = reserved(world.observe())
    (first, second, third, _) = state.bookings[0].uuids
    late = BROKER.ask(state, 0, ticket("late", user="ada", limit_seconds=600.0)).state
    late = BROKER.serve(late, 0, world.observe()).state
    record = late.leases[0]
    moved = replace(record, lease=replace(record.lease, uuids=(first,)))
    world.running["late"] = Running((first,), GIBIBYTE)
    world.outsiders["theirs"] = Running((second,), GIBIBYTE)
    world.broken.add(third)
    # All of it appeared between two steps, so that the reservation could not move.
    state = late.with_leases([moved])
    state = replace(state, as_of=HOUR)
    state = BROKER.serve(state, HOUR, world.observe()).state
    assert state.bookings[0].unavailable == (second, third)
    assert state.rates() == {"ada": 1.0, "bo": 1.0}
    world.outsiders.clear()
    world.broken.clear()
    state = BROKER.serve(state, HOUR, world.observe()).state
    assert state.rates() == {"ada": 1.0, "bo": 3.0}


def test_a_reserved_mig_instance_counts_by_its_part_of_the_gpu() -> None:
    """Like a lease on it."""
    look = World(hgx(1)).observe()
    mig = MigInstance("GPU-0", "1g.10gb", 7, 0, 1 / 7, 1 / 8)
    device = replace(look.slots[0].device, uuid="MIG-0", mig=mig, memory_total_bytes=10e9)
    look = replace(look, slots=(replace(look.slots[0], device=device),))
    state = reserved(look, replace(TWO_HOURS, request=GpuRequest(1)))
    assert replace(state, as_of=HOUR).rates() == {"bo": pytest.approx(1 / 7)}


def test_one_who_kept_gpus_for_himself_goes_behind_who_did_not() -> None:
    """Among tickets of one age; the purpose of charging."""
    world = World(hgx(4))
    state = BROKER.expire(reserved(world.observe()), 3 * HOUR).state
    wishes = (ticket("bos", 4, user="bo"), ticket("adas", 4, user="ada"))
    for wanted in wishes:
        state = BROKER.ask(state, 3 * HOUR, wanted).state
    step = BROKER.serve(state, 3 * HOUR, world.observe())
    assert [grant.id for grant in step.grants] == ["adas"]


@given(st.lists(st.integers(1, 90), min_size=1, max_size=30))
def test_it_does_not_matter_how_often_a_reservation_is_charged(minutes: list[int]) -> None:
    """At each step, or once after its end: start and end are not rounded to steps."""
    state = reserved(World(hgx()).observe())
    now = 0
    at_once = BROKER.expire(state, sum(minutes) * MINUTE + SECOND).state.usage.gpu_seconds
    for minute in minutes:
        now += minute * MINUTE
        state = BROKER.expire(state, now).state
    often = BROKER.expire(state, now + SECOND).state.usage.gpu_seconds
    assert {"bo": 0.0, **often} == pytest.approx({"bo": 0.0, **at_once}, rel=1e-9, abs=1.0)
