"""Reservations: free in time, on separate GPUs, and moved if work is in the way."""

import pytest
from msgspec.structs import replace

from broker_node import Running, World, client, hgx, ticket
from readings import DAY, GIBIBYTE, HOUR, MINUTE
from rightsizer.broker.broker import Broker
from rightsizer.broker.lease import EventKind, GpuRequest, LeaseObservation, Reservation, Ticket
from rightsizer.broker.settings import BrokerSettings, GpuPlacementSettings
from rightsizer.broker.state import BrokerState
from rightsizer.broker.transitions import BrokerTransition

BROKER = Broker(BrokerSettings(maximum_reservations_per_user=2), GpuPlacementSettings())
START = BrokerState("boot")
DEAD = LeaseObservation(is_alive=False)


def kinds(step: BrokerTransition) -> list[EventKind]:
    """The kinds of events."""
    return [event.kind for event in step.events]


def step_of(
    world: World, wanted: Ticket, state: BrokerState = START, now: int = 0
) -> BrokerTransition:
    """Queue a ticket, and run one step."""
    step = BROKER.ask(state, now, wanted, world.observe())
    assert not step.is_refused, step.events
    return BROKER.serve(step.state, now, world.observe())


def test_a_reservation_is_free_in_time() -> None:
    """A lease that might last into it waits until it is over."""
    world = World(hgx())
    wanted = Reservation("r", "bo", GpuRequest(8), HOUR, 2 * HOUR)
    state = BROKER.reserve(START, 0, wanted, client("bo"), world.observe()).state
    step = step_of(world, ticket("a", limit_seconds=3601.0), state=state)
    assert step.grants == ()
    mine = ticket("mine", 8, user="bo", reservation="r")
    step = step_of(world, mine, state=step.state, now=HOUR - 1)
    assert step.grants == ()
    step = BROKER.turn(step.state, HOUR, {}, world.observe())
    assert [grant.id for grant in step.grants] == ["mine"]
    step = BROKER.turn(step.state, 2 * HOUR, {"mine": DEAD}, world.observe())
    assert kinds(step) == [
        EventKind.ENDED,
        EventKind.RESERVATION_OVER,
        EventKind.GRANTED,
    ]


def test_leased_time_cannot_be_reserved() -> None:
    """By the known limits, and forever without one."""
    world = World(hgx())
    state = step_of(world, ticket("a", 5, limit_seconds=7200.0)).state
    early = Reservation("r", "bo", GpuRequest(4), HOUR, 3 * HOUR)
    assert BROKER.reserve(state, 0, early, client("bo"), world.observe()).is_refused
    late = replace(early, starts=2 * HOUR)
    assert not BROKER.reserve(state, 0, late, client("bo"), world.observe()).is_refused


def test_a_client_that_asks_for_too_many_is_told_how_many_there_are() -> None:
    """With the number kept, in the right grammatical number."""
    world = World(hgx())
    wanted = Reservation("r", "bo", GpuRequest(7), HOUR, 2 * HOUR)
    state = BROKER.reserve(START, 0, wanted, client("bo"), world.observe()).state
    one = replace(wanted, id="one", request=GpuRequest(1))
    step = BROKER.reserve(
        state, 0, replace(one, request=GpuRequest(3)), client("bo"), world.observe()
    )
    assert "1 of 3 asked for is known to be free then" in step.events[-1].message
    step = BROKER.reserve(state, 0, one, client("bo"), world.observe())
    assert step.events[-1].message.startswith("1 GPU is kept for bo as reservation one")
    step = BROKER.reserve(step.state, 0, replace(one, id="x"), client("root"), world.observe())
    assert step.is_refused


def why_first(step: BrokerTransition) -> str:
    """The reason given to the first waiting ticket."""
    return step.waiting[0][1]


def test_a_reservation_in_the_way_is_named_with_the_limit_that_would_do() -> None:
    """The longest one; if none would do, when the reservation begins or ends."""
    world = World(hgx())
    state = START
    for name, gpus, at in (("soon", 2, 3 * HOUR), ("late", 4, 20 * HOUR + MINUTE)):
        wanted = Reservation(name, "bo", GpuRequest(gpus), at, at + HOUR)
        step = BROKER.reserve(state, 0, wanted, client("bo"), world.observe())
        assert not step.is_refused
        state = step.state
    kept = "4 are kept for reservation late of bo, which begins in 21 h; with --time-limit 20h"
    assert kept in why_first(step_of(world, ticket("a", 6, limit_seconds=86400.0), state))
    kept = "2 are kept for reservation soon of bo, which begins in 3 h; with --time-limit 3h or"
    assert kept in why_first(step_of(world, ticket("a", 8, limit_seconds=86400.0), state))
    state = step_of(world, ticket("there", limit_seconds=7200.0), state).state
    assert why_first(step_of(world, ticket("a", 8, limit_seconds=86400.0), state)).endswith(
        "kept for reservation soon of bo, which begins in 3 h"
    )
    begun = BROKER.turn(state, 3 * HOUR + 2 * MINUTE, {"there": DEAD}, world.observe())
    step = BROKER.ask(begun.state, begun.state.as_of, ticket("b", 8, limit_seconds=60.0))
    step = BROKER.serve(step.state, step.state.as_of, world.observe())
    assert why_first(step).endswith("2 are kept for reservation soon of bo, which ends in 58 min")


def test_two_reservations_do_not_get_the_same_gpus() -> None:
    """They may, one after the other."""
    world = World(hgx())
    first = Reservation("1", "bo", GpuRequest(5), HOUR, 2 * HOUR)
    state = BROKER.reserve(START, 0, first, client("bo"), world.observe()).state
    second = replace(first, id="2", starts=HOUR + MINUTE, ends=3 * HOUR)
    assert BROKER.reserve(state, 0, second, client("bo"), world.observe()).is_refused
    second = replace(second, starts=2 * HOUR)
    assert not BROKER.reserve(state, 0, second, client("bo"), world.observe()).is_refused


def test_a_reservation_moves_off_gpus_that_will_not_be_free_or_says_so() -> None:
    """A process without a lease runs there."""
    world = World(hgx())
    wanted = Reservation("r", "bo", GpuRequest(4), HOUR, 2 * HOUR)
    state = BROKER.reserve(START, 0, wanted, client("bo"), world.observe()).state
    world.outsiders["theirs"] = Running(state.bookings[0].uuids[:1], GIBIBYTE)
    step = BROKER.turn(state, MINUTE, {}, world.observe())
    assert kinds(step) == []
    assert world.outsiders["theirs"].uuids[0] not in step.state.bookings[0].uuids
    world.outsiders["more"] = Running(world.uuids[:5], GIBIBYTE)
    step = BROKER.turn(step.state, MINUTE, {}, world.observe())
    assert kinds(step) == [EventKind.AT_RISK]
    assert kinds(BROKER.turn(step.state, MINUTE, {}, world.observe())) == []


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (Reservation("r", "ada", GpuRequest(1), HOUR, 2 * HOUR), "cannot reserve for ada"),
        (Reservation("r", "bo", GpuRequest(1), HOUR, HOUR), "a length"),
        (Reservation("r", "bo", GpuRequest(1), HOUR, 4 * DAY), "the longest"),
        (Reservation("r", "bo", GpuRequest(1), 15 * DAY, 16 * DAY), "the furthest"),
        (Reservation("r", "bo", GpuRequest(9), HOUR, 2 * HOUR), "9 GPUs"),
    ],
)
def test_a_reservation_beyond_what_is_allowed_is_refused(wanted: Reservation, why: str) -> None:
    """With the reason and the allowed value."""
    step = BROKER.reserve(START, 0, wanted, client("bo"), World(hgx()).observe())
    assert step.is_refused
    assert why in step.events[0].message


def test_only_operators_reserve_unless_the_settings_allow_others() -> None:
    """A refused client is told whom to ask."""
    world = World(hgx())
    broker = Broker(BrokerSettings(), GpuPlacementSettings())
    wanted = Reservation("r", "bo", GpuRequest(1), HOUR, 2 * HOUR)
    refused = broker.reserve(START, 0, wanted, client("bo"), world.observe())
    assert refused.is_refused
    assert "reservations are for operators here" in refused.events[0].message
    root = replace(client("root"), uid=0)
    assert not broker.reserve(START, 0, wanted, root, world.observe()).is_refused


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (0, "its reservation begins in 3 h"),
        (2 * HOUR, "its reservation begins in 30 min"),
        (150 * MINUTE - 1, "its reservation begins in less than a minute"),
    ],
)
def test_one_who_waits_for_a_reservation_to_begin_is_told_when(now: int, expected: str) -> None:
    """As the last in the queue, in whole hours and minutes."""
    world = World(hgx())
    wanted = Reservation("r", "bo", GpuRequest(8), 150 * MINUTE, 4 * HOUR)
    state = BROKER.reserve(START, 0, wanted, client("bo"), world.observe()).state
    mine = ticket("mine", 8, user="bo", reservation="r")
    state = BROKER.ask(state, 0, mine, world.observe()).state
    step = step_of(world, ticket("other", limit_seconds=86400.0), state=state, now=now)
    assert [each.id for each, _ in step.waiting] == ["other", "mine"]
    assert step.waiting[-1][1] == expected
