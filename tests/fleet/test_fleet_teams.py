"""The table of what each team's GPUs came to."""

from dataclasses import replace

import pytest

from estate_views import H100, MARKET, used, work
from rightsizer.fleet.encoder import team_uses
from rightsizer.model.state import Cause

HOURS = 14 * 24
WINDOW = used(
    0.5,
    used_seconds=HOURS * 1800.0,
    waste_seconds={Cause.IDLE: HOURS * 1440.0, Cause.HEADROOM: HOURS * 360.0},
    energy_joules=3.6e6 * 50,
)


def test_a_row_sums_a_teams_workloads() -> None:
    """Hours held, used and wasted, energy, and dollars as an interval; whoever held most first."""
    rows = team_uses(
        [
            work("a", "p", {"n": 2}, team="search", windows=[WINDOW] * 2),
            work("b", "p", {"n": 1}, team="search", windows=[WINDOW]),
            work("c", "p", {"n": 1}, team="ads", windows=[WINDOW]),
        ],
        MARKET,
    )
    assert [(row.team, row.workloads) for row in rows] == [("search", 2), ("ads", 1)]
    search = rows[0]
    assert search.held_gpu_hours == pytest.approx(3 * HOURS)
    assert search.used_gpu_hours == pytest.approx(3 * HOURS * 0.5)
    assert search.wasted_gpu_hours == pytest.approx(3 * HOURS * 0.4)
    assert search.kilowatt_hours == pytest.approx(150.0)
    assert search.dollars is not None
    assert search.dollars.low == pytest.approx(3 * HOURS * 3.6)
    assert search.dollars.high == pytest.approx(3 * HOURS * 4.4)
    assert search.wasted_dollars is not None
    assert search.wasted_dollars.value == pytest.approx(3 * HOURS * 0.4 * 4.0)
    assert (search.price_source, search.price_date) == ("our contract", "2026-08")


def test_what_is_not_known_is_none() -> None:
    """A board without a price, and a GPU whose energy nobody measured."""
    dark = replace(WINDOW, energy_joules=0.0)
    (row,) = team_uses(
        [
            work("a", "p", {"n": 1}, team="search", board=H100, windows=[WINDOW]),
            work("b", "p", {"n": 1}, team="search", board="NO-SUCH-BOARD", windows=[dark]),
        ],
        MARKET,
    )
    assert row.dollars is None
    assert row.wasted_dollars is None
    assert row.kilowatt_hours is None
    assert row.held_gpu_hours == pytest.approx(2 * HOURS)


def test_nobody_makes_no_rows() -> None:
    """An estate without workloads."""
    assert team_uses([], MARKET) == ()
