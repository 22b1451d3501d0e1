"""Counters of a device: they start at zero and only grow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from readings import SECOND, entry
from rightsizer.accounting.device_account import RunningTotals
from rightsizer.accounting.window_builder import EntrySums
from rightsizer.model.signal import Signal
from rightsizer.model.state import Cause, Condition, State
from rightsizer.model.window import EnergySource, Entry


def totals_of(entries: list[Entry]) -> RunningTotals:
    """The totals of the stretches."""
    totals = RunningTotals(EntrySums())
    for each in entries:
        totals.add(each)
    return totals


STALL = entry(
    0,
    10,
    State.HIDDEN_STALL,
    conditions=frozenset({Condition.POWER_THROTTLED}),
    signals={Signal.GPU_BUSY: 0.99, Signal.POWER_WATTS: 100.0},
    used_ratio=0.25,
    waste={Cause.STALLED: 0.75},
    energy_joules=1000.0,
    energy_source=EnergySource.POWER,
)
GAP = entry(10, 30, State.UNKNOWN, used_ratio=None, waste={}, energy_joules=None)


def test_totals_add_up_what_the_entries_say() -> None:
    """Seconds by state and condition, waste in seconds and joules, ratios as distributions."""
    totals = totals_of([STALL, GAP]).totals()
    assert totals.state_seconds == {State.HIDDEN_STALL: 10.0, State.UNKNOWN: 20.0}
    assert totals.condition_seconds == {Condition.POWER_THROTTLED: 10.0}
    assert totals.waste_seconds == {Cause.STALLED: 7.5}
    assert totals.waste_joules == {Cause.STALLED: 750.0}
    assert (totals.used_seconds, totals.used_joules) == (2.5, 250.0)
    assert totals.distributions.keys() == {Signal.GPU_BUSY}
    assert totals.distributions[Signal.GPU_BUSY].total == 10 * SECOND


def test_accounted_time_includes_what_is_unknown() -> None:
    """It is the device's whole wall time."""
    assert sum(totals_of([STALL, GAP]).totals().state_seconds.values()) == 30.0


def test_energy_is_reported_by_how_it_was_measured() -> None:
    """Used and wasted joules sum to those of known time; the energy of unknown time counts."""
    counted = replace(STALL, energy_joules=250.0, energy_source=EnergySource.COUNTER)
    lost = replace(GAP, energy_joules=9000.0, energy_source=EnergySource.POWER)
    totals = totals_of([STALL, counted, lost, counted]).totals()
    assert totals.energy_joules == {EnergySource.POWER: 10_000.0, EnergySource.COUNTER: 500.0}
    assert totals.used_joules + sum(totals.waste_joules.values()) == 1500.0


@given(st.lists(st.sampled_from([STALL, GAP]), min_size=1, max_size=20))
def test_used_and_wasted_seconds_sum_to_the_known_ones(entries: list[Entry]) -> None:
    """Nothing is counted twice over any length of time."""
    totals = totals_of(entries).totals()
    known = sum(time for state, time in totals.state_seconds.items() if state is not State.UNKNOWN)
    assert totals.used_seconds + sum(totals.waste_seconds.values()) == pytest.approx(known)
