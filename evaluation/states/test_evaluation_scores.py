"""Scores of hand-made cases: confusions, detections, and claims of each tier."""

import pytest

from evaluation.states.confusion import Confusion, Detection
from evaluation.states.merged_states import AT_WORK, coarse_state, merged_state
from evaluation.states.missing_columns import together
from evaluation.states.scores import OURS, Scores
from readings import HOUR
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition, State, Tier


def confusion() -> Confusion:
    """Of ten working hours two are called idle; of two idle hours one is."""
    found = Confusion()
    found.add(State.COMPUTE_BOUND, State.COMPUTE_BOUND, 8 * HOUR)
    found.add(State.COMPUTE_BOUND, State.IDLE_HELD, 2 * HOUR)
    found.add(State.IDLE_HELD, State.IDLE_HELD, 1 * HOUR)
    found.add(State.IDLE_HELD, State.COMPUTE_BOUND, 1 * HOUR)
    return found


def test_scores_are_those_of_the_textbook() -> None:
    """They are weighted by time."""
    scores = confusion()

    assert scores.accuracy == pytest.approx(9 / 12)
    assert scores.precision("compute_bound") == pytest.approx(8 / 9)
    assert scores.recall("compute_bound") == pytest.approx(8 / 10)
    assert scores.precision("idle_held") == pytest.approx(1 / 3)
    assert scores.f1("idle_held") == pytest.approx(0.4)
    assert scores.macro_f1 == pytest.approx((16 / 19 + 0.4) / 2)


def test_false_idle_is_what_an_operator_would_lose() -> None:
    """Two hours in half a day are four hours a day; the other error costs no job."""
    assert confusion().false_idle_seconds_per_day == pytest.approx(4 * 3600)


def test_one_kind_of_idle_taken_for_the_other_is_no_false_idle() -> None:
    """It is an error, but costs no work."""
    found = Confusion()
    found.add(State.IDLE_HELD, State.IDLE_EMPTY, HOUR)

    assert (found.false_idle, found.accuracy) == (0, 0.0)


def test_a_state_that_is_never_called_scores_nothing() -> None:
    """It has no precision, rather than a perfect one."""
    found = Confusion()
    found.add(State.PCIE_BOUND, State.PRODUCTIVE, HOUR)

    assert (found.precision("pcie_bound"), found.f1("pcie_bound")) == (None, 0.0)
    assert list(found.mistakes(5)) == [("pcie_bound", "productive", "1.00", "100.0%")]


def test_a_second_cause_counts_where_the_first_is_wrong() -> None:
    """One hour is right, one right at the second guess, one wrong."""
    found = Confusion()
    found.add("host_bound", "host_bound", HOUR, "storage_bound")
    found.add("host_bound", "storage_bound", HOUR, "host_bound")
    found.add("host_bound", "productive", HOUR, "storage_bound")

    assert found.accuracy == pytest.approx(1 / 3)
    assert found.accuracy_of_two == pytest.approx(2 / 3)


def test_merged_confusions_are_those_of_all_the_time() -> None:
    """Runs in two processes therefore sum to one."""
    twice = Confusion()
    whole = confusion()
    for _ in range(2):
        twice.merge(whole)

    assert twice.gpu_days == pytest.approx(2 * whole.gpu_days)
    assert twice.macro_f1 == pytest.approx(whole.macro_f1)


def test_detections_count_time() -> None:
    """Of three true hours two are found, and one is found wrongly."""
    found = Detection()
    found.add(2 * HOUR, is_true=True, is_found=True)
    found.add(1 * HOUR, is_true=True, is_found=False)
    found.add(1 * HOUR, is_true=False, is_found=True)

    assert found.precision == pytest.approx(2 / 3)
    assert found.recall == pytest.approx(2 / 3)
    assert (Detection().precision, Detection().recall) == (None, None)


def test_a_tier_is_not_asked_for_what_it_cannot_see() -> None:
    """Kinds of work need counters, a stall needs power, a link needs its reading."""
    link = {Signal.PCIE_RECEIVE: 0.9}

    assert merged_state(State.COMPUTE_BOUND, Tier.PROFILING, {}) == "compute_bound"
    assert merged_state(State.COMPUTE_BOUND, Tier.POWER, {}) == AT_WORK
    assert merged_state(State.HIDDEN_STALL, Tier.POWER, {}) == "hidden_stall"
    assert merged_state(State.HIDDEN_STALL, Tier.BASIC, {}) == AT_WORK
    assert merged_state(State.PCIE_BOUND, Tier.POWER, link) == "pcie_bound"
    assert merged_state(State.PCIE_BOUND, Tier.POWER, {}) == AT_WORK


@pytest.mark.parametrize("tier", [Tier.PROFILING, Tier.POWER, Tier.BASIC])
def test_rest_is_asked_for_on_every_tier(tier: Tier) -> None:
    """No tier may count an idle GPU, or a misjudged one, as working."""
    for state in (State.IDLE_EMPTY, State.IDLE_HELD, State.HOST_BOUND, State.STORAGE_BOUND):
        assert merged_state(state, tier, {}) == state
    assert {coarse_state(state) for state in State} == {
        "unknown",
        "idle_empty",
        "idle_held",
        "hidden_stall",
        AT_WORK,
    }


def test_scores_of_runs_add_up() -> None:
    """Sums are by judge, tier and disturbance, with conditions and unknown time."""
    one = Scores(abstained=HOUR)
    one.confusions[OURS, Tier.POWER, False].merge(confusion())
    one.conditions[Condition.RANK_IMBALANCE, False].add(HOUR, is_true=True, is_found=True)
    total = Scores.total([one, one])

    assert total.abstained == 2 * HOUR
    assert total.confusions[OURS, Tier.POWER, False].gpu_days == pytest.approx(1.0)
    assert total.conditions[Condition.RANK_IMBALANCE, False].true_seconds == 7200.0
    assert total.false_idle_seconds_per_day(OURS, is_disturbed=False) == pytest.approx(4 * 3600)
    assert total.false_idle_seconds_per_day(OURS, is_disturbed=True) == 0.0


def test_logs_with_equal_results_share_a_row() -> None:
    """Columns without an effect are named in one row; other logs and other results are not."""
    rows = [
        ("smi", "25%"),
        ("smi without memory", "24%"),
        ("smi without clocks", "25%"),
        ("smi without fans", "24%"),
        ("dmon", "25%"),
    ]

    assert list(together(rows)) == [
        ("smi; or without clocks", "25%"),
        ("smi without memory; or without fans", "24%"),
        ("dmon", "25%"),
    ]
