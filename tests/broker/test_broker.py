"""State transitions of the broker: grants, messages, ends and refusals."""

import pytest
from msgspec.structs import replace

from broker_node import TOTAL_BYTES, Running, World, client, hgx, ticket
from readings import DAY, GIBIBYTE, HOUR, MINUTE, SECOND
from rightsizer.broker.broker import Broker
from rightsizer.broker.lease import (
    EndReason,
    EventKind,
    GpuRequest,
    Lease,
    LeaseObservation,
    LeaseOwner,
    Reservation,
    Ticket,
)
from rightsizer.broker.settings import BrokerSettings, GpuPlacementSettings
from rightsizer.broker.state import BrokerState, ShareUsage
from rightsizer.broker.transitions import BrokerTransition
from rightsizer.model.device import MigInstance

SETTINGS = BrokerSettings(maximum_reservations_per_user=2)
BROKER = Broker(SETTINGS, GpuPlacementSettings())
START = BrokerState("boot")
ALIVE = LeaseObservation(is_alive=True, is_active=True)
DEAD = LeaseObservation(is_alive=False)
ROOT = replace(client("root"), uid=0)


def kinds(step: BrokerTransition) -> list[EventKind]:
    """The kinds of events."""
    return [event.kind for event in step.events]


def step_of(
    world: World, *tickets: Ticket, state: BrokerState = START, now: int = 0
) -> BrokerTransition:
    """Queue the tickets, and run one step."""
    for each in tickets:
        step = BROKER.ask(state, now, each, world.observe())
        assert not step.is_refused, step.events
        state = step.state
    return BROKER.serve(state, now, world.observe())


def test_a_ticket_is_granted_observed_and_given_back() -> None:
    """The life of a lease."""
    world = World(hgx())
    step = step_of(world, ticket("a", 2))
    assert kinds(step) == [EventKind.GRANTED]
    assert step.state.tickets == ()
    assert [grant.id for grant in step.grants] == ["a"]
    seen = BROKER.observe(step.state, SECOND, {"a": ALIVE})
    assert kinds(seen) == []
    over = BROKER.end(seen.state, HOUR, "a", client())
    assert over.events[0].reason is EndReason.GIVEN_BACK
    assert over.state.leases == ()
    assert over.state.usage.gpu_seconds["ada"] == pytest.approx(7200, rel=0.01)


def test_a_lease_ends_when_its_last_process_is_gone() -> None:
    """No one has to return it."""
    state = BROKER.observe(step_of(World(hgx()), ticket("a")).state, SECOND, {"a": ALIVE}).state
    step = BROKER.observe(state, 2 * SECOND, {"a": DEAD})
    assert step.events[0].reason is EndReason.DIED
    assert step.state.leases == ()


def test_a_client_that_takes_a_lease_and_vanishes_frees_it_at_once() -> None:
    """Unless the settings allow time for another process to start."""
    state = step_of(World(hgx()), ticket("a")).state
    step = BROKER.observe(state, SECOND, {"a": DEAD})
    assert step.events[0].reason is EndReason.DIED
    patient = Broker(replace(SETTINGS, start_grace_seconds=60.0), GpuPlacementSettings())
    step = patient.observe(state, 59 * SECOND, {"a": DEAD})
    assert kinds(step) == []
    step = patient.observe(step.state, MINUTE, {"a": DEAD})
    assert step.events[0].reason is EndReason.DIED


@pytest.mark.parametrize("observation", [None, LeaseObservation()])
def test_nothing_ends_because_nobody_could_look(observation: LeaseObservation | None) -> None:
    """Unknown is not dead."""
    observations = {} if observation is None else {"a": observation, "b": observation}
    state = step_of(World(hgx()), ticket("a", 8), ticket("b", 8)).state
    step = BROKER.observe(state, DAY, observations)
    assert [lease.id for lease in step.state.leases] == ["a"]
    assert [each.id for each in step.state.tickets] == ["b"]


def test_a_ticket_whose_client_is_gone_is_withdrawn() -> None:
    """The next in the queue takes its place."""
    state = step_of(World(hgx()), ticket("a", 8), ticket("b", 8)).state
    step = BROKER.observe(state, SECOND, {"b": DEAD})
    assert step.events[0].reason is EndReason.WITHDRAWN
    assert step.state.tickets == ()


def test_past_its_limit_a_holder_is_reported_once_and_keeps_the_gpus() -> None:
    """Nothing is killed or reassigned; the lease ends later as expired."""
    world = World(hgx())
    state = step_of(world, ticket("a", 8, limit_seconds=60.0), ticket("b", 1)).state
    step = BROKER.turn(state, 2 * MINUTE, {"a": ALIVE}, world.observe())
    assert kinds(step) == [EventKind.TIME_UP]
    step = BROKER.turn(step.state, 3 * MINUTE, {"a": ALIVE}, world.observe())
    assert kinds(step) == []
    assert [each.id for each in step.state.tickets] == ["b"]
    over = BROKER.turn(step.state, 4 * MINUTE, {"a": DEAD}, world.observe())
    assert over.events[0].reason is EndReason.TIME_UP
    assert kinds(over) == [EventKind.ENDED, EventKind.GRANTED]


def test_a_holder_that_does_nothing_is_reported_once_until_it_works_again() -> None:
    """After an hour without work; unobserved time is not idle."""
    idle = LeaseObservation(is_alive=True, is_active=False)
    state = BROKER.observe(step_of(World(hgx()), ticket("a")).state, 0, {"a": ALIVE}).state
    step = BROKER.observe(state, HOUR, {"a": idle})
    assert kinds(step) == [EventKind.IDLE]
    step = BROKER.observe(step.state, HOUR + SECOND, {"a": idle})
    assert kinds(step) == []
    step = BROKER.observe(step.state, HOUR + MINUTE, {"a": ALIVE})
    step = BROKER.observe(step.state, 2 * HOUR, {"a": LeaseObservation(is_alive=True)})
    step = BROKER.observe(step.state, 3 * HOUR - SECOND, {"a": idle})
    assert kinds(step) == []
    assert kinds(BROKER.observe(step.state, 3 * HOUR, {"a": idle})) == [EventKind.IDLE]


def test_a_second_lease_joins_a_shared_gpu_once_the_first_was_measured() -> None:
    """If the memory and needs of both fit."""
    world = World(hgx(1))
    state = step_of(world, ticket("a", memory=30, may_share=True)).state
    world.running["a"] = Running(("GPU-0",), 20 * GIBIBYTE)
    state = BROKER.ask(state, MINUTE, ticket("b", memory=30, may_share=True)).state
    step = BROKER.turn(state, MINUTE, world.observations(state), world.observe())
    assert step.grants == ()
    step = BROKER.turn(step.state, 10 * MINUTE, world.observations(state), world.observe())
    assert [grant.id for grant in step.grants] == ["b"]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (ticket("b", memory=50, may_share=True), "memory"),
        (ticket("b", memory=10), "leased"),
        (ticket("b", may_share=True), "leased|memory"),
    ],
)
def test_request_that_does_not_fit_beside_a_lease_waits(wanted: Ticket, why: str) -> None:
    """Too much memory, exclusive use, or an unknown amount."""
    world = World(hgx(1))
    state = step_of(world, ticket("a", memory=30, may_share=True)).state
    world.running["a"] = Running(("GPU-0",), 20 * GIBIBYTE)
    state = BROKER.ask(state, MINUTE, wanted).state
    step = BROKER.turn(state, HOUR, world.observations(state), world.observe())
    assert step.grants == ()
    assert [each.id for each, _ in step.waiting] == ["b"]


def test_memory_beyond_the_budget_is_reported_and_set_aside() -> None:
    """Memory once used may be used again."""
    world = World(hgx(1))
    state = step_of(world, ticket("a", memory=30, may_share=True)).state
    world.running["a"] = Running(("GPU-0",), 45 * GIBIBYTE)
    step = BROKER.observe(state, SECOND, world.observations(state))
    assert kinds(step) == [EventKind.OVER_MEMORY]
    assert "45.0 GiB" in step.events[0].message
    assert step.state.leases[0].set_aside_bytes == (45 * GIBIBYTE,)
    world.running["a"] = Running(("GPU-0",), 20 * GIBIBYTE)
    state = BROKER.ask(step.state, MINUTE, ticket("b", memory=40, may_share=True)).state
    assert BROKER.turn(state, HOUR, world.observations(state), world.observe()).grants == ()
    state = BROKER.ask(step.state, MINUTE, ticket("c", memory=30, may_share=True)).state
    assert BROKER.turn(state, HOUR, world.observations(state), world.observe()).grants != ()


def test_memory_around_the_budget_is_reported_once() -> None:
    """A second message follows only after the memory stayed within the budget for five minutes."""
    world = World(hgx(1))
    state = step_of(world, ticket("a", memory=30, may_share=True)).state
    minutes = []
    for minute, gibibytes in ((0, 45), (1, 20), (2, 45), (6, 20), (7, 45), (8, 20), (13, 45)):
        world.running["a"] = Running(("GPU-0",), gibibytes * GIBIBYTE)
        step = BROKER.observe(state, minute * MINUTE, world.observations(state))
        minutes += [minute for kind in kinds(step) if kind is EventKind.OVER_MEMORY]
        state = step.state
    assert minutes == [0]
    world.running["a"] = Running(("GPU-0",), 20 * GIBIBYTE)
    state = BROKER.observe(state, 18 * MINUTE, world.observations(state)).state
    assert EventKind.OVER_MEMORY not in state.leases[0].notified
    world.running["a"] = Running(("GPU-0",), 45 * GIBIBYTE)
    assert kinds(BROKER.observe(state, 19 * MINUTE, world.observations(state))) == [
        EventKind.OVER_MEMORY
    ]


def test_memory_of_processes_without_a_lease_is_respected() -> None:
    """In addition to reserved memory, although the leases do not use theirs yet."""
    world = World(hgx(1))
    state = step_of(world, ticket("a", memory=30, may_share=True)).state
    world.running["a"] = Running(("GPU-0",), GIBIBYTE)
    world.outsiders["theirs"] = Running(("GPU-0",), 30 * GIBIBYTE)
    more = BROKER.ask(state, MINUTE, ticket("b", memory=20, may_share=True)).state
    assert BROKER.turn(more, HOUR, world.observations(state), world.observe()).grants == ()
    state = BROKER.ask(state, MINUTE, ticket("c", memory=15, may_share=True)).state
    grants = BROKER.turn(state, HOUR, world.observations(state), world.observe()).grants
    assert [grant.id for grant in grants] == ["c"]


def test_a_client_that_asks_again_gets_the_same_answer() -> None:
    """A response may be lost, but a ticket must not double."""
    world = World(hgx(1))
    state = step_of(world, ticket("a"), ticket("b")).state
    for name, kind in (("a", EventKind.GRANTED), ("b", EventKind.QUEUED)):
        step = BROKER.ask(state, SECOND, ticket(name))
        assert kinds(step) == [kind]
        assert (len(step.state.tickets), len(step.state.leases)) == (1, 1)
    assert BROKER.ask(state, SECOND, ticket("a", user="bo")).is_refused


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (ticket("x", 9), "9 GPUs are asked for, 8 of 8 can be given. Waiting does not help"),
        (ticket("x", 0), "ask for 1 or more"),
        (ticket("x", memory=-1), "30GiB"),
        (ticket("x", memory=81), "GiB"),
        (ticket("x", priority=1), "-10 to 0"),
        (ticket("x", priority=-11), "-10 to 0"),
        (ticket("x", limit_seconds=30 * 86400.0), "a limit of 30 d is too long; at most 7 d"),
        (ticket("x", limit_seconds=0.0), "more than 0 s"),
        (ticket("x", reservation="none"), "no reservation none"),
    ],
)
def test_impossible_request_is_refused_with_the_reason(wanted: Ticket, why: str) -> None:
    """Immediately, and without any change."""
    step = BROKER.ask(START, 0, wanted, World(hgx()).observe())
    assert step.is_refused
    assert why in step.events[0].message
    assert step.state == START


def test_operators_may_go_first() -> None:
    """Up to a priority of their own."""
    wanted = replace(ticket("x", priority=10), client=ROOT)
    assert not BROKER.ask(START, 0, wanted).is_refused
    assert BROKER.ask(START, 0, replace(wanted, priority=11)).is_refused


def test_a_full_queue_refuses() -> None:
    """For one user first, then for all."""
    broker = Broker(
        replace(SETTINGS, maximum_tickets=3, maximum_tickets_per_user=2), GpuPlacementSettings()
    )
    state = broker.ask(broker.ask(START, 0, ticket("a")).state, 0, ticket("b")).state
    assert "withdraw one" in broker.ask(state, 0, ticket("c")).events[0].message
    state = broker.ask(state, 0, ticket("c", user="bo")).state
    assert "ask again later" in broker.ask(state, 0, ticket("d", user="cy")).events[0].message


def test_only_owners_and_operators_end_what_somebody_has() -> None:
    """Tickets, leases and reservations alike."""
    world = World(hgx())
    state = step_of(world, ticket("a", 8), ticket("b")).state
    wanted = Reservation("r", "ada", GpuRequest(1), 2 * DAY, 3 * DAY)
    state = BROKER.reserve(state, 0, wanted, client(), world.observe()).state
    for end, name in ((BROKER.end, "a"), (BROKER.end, "b"), (BROKER.cancel, "r")):
        assert end(state, 0, name, client("bo")).is_refused
        assert end(state, 0, "nothing", client()).is_refused
        assert not end(state, 0, name, client()).is_refused
        assert not end(state, 0, name, ROOT).is_refused


def test_a_restart_on_the_same_boot_changes_nothing() -> None:
    """Unobserved time is not idle."""
    state = step_of(World(hgx()), ticket("a", 8), ticket("b")).state
    step = BROKER.after_restart(state, HOUR, "boot")
    assert step.events == ()
    assert step.state.tickets == state.tickets
    assert [lease.lease for lease in step.state.leases] == [lease.lease for lease in state.leases]
    idle = {"a": LeaseObservation(is_alive=True, is_active=False)}
    assert kinds(BROKER.observe(step.state, HOUR + MINUTE, idle)) == []


def test_a_reboot_ends_all_leases_and_tickets_and_keeps_the_rest() -> None:
    """Reservations move to the new clock; usage has decayed meanwhile."""
    world = World(hgx())
    state = step_of(world, ticket("a", 8), ticket("b"), now=DAY).state
    wanted = Reservation("r", "bo", GpuRequest(2), 3 * DAY, 4 * DAY)
    state = BROKER.reserve(state, DAY + HOUR, wanted, client("bo"), world.observe()).state
    step = BROKER.after_restart(state, MINUTE, "another", shift=-DAY - 2 * HOUR)
    assert [(event.id, event.reason) for event in step.events] == [
        ("a", EndReason.REBOOTED),
        ("b", EndReason.REBOOTED),
    ]
    assert (step.state.tickets, step.state.leases) == ((), ())
    assert step.state.bookings[0].reservation.starts == 2 * DAY - 2 * HOUR
    assert 0.9 < step.state.usage.gpu_seconds["ada"] / (8 * 3600) < 1.0
    unknown = BROKER.after_restart(state, MINUTE, "another")
    assert EventKind.CANCELED in kinds(unknown)
    assert unknown.state.bookings == ()


def recovered(
    name: str,
    owner: LeaseOwner,
    uuids: tuple[str, ...],
    memory: tuple[float, ...],
    *,
    is_shared: bool,
) -> Lease:
    """A lease as recorded by its processes."""
    request = GpuRequest(len(uuids), memory[0], is_shared)
    return Lease(name, owner, request, uuids, memory, is_shared, asked=0, granted=0, ends=None)


def test_leases_are_rebuilt_from_what_their_processes_carry() -> None:
    """Of contradicting claims, the older process decides."""
    gib = 10 * GIBIBYTE
    found = [
        recovered("late", client(pid=9), ("GPU-1",), (gib,), is_shared=False),
        recovered("early", client(pid=3), ("GPU-0", "GPU-1"), (gib, gib), is_shared=False),
        recovered("early", client(pid=4), ("GPU-5",), (gib,), is_shared=False),
        recovered("one", client("bo", 5), ("GPU-2",), (gib,), is_shared=True),
        recovered("two", client("bo", 6), ("GPU-2",), (gib,), is_shared=True),
        recovered("torn", client("bo", 7), ("GPU-3", "GPU-4"), (gib,), is_shared=True),
    ]
    empty = BrokerState("boot", HOUR, usage=ShareUsage(HOUR))
    state = empty.joined_by(found)
    assert {lease.id: lease.lease.uuids for lease in state.leases} == {
        "early": ("GPU-0", "GPU-1"),
        "one": ("GPU-2",),
        "two": ("GPU-2",),
    }
    assert empty.joined_by(reversed(found)) == state
    step = step_of(World(hgx()), ticket("a", 5), state=state, now=HOUR)
    assert set(step.grants[0].lease.uuids) == {f"GPU-{at}" for at in range(3, 8)}


def test_a_shared_lease_counts_by_its_part_of_the_memory() -> None:
    """A quarter of a GPU for an hour."""
    state = step_of(World(hgx()), ticket("a", memory=20, may_share=True)).state
    assert state.rates() == {"ada": pytest.approx(20 * GIBIBYTE / TOTAL_BYTES)}


def test_request_without_visible_gpus_waits() -> None:
    """An agent without a snapshot, or without its driver, refuses no request."""
    nobody = World(hgx(0))
    step = step_of(nobody, ticket("a", 8), ticket("b"))
    assert [each.id for each, _ in step.waiting] == ["a", "b"]
    seen = BROKER.serve(step.state, SECOND, World(hgx()).observe())
    assert [grant.id for grant in seen.grants] == ["a"]


def test_a_mig_instance_counts_by_its_part_of_the_gpu() -> None:
    """A seventh for an hour."""
    look = World(hgx(1)).observe()
    mig = MigInstance("GPU-0", "1g.10gb", 7, 0, 1 / 7, 1 / 8)
    device = replace(look.slots[0].device, uuid="MIG-0", mig=mig, memory_total_bytes=10e9)
    look = replace(look, slots=(replace(look.slots[0], device=device),))
    state = BROKER.ask(START, 0, ticket("a"), look).state
    assert BROKER.serve(state, 0, look).state.rates() == {"ada": pytest.approx(1 / 7)}
