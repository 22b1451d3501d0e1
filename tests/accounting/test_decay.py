"""The current need, with the past decaying."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readings import DAY, EPOCH, HOUR
from rightsizer.accounting.device_account import DecayedDemands
from rightsizer.model.histogram import Histogram
from rightsizer.model.state import Resource, State
from rightsizer.model.window import Window


def hour(number: int, *ratios: float, length: int = HOUR) -> Window:
    """An hour of compute, divided evenly among the given ratios."""
    used = Histogram()
    for ratio in ratios:
        used.add(ratio, length // len(ratios))
    start = EPOCH + number * HOUR
    return Window(
        "GPU-0",
        start,
        start + length,
        {State.PRODUCTIVE: length},
        demands={Resource.COMPUTE: used},
    )


def demand_after(windows: list[Window]) -> float | None:
    """The compute demand after adding all entries."""
    demands = DecayedDemands()
    for window in windows:
        demands.add(window)
    return demands.demand().get(Resource.COMPUTE)


def test_unused_resource_has_no_demand() -> None:
    """It is absent, not zero."""
    assert DecayedDemands().demand() == {}
    assert demand_after([Window("GPU-0", EPOCH, EPOCH + HOUR, {State.IDLE_EMPTY: HOUR})]) is None


def test_steady_demand_is_itself() -> None:
    """However long it lasts."""
    assert demand_after([hour(n, 0.4) for n in range(100)]) == 0.4


def test_new_load_counts_at_once() -> None:
    """An hour of more load after a quiet day is demand: need grows quickly."""
    assert demand_after([*(hour(n, 0.1) for n in range(24)), hour(24, 0.8)]) == 0.8


def test_old_peak_fades_slowly() -> None:
    """A busy hour still counts a day later, but not after two weeks: need shrinks slowly."""
    peak = hour(0, 0.8)
    assert demand_after([peak, *(hour(n, 0.1) for n in range(1, 24))]) == 0.8
    assert demand_after([peak, *(hour(n, 0.1) for n in range(1, 14 * 24))]) == 0.1


def test_past_fades_while_nothing_is_used() -> None:
    """Idle days count as time."""
    idle = Window("GPU-0", EPOCH, EPOCH + 20 * DAY, {State.IDLE_EMPTY: HOUR})
    assert demand_after([hour(0, 0.8), idle, hour(20 * 24, 0.1)]) == 0.1


def test_clock_set_back_stops_no_fading() -> None:
    """A single wrong date does not keep the past alive for years."""
    wrong = hour(3000 * 24, 0.8)
    assert demand_after([wrong, *(hour(n, 0.1) for n in range(14 * 24))]) == 0.1


@given(st.lists(st.integers(0, 100), min_size=1, max_size=40))
def test_demand_lies_among_what_was_used(percents: list[int]) -> None:
    """It is never above the maximum used, nor below the minimum."""
    ratios = [percent / 100 for percent in percents]
    demand = demand_after([hour(n, ratio) for n, ratio in enumerate(ratios)])
    assert demand is not None
    assert min(ratios) <= demand <= max(ratios)


@given(
    st.lists(st.tuples(st.integers(0, 90), st.integers(0, 10)), min_size=1, max_size=40),
)
def test_more_load_never_lowers_demand(hours: list[tuple[int, int]]) -> None:
    """Adding load to any hour raises the demand or leaves it."""
    less = demand_after([hour(n, base / 100) for n, (base, _) in enumerate(hours)])
    more = demand_after([hour(n, (base + up) / 100) for n, (base, up) in enumerate(hours)])
    assert less is not None
    assert more is not None
    assert more >= less


def test_pieces_of_an_hour_weigh_like_the_hour() -> None:
    """Five-minute windows give the demand of hourly ones, up to the decay within an hour."""
    length = HOUR // 12
    pieces = [
        Window(
            "GPU-0",
            EPOCH + n * length,
            EPOCH + (n + 1) * length,
            {State.PRODUCTIVE: length},
            demands=hour(0, 0.8 if n < 12 else 0.1, length=length).demands,
        )
        for n in range(24 * 12)
    ]
    whole = [hour(n, 0.8 if n < 1 else 0.1) for n in range(24)]
    assert demand_after(pieces) == demand_after(whole) == pytest.approx(0.8)
