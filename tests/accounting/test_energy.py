"""Energy of a device: the driver's counter if plausible, else power x time."""

from itertools import accumulate
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readings import SECOND
from rightsizer.accounting.power import EnergyMeter, MeasuredEnergy
from rightsizer.accounting.settings import EnergySettings
from rightsizer.model.window import EnergySource

COUNTER = EnergySource.COUNTER
POWER = EnergySource.POWER
LIMIT: Final = 700.0


def metered(
    *readings: tuple[float | None, float | None], start: float | None = 0.0
) -> list[MeasuredEnergy]:
    """The energy accounted for seconds with a draw and a counter each."""
    meter = EnergyMeter()
    meter.restart(start)
    found = [meter.measure(SECOND, watts, counter, LIMIT) for watts, counter in readings]
    return [each for each in found if each is not None]


def test_counter_goes_before_the_draw() -> None:
    """The draw is momentary; the counter covers the whole second."""
    assert metered((500.0, 310.0), (90.0, 820.0)) == [
        MeasuredEnergy(310.0, COUNTER),
        MeasuredEnergy(510.0, COUNTER),
    ]


def test_without_a_counter_it_is_power_times_time() -> None:
    """Boards before Volta have no counter; without a draw either, energy is unknown."""
    meter = EnergyMeter()
    assert meter.measure(5 * SECOND, 100.0, None, LIMIT) == MeasuredEnergy(500.0, POWER)
    assert meter.measure(SECOND, None, None, LIMIT) is None


def test_counter_that_fell_begins_again() -> None:
    """A reloaded driver counts from 0; energy of that second comes from the draw."""
    assert metered((300.0, 12.0), (300.0, 312.0), start=9_000_000.0) == [
        MeasuredEnergy(300.0, POWER),
        MeasuredEnergy(300.0, COUNTER),
    ]


def test_counter_that_comes_back_does_not_book_its_life() -> None:
    """No board draws more than twice its limit: a larger step is a jump, not energy."""
    readings = [(300.0, 0.0), (300.0, 9_000_600.0), (300.0, 9_000_900.0)]
    assert metered(*readings, start=9_000_000.0) == [
        MeasuredEnergy(300.0, POWER),
        MeasuredEnergy(300.0, POWER),
        MeasuredEnergy(300.0, COUNTER),
    ]


def test_limit_that_nobody_knows_lets_every_step_pass() -> None:
    """Without a limit there is no bound to check a step against."""
    meter = EnergyMeter()
    meter.restart(0.0)
    assert meter.measure(SECOND, 300.0, 5000.0, None) == MeasuredEnergy(5000.0, COUNTER)


def test_plausible_step_is_a_setting() -> None:
    """A step at the bound is accepted, above it not."""
    for step, source in ((1050.0, COUNTER), (1050.1, POWER)):
        meter = EnergyMeter(EnergySettings(plausible_limit_ratio=1.5))
        meter.restart(0.0)
        found = meter.measure(SECOND, 300.0, step, LIMIT)
        assert found is not None
        assert found.source is source


def test_after_a_gap_the_counter_starts_over() -> None:
    """Energy drawn in a gap belongs to no known second."""
    meter = EnergyMeter()
    meter.restart(100.0)
    meter.restart(None)
    assert meter.measure(SECOND, 200.0, 90_100.0, LIMIT) == MeasuredEnergy(200.0, POWER)
    assert meter.measure(SECOND, 200.0, 90_290.0, LIMIT) == MeasuredEnergy(190.0, COUNTER)


def test_counter_that_is_refreshed_rarely_is_filled_in_by_the_draw() -> None:
    """Each second gets its own draw, and the step only the remainder."""
    found = metered((100.0, 0.0), (400.0, 0.0), (100.0, 640.0))
    assert found == [
        MeasuredEnergy(100.0, POWER),
        MeasuredEnergy(400.0, POWER),
        MeasuredEnergy(140.0, COUNTER),
    ]


def test_jump_is_held_against_all_the_time_it_stood() -> None:
    """Thirty seconds of energy in one step are no jump."""
    readings = [*[(None, 0.0)] * 29, (None, 20_000.0)]
    assert metered(*readings) == [MeasuredEnergy(20_000.0, COUNTER)]


def test_energy_overcount_is_paid_back() -> None:
    """A draw that reads high must not keep the sum above the counter for good."""
    found = metered((500.0, 0.0), (500.0, 800.0), (300.0, 800.0), (300.0, 1400.0))
    assert [each.joules for each in found] == [500.0, 300.0, 300.0, 300.0]
    found = metered((500.0, 0.0), (500.0, 400.0), (300.0, 400.0), (300.0, 1000.0))
    assert [each.joules for each in found] == [500.0, 0.0, 200.0, 300.0]


@given(
    st.lists(
        st.tuples(st.floats(0.0, 700.0), st.floats(0.0, 700.0), st.integers(1, 40)),
        min_size=1,
        max_size=60,
    )
)
def test_sum_stays_with_the_counter(seconds: list[tuple[float, float, int]]) -> None:
    """However wrong the draw reads, and however rarely the counter moves.

    Each item is a second's reported draw, its true energy, and the counter's refresh interval in
    seconds.
    """
    meter = EnergyMeter()
    meter.restart(0.0)
    true = [0.0, *accumulate(drawn for _, drawn, _ in seconds)]
    shown = booked = counted = most_counted = 0.0
    for number, (watts, _, every) in enumerate(seconds, start=1):
        if number % every == 0:
            shown = true[number]
        found = meter.measure(SECOND, watts, shown, LIMIT)
        assert found is not None
        assert found.joules >= 0.0
        booked += found.joules
        counted = 0.0 if found.source is COUNTER else counted + watts
        most_counted = max(most_counted, counted)
        assert shown - 1e-6 <= booked <= shown + most_counted + 1e-6


@given(st.lists(st.floats(0.5, 600.0), min_size=1, max_size=50), st.floats(0.0, 1e9))
def test_counter_that_moves_is_booked_whole(steps: list[float], start: float) -> None:
    """No joule is lost or counted twice."""
    counters = list(accumulate(steps, initial=start))[1:]
    found = metered(*((123.0, counter) for counter in counters), start=start)
    assert sum(each.joules for each in found) == pytest.approx(counters[-1] - start)


def test_counter_repeated_after_a_gap_books_nothing_of_before() -> None:
    """A slow reader repeats the value of before the gap until it reads the counter again."""
    meter = EnergyMeter()
    meter.restart(0.0)
    before = [meter.measure(SECOND, 200.0, 0.0, LIMIT) for _ in range(2)]
    meter.interrupt()
    repeated = [meter.measure(SECOND, 200.0, 0.0, LIMIT) for _ in range(2)]
    read = meter.measure(SECOND, 200.0, 2000.0, LIMIT)
    after = meter.measure(SECOND, 200.0, 2200.0, LIMIT)
    assert [each and each.joules for each in (*before, *repeated, read, after)] == [200.0] * 6


@pytest.mark.parametrize(
    ("readings", "joules"),
    [
        # Without a counter, with one that stands at 0, and without power for a while.
        ([(150.0, None)] * 3, 450.0),
        ([(150.0, 0.0)] * 3, 450.0),
        ([(150.0, None), (None, None), (150.0, None)], 300.0),
        # The driver counts, if only later: its counter is never mixed with another.
        ([(150.0, 9_000_000.0)] * 3, None),
        ([(150.0, 0.0), (150.0, 150.0), (150.0, None)], None),
        ([(None, None)] * 3, None),
    ],
)
def test_power_over_time_stands_in_for_a_counter_that_is_not_there(
    readings: list[tuple[float | None, float | None]], joules: float | None
) -> None:
    """mlco2/codecarbon#1316: energy of a P100 that stays 0."""
    meter = EnergyMeter()
    meter.restart(readings[0][1])
    for watts, counter in readings:
        meter.measure(SECOND, watts, counter, LIMIT)
    assert meter.integral_joules == joules
