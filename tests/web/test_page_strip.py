"""A device's history as a strip: the drawing equals the history, at any span and grain."""

import re
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publish_reports import node_report
from rightsizer.model.report import DEFAULT_SPAN, SPANS, DeviceSpan, Span, StripCell, span_named
from rightsizer.model.state import State
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.web.view.strip import (
    COARSE,
    FINE,
    STRIP_HEIGHT,
    STRIP_WIDTH,
    Grain,
    spans_of_report,
    state_times,
    strip_view,
    ticks_of,
)
from sample_devices import HOUR, NOW

MOVE: Final = re.compile(r"([MHV])([\d.]+)")
MINUTE: Final = 60 * NANOSECONDS_PER_SECOND

states_of_cells = st.lists(
    st.dictionaries(st.sampled_from(State), st.integers(1, 10**12), max_size=5), max_size=400
)


def past_of(*cells: StripCell) -> DeviceSpan:
    """A history of the given cells."""
    return DeviceSpan(cells, state_times(cells))


def heights_at(path: str, x: float) -> set[int]:
    """Height of an outline over a point that is on none of its edges."""
    here = 0.0
    height = STRIP_HEIGHT
    found = set()
    for step, number in MOVE.findall(path):
        if step == "V":
            height = int(number)
        else:
            there = float(number)
            if step == "H" and here < x < there:
                found.add(STRIP_HEIGHT - height)
            here = there
    return found


@given(
    states_of_cells, st.integers(60, 900), st.sampled_from(SPANS), st.sampled_from([FINE, COARSE])
)
def test_a_strip_is_drawn_within_its_frame(
    states: list[dict[State, int]], step_seconds: int, span: Span, grain: Grain
) -> None:
    """For any cells, outlines are within the frame and the shares sum to the whole."""
    step = step_seconds * NANOSECONDS_PER_SECOND
    first = NOW - len(states) * step
    cells = [
        StripCell(first + number * step, first + (number + 1) * step, shares)
        for number, shares in enumerate(states)
    ]
    strip = strip_view(past_of(*cells), NOW, span, grain)
    for path in strip.areas.values():
        across = [float(number) for step_, number in MOVE.findall(path) if step_ in "MH"]
        assert all(0 <= x <= STRIP_WIDTH for x in across)
        assert across == sorted(across)
        assert all(0 <= int(y) <= STRIP_HEIGHT for s, y in MOVE.findall(path) if s == "V")
        assert path.count("M") <= 1
    assert sum(share.ratio for share in strip.shares) == pytest.approx(1.0 if strip.shares else 0.0)
    assert len(ticks_of(span, NOW)) >= 6


def test_states_stand_on_one_another_as_high_as_their_shares() -> None:
    """Three quarters idle are stacked on a quarter of work, drawn from the highest down."""
    half = NOW - 12 * HOUR
    cell = StripCell(half, NOW, {State.COMPUTE_BOUND: 3 * HOUR, State.IDLE_EMPTY: 9 * HOUR})
    areas = strip_view(past_of(cell), NOW, DEFAULT_SPAN).areas
    assert list(areas) == [State.IDLE_EMPTY, State.COMPUTE_BOUND]
    idle, work = areas.values()
    assert heights_at(idle, 1000.0) == {100}
    assert heights_at(work, 1000.0) == {25}
    assert heights_at(idle, 300.0) == set(), "of the time before nothing is known"


def test_a_gap_stays_blank() -> None:
    """Time between two cells is attributed to neither."""
    busy = {State.PRODUCTIVE: HOUR}
    early = StripCell(NOW - 20 * HOUR, NOW - 19 * HOUR, busy)
    late = StripCell(NOW - 2 * HOUR, NOW - HOUR, busy)
    (path,) = strip_view(past_of(early, late), NOW, DEFAULT_SPAN).areas.values()
    per_hour = STRIP_WIDTH / 24
    assert heights_at(path, 4.5 * per_hour) == {100}
    assert heights_at(path, 12 * per_hour) == {0}
    assert heights_at(path, 22.5 * per_hour) == {100}


def test_a_strip_says_each_hour_and_the_day() -> None:
    """Pointing at it shows the hour; screen readers get the day."""
    report = node_report()
    past = spans_of_report(report, DEFAULT_SPAN)[report.devices[1].device.uuid]
    strip = strip_view(past, NOW, DEFAULT_SPAN)
    assert strip.label.startswith("Hidden stall 62%, Compute bound 3")
    assert len(strip.segments) == 24
    assert strip.segments[-1].title == "12:00 to 13:00: Hidden stall 100%"
    nothing = strip_view(past_of(), NOW, DEFAULT_SPAN)
    assert nothing.label == "nothing known of the last 24 hours"


def test_a_coarse_strip_has_nothing_to_point_at_and_is_smaller() -> None:
    """Sixty-four devices fit on a page."""
    cells = [
        StripCell(
            NOW - (144 - number) * 10 * MINUTE,
            NOW - (143 - number) * 10 * MINUTE,
            {State.PRODUCTIVE: 1 + number % 7, State.IDLE_HELD: 1 + number % 5},
        )
        for number in range(144)
    ]
    fine, coarse = (strip_view(past_of(*cells), NOW, DEFAULT_SPAN, g) for g in (FINE, COARSE))
    assert coarse.segments == ()
    sizes = [sum(map(len, strip.areas.values())) for strip in (coarse, fine)]
    assert sizes[0] < sizes[1] / 2
    assert coarse.shares == fine.shares


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("1h", "12:00", "12:10"),
        ("6h", "07:00", "08:00"),
        ("24h", "16:00", "20:00"),
        ("7d", "Thu 1", "Fri 2"),
        ("30d", "13 Dec", "18 Dec"),
    ],
)
def test_each_span_has_an_axis_that_fits_it(name: str, first: str, second: str) -> None:
    """Ticks are minutes, hours or days at round times."""
    span = span_named(name)
    assert span is not None
    ticks = ticks_of(span, NOW)
    assert [text for _, text in ticks[:2]] == [first, second]
    assert all(0 <= one[0] < other[0] <= 1 for one, other in pairwise(ticks))
