"""Invariants of a device's counters under any faults of device, clock and agent."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_lives import GPU, Moment, accounted, lives, snapshots_of
from readings import HELD, MINUTE, SECOND, TRAINING, Signals, snapshot
from rightsizer.accounting.node_accounts import WEEK_WINDOW, NodeAccounts
from rightsizer.accounting.window_codec import decode_window, encode_window
from rightsizer.model.report import Totals
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.state import State
from rightsizer.model.units import Nanoseconds

Life = tuple[Nanoseconds, list[Moment]]
SHORT: Final = lives((1.0, 10.0), longest_gap_seconds=600.0)


def posted(snapshots: Sequence[Snapshot], accounts: NodeAccounts | None = None) -> NodeAccounts:
    """The accounts after the snapshots."""
    found = accounts or NodeAccounts()
    for each in snapshots:
        found.post(each)
    return found


def known_seconds(totals: Totals) -> float:
    """Sum of all seconds with a known state."""
    return sum(time for state, time in totals.state_seconds.items() if state is not State.UNKNOWN)


def flat_totals(totals: Totals) -> dict[object, float]:
    """Every number that must only grow."""
    return {
        **totals.state_seconds,
        **totals.condition_seconds,
        **{("seconds", cause): value for cause, value in totals.waste_seconds.items()},
        **{("joules", cause): value for cause, value in totals.waste_joules.items()},
        **{signal: distribution.total for signal, distribution in totals.distributions.items()},
        "used_seconds": totals.used_seconds,
        "used_joules": totals.used_joules,
    }


@given(lives())
def test_states_sum_to_wall_time_and_only_gaps_are_unknown(life: Life) -> None:
    """At 10 Hz and at one sample in 100 s, across suspension and clock changes."""
    snapshots = snapshots_of(*life)
    expected = accounted(snapshots)
    accounts = posted(snapshots)
    whole = accounts.device(GPU.uuid).whole.window()
    totals = accounts.device(GPU.uuid).totals.totals()
    assert (whole.known, whole.accounted) == (expected.known, expected.known + expected.unknown)
    assert known_seconds(totals) == pytest.approx(expected.known / SECOND)
    assert totals.state_seconds.get(State.UNKNOWN, 0.0) == pytest.approx(expected.unknown / SECOND)


@given(lives())
def test_used_and_wasted_time_is_all_that_is_known(life: Life) -> None:
    """In seconds and in joules."""
    totals = posted(snapshots_of(*life)).device(GPU.uuid).totals.totals()
    wasted = sum(totals.waste_seconds.values())
    joules = sum(totals.waste_joules.values())
    assert totals.used_seconds + wasted == pytest.approx(known_seconds(totals))
    assert totals.used_joules + joules == pytest.approx(sum(totals.energy_joules.values()))


@given(lives())
def test_distribution_of_what_is_always_read_has_all_known_time(life: Life) -> None:
    """Each second counts once at any interval; the mean is exact within a bin."""
    totals = posted(snapshots_of(*life)).device(GPU.uuid).totals.totals()
    known = known_seconds(totals)
    busy = totals.distributions.get(Signal.GPU_BUSY)
    assert (0.0 if busy is None else busy.total / SECOND) == pytest.approx(known)
    if busy is not None:
        above = (busy.mean() or 0.0) - totals.signal_seconds[Signal.GPU_BUSY] / known
        assert -1e-9 <= above <= 0.01 + 1e-9


@given(lives())
def test_counters_only_grow(life: Life) -> None:
    """Prometheus takes any decrease for a restart."""
    accounts = NodeAccounts()
    seen = [
        flat_totals(posted([each], accounts).device(GPU.uuid).totals.totals())
        for each in snapshots_of(*life)
    ]
    for before, after in pairwise(seen):
        assert all(after[key] >= value for key, value in before.items())


@given(lives())
def test_setting_the_wall_clock_changes_no_counter(life: Life) -> None:
    """Time is counted on the monotonic clock."""
    interval, moments = life
    unset = [Moment(moment.after, 0, moment.signals, moment.is_down) for moment in moments]
    stepping, steady = (posted(snapshots_of(interval, each)) for each in (moments, unset))
    assert stepping.device(GPU.uuid).totals.totals() == steady.device(GPU.uuid).totals.totals()


@given(SHORT, st.integers(0, 40))
def test_restart_begins_counters_at_nothing_and_keeps_windows(life: Life, cut: int) -> None:
    """Windows go on from what the agent knew; counters are those of the new process."""
    interval, moments = life
    steady = [Moment(moment.after, 0, moment.signals, moment.is_down) for moment in moments]
    snapshots = snapshots_of(interval, steady)
    first = snapshots[:cut]
    second = snapshots[cut:]
    before = posted(first)
    after = NodeAccounts()
    for window in (*before.drain_closed(), *before.open_windows()):
        after.restore(decode_window(window.uuid, encode_window(window)))
    assert flat_totals(after.device(GPU.uuid).totals.totals()) == {
        "used_seconds": 0.0,
        "used_joules": 0.0,
    }
    posted(second, after)
    assert after.device(GPU.uuid).totals.totals() == posted(second).device(GPU.uuid).totals.totals()
    known = accounted(first).known + accounted(second).known
    assert after.provisioning(GPU.uuid)[WEEK_WINDOW].known_seconds == pytest.approx(known / SECOND)


@pytest.mark.parametrize("interval_seconds", [0.1, 1.0, 4.0, 20.0, 100.0])
def test_interval_of_sampling_changes_no_share(interval_seconds: float) -> None:
    """Twenty minutes held and forty active are a third and two thirds at any interval."""
    accounts = NodeAccounts()
    at = 0.0
    for number in range(1 + round(3600 / interval_seconds)):
        at = number * interval_seconds
        signals: Signals = HELD if at <= 1200 else TRAINING
        accounts.post(snapshot(at, [GPU], {GPU: signals}, interval_seconds=interval_seconds))
    totals = accounts.device(GPU.uuid).totals.totals()
    assert totals.state_seconds == pytest.approx(
        {State.IDLE_HELD: 1200.0, State.COMPUTE_BOUND: 2400.0}
    )
    busy = totals.distributions[Signal.GPU_BUSY]
    assert (busy.cumulative()[0], busy.total) == (20 * MINUTE, 60 * MINUTE)
    assert totals.used_seconds + sum(totals.waste_seconds.values()) == pytest.approx(3600.0)
