"""Schedule of a round: all collectors while time allows, otherwise in turns."""

from hypothesis import given
from hypothesis import strategies as st

from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.telemetry.nvml.collectors import COLLECTORS
from rightsizer.telemetry.nvml.device_collectors import ScheduledCollector, schedule

SECOND = NANOSECONDS_PER_SECOND
COSTS = st.lists(st.floats(0.0, 5.0), min_size=1, max_size=20)


def items_of(costs: list[float]) -> list[ScheduledCollector]:
    """Collectors with the given costs, which ran at second 0."""
    return [ScheduledCollector(COLLECTORS[0], run_at=0, seconds=cost) for cost in costs]


def scheduled(items: list[ScheduledCollector]) -> list[bool]:
    """Collectors chosen for a round."""
    return [item.is_scheduled for item in items]


def test_all_that_is_due_is_asked_where_it_fits() -> None:
    """In this usual case none is omitted, and none runs before it is due."""
    items = items_of([0.1, 0.2, 0.05])
    items[2].due = 2 * SECOND

    assert schedule(items, 0.31, SECOND) == []
    assert scheduled(items) == [True, True, False]


def test_slow_collector_yields_to_the_others() -> None:
    """It alone runs less often: after ten times its own cost, and then once."""
    items = items_of([3.0, 0.01, 0.01])

    assert schedule(items, 0.4, 29 * SECOND) == [items[0]]
    assert scheduled(items) == [False, True, True]
    assert schedule(items, 0.4, 30 * SECOND) == []
    assert scheduled(items) == [True, True, True]
    assert [item.ignores_budget for item in items] == [True, False, False]


def test_collector_never_run_goes_first() -> None:
    """Its cost is unknown."""
    items = items_of([0.3, 0.0])
    items[1].run_at = None

    schedule(items, 0.2, SECOND)

    assert scheduled(items) == [False, True]


@given(COSTS, st.floats(-5.0, 1.0), st.integers(0, 600))
def test_a_round_keeps_to_its_time_but_for_one(
    costs: list[float], left_seconds: float, at: int
) -> None:
    """The chosen collectors fit into the time, except for one that has waited.

    The schedule reports all others as postponed.
    """
    items = items_of(costs)

    postponed = schedule(items, left_seconds, at * SECOND)

    overtime = [item for item in items if item.ignores_budget]
    assert len(overtime) <= 1
    fitting = [
        item.seconds
        for item in items
        if item.is_scheduled and not item.ignores_budget and item.seconds > 0.0001
    ]
    assert sum(fitting) <= max(0.0, left_seconds) + 1e-9
    assert {id(item) for item in items if not item.is_scheduled} == {id(item) for item in postponed}


@given(COSTS, st.floats(-5.0, 1.0))
def test_none_is_left_out_forever(costs: list[float], left_seconds: float) -> None:
    """However little time there is, each gets its turn repeatedly."""
    items = items_of(costs)
    counts = [0] * len(items)
    now = 0
    for _ in range(60 * len(items) + 200):
        schedule(items, left_seconds, now)
        for place, item in enumerate(items):
            if item.is_scheduled:
                counts[place] += 1
                item.record_run(now, item.seconds)
        now += round((1.0 + sum(item.seconds for item in items if item.is_scheduled)) * SECOND)

    assert min(counts) >= 2


@given(COSTS)
def test_none_is_left_out_where_essential_ones_take_all_the_time(costs: list[float]) -> None:
    """Then only the one that ignores the budget runs in a round; those never run come first."""
    items = items_of(costs)
    for item in items:
        item.run_at = None
        item.seconds = 0.0
    counts = [0] * len(items)
    now = 0
    for _ in range(60 * len(items) + 200):
        schedule(items, -0.6, now)
        for place, item in enumerate(items):
            if item.ignores_budget:
                counts[place] += 1
                item.record_run(now, costs[place])
        now += 2 * SECOND

    assert min(counts) >= 2


def test_collector_that_hung_once_is_retried_soon() -> None:
    """An hour's hang is not waited for tenfold, unless it happens twice.

    For any hang, the pause is at most five minutes.
    """
    item = ScheduledCollector(COLLECTORS[0])
    item.record_run(0, 0.001)
    item.record_run(3600 * SECOND, 3600.0)

    assert schedule([item], 0.4, 3629 * SECOND) == [item]
    assert schedule([item], 0.4, 3630 * SECOND) == []
    item.record_run(7300 * SECOND, 3600.0)
    assert schedule([item], 0.4, 7599 * SECOND) == [item]
    assert schedule([item], 0.4, 7600 * SECOND) == []
    item.record_run(7600 * SECOND, 0.001)
    assert schedule([item], 0.4, 7601 * SECOND) == []
