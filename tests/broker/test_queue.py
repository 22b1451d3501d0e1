"""Order of tickets: strictly in turn, and by backfill if no one is delayed."""

from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker_node import Running, World, hgx, ticket
from readings import GIBIBYTE, HOUR
from rightsizer.broker.lease import GpuRequest, LeaseRecord, Reservation, Ticket
from rightsizer.broker.queue import QueuePass, record_of, serve_queue
from rightsizer.broker.scheduling_state import SchedulingState
from rightsizer.broker.settings import BrokerSettings, GpuPlacementSettings
from rightsizer.broker.state import Booking

SETTINGS = BrokerSettings()
HOURS = 3600.0


def scheduling(
    world: World, *records: LeaseRecord, now: int = 0, bookings: tuple[Booking, ...] = ()
) -> SchedulingState:
    """The node with its leases."""
    return SchedulingState(now, world.observe(), records, bookings, GpuPlacementSettings())


def leased(name: str, *indices: int, hours: float | None = 1.0) -> LeaseRecord:
    """A lease of whole GPUs, granted at 0."""
    limit = None if hours is None else hours * HOURS
    wanted = ticket(name, len(indices), limit_seconds=limit)
    uuids = [f"GPU-{index}" for index in indices]
    return record_of(wanted, uuids, scheduling(World(hgx())))


def served(
    tickets: list[Ticket], node: SchedulingState, settings: BrokerSettings = SETTINGS
) -> list[str]:
    """The granted ids."""
    return [grant.id for grant in serve_queue(tickets, node, settings).grants]


def test_tickets_are_served_in_order_as_long_as_there_is_room() -> None:
    """Each gets GPUs of its own."""
    tickets = [ticket("a", 4), ticket("b", 3), ticket("c", 1)]
    found = serve_queue(tickets, scheduling(World(hgx())), SETTINGS)
    assert [grant.id for grant in found.grants] == ["a", "b", "c"]
    assert len({uuid for grant in found.grants for uuid in grant.lease.uuids}) == 8


def test_a_short_ticket_goes_ahead_of_one_that_waits_longer() -> None:
    """It ends before the first can begin."""
    node = scheduling(World(hgx()), leased("runs", 0, 1, 2, 3, hours=2))
    tickets = [ticket("big", 8, limit_seconds=HOURS), ticket("short", 4, limit_seconds=2 * HOURS)]
    found = serve_queue(tickets, node, SETTINGS)
    assert [grant.id for grant in found.grants] == ["short"]
    assert found.promised is not None
    assert found.promised.at == 2 * HOUR


def test_ticket_that_would_delay_the_first_stays_behind_it() -> None:
    """A delay of one second is enough."""
    node = scheduling(World(hgx()), leased("runs", 0, 1, 2, 3, hours=2))
    tickets = [ticket("big", 8), ticket("long", 1, limit_seconds=2 * HOURS + 1)]
    assert served(tickets, node) == []


def test_a_long_one_goes_ahead_on_gpus_that_the_first_does_not_need() -> None:
    """The first needs six of eight."""
    node = scheduling(World(hgx()), leased("runs", 0, 1, 2, 3, hours=2))
    tickets = [
        ticket("big", 6),
        *(ticket(name, 1, limit_seconds=9 * HOURS) for name in ("one", "two", "three")),
    ]
    assert served(tickets, node) == ["one", "two"]


def test_nothing_goes_ahead_where_backfill_is_off() -> None:
    """In strict order."""
    node = scheduling(World(hgx()), leased("runs", 0, 1, 2, 3, hours=2))
    tickets = [ticket("big", 8), ticket("short", 1, limit_seconds=60.0)]
    assert served(tickets, node, replace(SETTINGS, backfill=False)) == []


def test_nothing_is_looked_at_beyond_the_depth() -> None:
    """The search is bounded, and the second ticket behind the first is not reached."""
    node = scheduling(World(hgx()), leased("runs", 0, 1, 2, 3, hours=2))
    tickets = [
        ticket("big", 8),
        ticket("too long", 1, limit_seconds=9 * HOURS),
        ticket("short", 1, limit_seconds=60.0),
    ]
    assert served(tickets, node, replace(SETTINGS, backfill_depth=1)) == []
    assert served(tickets, node, replace(SETTINGS, backfill_depth=2)) == ["short"]


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(lambda: scheduling(World(hgx()), leased("runs", 0, hours=None)), id="endless"),
        pytest.param(
            lambda: scheduling(World(hgx()), leased("late", 0, hours=1), now=2 * HOUR), id="late"
        ),
        pytest.param(
            lambda: scheduling(World(hgx(), outsiders={"x": Running(("GPU-3",), 10 * GIBIBYTE)})),
            id="outsider",
        ),
    ],
)
def test_short_tickets_alone_overtake_where_no_end_is_known(
    node: Callable[[], SchedulingState],
) -> None:
    """The blocking lease may end at once, and the first must not wait long then."""
    tickets = [
        ticket("big", 8),
        ticket("long", 1, limit_seconds=HOURS + 1),
        ticket("endless", 1, limit_seconds=None),
        ticket("short", 1, limit_seconds=HOURS),
    ]
    assert served(tickets, node()) == ["short"]
    assert served(tickets, node(), replace(SETTINGS, unknown_patience_seconds=0.0)) == []


def test_beside_a_lease_without_a_limit_what_is_over_in_time_goes_ahead() -> None:
    """The first cannot begin before another lease ends, whenever that one does."""
    leases = leased("endless", 0, hours=None), leased("runs", 1, 2, hours=2)
    node = scheduling(World(hgx()), *leases)
    tickets = [ticket("big", 8), ticket("short", 1, limit_seconds=2 * HOURS)]
    assert served(tickets, node) == ["short"]
    assert serve_queue(tickets, node, SETTINGS).promised is None


def test_ticket_blocked_by_a_broken_gpu_delays_no_other() -> None:
    """The others are served while it is repaired."""
    world = World(hgx(), broken={"GPU-3"})
    assert served([ticket("big", 8), ticket("small", 1)], scheduling(world)) == ["small"]


def test_one_who_holds_as_many_as_allowed_waits_and_holds_up_nobody() -> None:
    """Such tickets are skipped."""
    settings = replace(SETTINGS, maximum_leases_per_user=1)
    tickets = [ticket("a", 1), ticket("b", 1), ticket("c", 1, user="bo")]
    assert served(tickets, scheduling(World(hgx())), settings) == ["a", "c"]


def test_a_lease_that_may_last_into_a_reservation_stays_off_its_gpus() -> None:
    """A lease that ends earlier may use them."""
    wanted = Reservation("r", "bo", GpuRequest(6), 2 * HOUR, 4 * HOUR)
    booking = Booking(wanted, tuple(f"GPU-{at}" for at in range(6)), 1)
    node = scheduling(World(hgx()), bookings=(booking,))
    long = serve_queue([ticket("long", 2, limit_seconds=3 * HOURS)], node, SETTINGS)
    assert set(long.grants[0].lease.uuids) == {"GPU-6", "GPU-7"}
    assert served([ticket("big", 3, limit_seconds=3 * HOURS)], node) == []
    assert served([ticket("quick", 8, limit_seconds=2 * HOURS)], node) == ["quick"]


def test_a_ticket_of_the_reservation_gets_its_gpus_until_it_ends() -> None:
    """Whatever time it requested."""
    wanted = Reservation("r", "ada", GpuRequest(2), 0, HOUR)
    node = scheduling(World(hgx()), bookings=(Booking(wanted, ("GPU-4", "GPU-5"), 1),))
    found = serve_queue([ticket("mine", 2, reservation="r")], node, SETTINGS)
    assert found.grants[0].lease.uuids == ("GPU-4", "GPU-5")
    assert found.grants[0].lease.ends == HOUR


def test_a_shared_lease_has_its_budget_and_another_all_of_the_memory() -> None:
    """Reserved memory is unavailable to others."""
    tickets = [ticket("part", 1, memory=10, may_share=True), ticket("whole", 1, memory=10)]
    part, whole = serve_queue(tickets, scheduling(World(hgx())), SETTINGS).grants
    assert part.lease.memory_bytes == (10 * GIBIBYTE,)
    assert part.lease.is_shared
    assert whole.lease.memory_bytes == (80 * GIBIBYTE,)
    assert not whole.lease.is_shared


JOBS = st.tuples(st.sampled_from([1, 1, 2, 4, 8]), st.integers(1, 12), st.floats(0.05, 1.0))
"""GPUs, hours of the limit, and the part of it that the job uses."""


@given(st.lists(JOBS, min_size=1, max_size=25))
def test_a_promise_to_the_first_is_kept_whatever_goes_ahead(
    jobs: list[tuple[int, int, float]],
) -> None:
    """With limits that hold, the start promised to the first ticket is never postponed.

    So waiting is bounded by the limits of the earlier tickets, one after another.
    """
    for head, promised, started in _lived_through(jobs):
        assert started <= promised, head


def _lived_through(jobs: list[tuple[int, int, float]]) -> list[tuple[str, int, int]]:
    """Each ticket that was ever first, its first promise, and its start."""
    queue = [
        ticket(f"{at:02}", gpus, limit_seconds=hours * HOURS)
        for at, (gpus, hours, _) in enumerate(jobs)
    ]
    parts = {each.id: job[2] for each, job in zip(queue, jobs, strict=True)}
    running: list[tuple[int, LeaseRecord]] = []
    promises: dict[str, int] = {}
    starts: dict[str, int] = {}
    now = 0
    for _ in count():
        found = _serve(queue, running, now)
        for grant in found.grants:
            starts[grant.id] = now
            assert grant.lease.ends is not None
            lasts = round((grant.lease.ends - now) * parts[grant.id])
            running.append((now + lasts, grant))
        queue = [each for each in queue if each.id not in starts]
        if not queue:
            return [(name, at, starts[name]) for name, at in promises.items()]
        assert found.promised is not None
        promises.setdefault(queue[0].id, found.promised.at)
        now = min(end for end, _ in running)
        running = [(end, record) for end, record in running if end > now]
    raise AssertionError


def _serve(queue: list[Ticket], running: list[tuple[int, LeaseRecord]], now: int) -> QueuePass:
    records = [record for _, record in running]
    return serve_queue(queue, scheduling(World(hgx()), *records, now=now), SETTINGS)


def test_a_reservation_of_one_gpu_takes_nobody_further_ahead() -> None:
    """Tickets beyond its GPUs are queued like others, and are not skipped."""
    wanted = Reservation("r", "ada", GpuRequest(1), 0, 3 * HOUR)
    booking = Booking(wanted, ("GPU-7",), 1)
    node = scheduling(World(hgx()), leased("runs", 0, 1, 2, 3, hours=2), bookings=(booking,))
    first = ticket("first", 7, user="bo", limit_seconds=HOURS)
    assert served([first, ticket("jumps", 3, reservation="r", limit_seconds=5 * HOURS)], node) == []
    tickets = [first, ticket("mine", 1, reservation="r"), ticket("more", 1, reservation="r")]
    found = serve_queue(tickets, node, SETTINGS)
    assert [grant.id for grant in found.grants] == ["mine"]
    assert found.grants[0].lease.uuids == ("GPU-7",)
    big = ticket("big", 6, reservation="r")
    behind = ticket("behind", 3, user="bo", limit_seconds=9 * HOURS)
    assert served([big, behind], node) == []
