"""A device's states over a span: cells sum to the accounted time at every length."""

from collections import Counter
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readings import DAY, EPOCH, HOUR, MINUTE, entry
from rightsizer.accounting.device_account import DeviceWindows
from rightsizer.accounting.rollup_store import device_span
from rightsizer.model.report import SPANS, Span, span_named
from rightsizer.model.state import Cause, State

STATES: Final = (State.PRODUCTIVE, State.IDLE_HELD, State.HIDDEN_STALL)
lives = st.lists(st.tuples(st.sampled_from(STATES), st.integers(1, 300)), min_size=1, max_size=12)


def lived(pieces: list[tuple[State, int]]) -> tuple[DeviceWindows, int]:
    """A device after minutes in the given states, and the time then."""
    windows = DeviceWindows("GPU-0")
    start = 0.0
    for state, minutes in pieces:
        windows.add(entry(start, start + minutes * 60.0, state))
        start += minutes * 60.0
    return windows, EPOCH + int(start) * 10**9


def named(name: str) -> Span:
    """A span by its name."""
    span = span_named(name)
    assert span is not None
    return span


@given(lives)
def test_the_longest_span_holds_all_that_was_lived(pieces: list[tuple[State, int]]) -> None:
    """To the nanosecond: a dozen stretches of five hours are less than a month."""
    windows, now = lived(pieces)
    past = device_span(windows.rollups.window_query(), named("30d"), now)
    expected: Counter[State] = Counter()
    for state, minutes in pieces:
        expected[state] += minutes * MINUTE
    assert past.states == expected
    assert sum(sum(cell.states.values()) for cell in past.cells) == now - EPOCH
    hours = (now - EPOCH) / 1e9
    assert past.used_seconds + sum(past.waste_seconds.values()) == pytest.approx(hours)
    assert past.used_joules + sum(past.waste_joules.values()) == pytest.approx(100.0 * hours)


@given(lives, st.sampled_from(SPANS))
def test_cells_are_in_order_and_within_the_span(
    pieces: list[tuple[State, int]], span: Span
) -> None:
    """Cells do not overlap, exceed no cell's maximum length and begin within the span."""
    windows, now = lived(pieces)
    cells = device_span(windows.rollups.window_query(), span, now).cells
    assert len(cells) <= span.length // span.cell + 2
    for cell in cells:
        assert now - span.length - span.cell < cell.start < cell.end <= now
        assert cell.end - cell.start <= span.cell
        assert sum(cell.states.values()) == cell.end - cell.start
    assert all(one.end <= other.start for one, other in pairwise(cells))


@given(lives, st.sampled_from(SPANS))
def test_a_span_leaves_out_what_was_before(pieces: list[tuple[State, int]], span: Span) -> None:
    """It has no more time than the span, and lacks less than one window at its start."""
    windows, now = lived(pieces)
    past = device_span(windows.rollups.window_query(), span, now)
    known = sum(past.states.values())
    window = 5 * MINUTE if span.cell < HOUR else HOUR
    assert min(span.length, now - EPOCH) - window < known <= min(span.length, now - EPOCH)


def test_a_device_of_which_nothing_is_known_has_no_cells() -> None:
    """Before its first reading."""
    for span in SPANS:
        past = device_span(DeviceWindows("GPU-0").rollups.window_query(), span, EPOCH + DAY)
        assert (past.cells, past.states, past.used_seconds) == ((), {}, 0.0)


def test_waste_is_summed_by_its_cause() -> None:
    """The tests' entries waste three quarters, all of it headroom."""
    windows, now = lived([(State.PRODUCTIVE, 60)])
    past = device_span(windows.rollups.window_query(), named("6h"), now)
    assert past.used_seconds == pytest.approx(900.0)
    assert past.waste_seconds == {Cause.HEADROOM: pytest.approx(2700.0)}
    assert past.waste_joules == {Cause.HEADROOM: pytest.approx(270_000.0)}
