"""Scores of recommendations, and calibration of confidences."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.advice.reliability import Reliability
from evaluation.advice.scores import HEADINGS, AdviceScores, Case

IDLE = Case("idle", "node", "job", "IdleHeld")
STALL = Case("hidden_stall", "node", "job", "HiddenStall")


def scored() -> AdviceScores:
    """Three due, one missed; three openings, one false and one of them too soon after a close."""
    scores = AdviceScores(entity_days=10.0)
    scores.expected.update({IDLE: 2, STALL: 1})
    scores.missed.update({STALL: 1})
    scores.right.update({IDLE: 2})
    scores.false.update({STALL: 1})
    scores.flaps.update({IDLE: 1})
    scores.delays["idle"] = [600.0, 1800.0, 1200.0]
    scores.silences.update({("hidden_stall", True): 3, ("hidden_stall", False): 1})
    return scores


def test_precision_recall_and_flaps() -> None:
    """They are over all rules."""
    scores = scored()
    assert scores.precision == pytest.approx(2 / 3)
    assert scores.recall == pytest.approx(2 / 3)
    assert scores.flaps_per_entity_day == pytest.approx(0.1)


def test_each_rule_has_a_line_and_all_have_one() -> None:
    """A rule that was never due has empty scores."""
    rows = list(scored().rows(["idle", "hidden_stall", "numa_misplaced"]))
    assert all(len(row) == len(HEADINGS) for row in rows)
    by_rule = {row[0]: row for row in rows}
    assert by_rule["idle"][1:9] == ("2", "2", "0", "2", "0", "1.000", "1.000", "20 min")
    assert by_rule["hidden_stall"][6:8] == ("0.000", "0.000")
    assert by_rule["hidden_stall"][10] == "0.750"
    assert by_rule["numa_misplaced"][6:8] == ("", "")
    assert by_rule["all"][1:4] == ("3", "2", "1")


def test_runs_add_up() -> None:
    """Twice the same run gives the same ratios."""
    twice = scored()
    twice.merge(scored())
    assert twice.expected.total() == 6
    assert (twice.precision, twice.recall) == (scored().precision, scored().recall)
    assert twice.flaps_per_entity_day == scored().flaps_per_entity_day


def test_mistakes_are_named() -> None:
    """Each has its frequency."""
    missed, false = scored().mistakes()
    assert missed == "Missed: HiddenStall of job in node (1)."
    assert false == "False: HiddenStall of job in node (1)."


def test_a_confidence_that_keeps_its_word_has_no_error() -> None:
    """Three of four are true, which equals the stated confidence."""
    found = Reliability()
    for is_true in (True, True, True, False):
        found.add("idle power", 0.75, is_true=is_true)
    assert found.calibration_error == pytest.approx(0.0)
    assert found.brier_score == pytest.approx(0.1875)
    assert list(found.rows()) == [("0.7 to 0.8", "4", "0.750", "0.750")]


def test_overconfidence_is_measured() -> None:
    """The error is the excess of confidence."""
    found = Reliability()
    for is_true in (True, False):
        found.add("idle power", 0.9, is_true=is_true)
    assert found.calibration_error == pytest.approx(0.4)
    assert [row[0] for row in found.kind_rows()] == ["idle power", "all"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 1000), st.booleans()), min_size=1
    )
)
def test_the_errors_are_ratios_and_merging_is_adding(
    findings: list[tuple[str, int, bool]],
) -> None:
    """This holds for any distribution of findings over runs."""
    whole = Reliability()
    parts = [Reliability(), Reliability()]
    for at, (kind, thousandths, is_true) in enumerate(findings):
        whole.add(kind, thousandths / 1000, is_true=is_true)
        parts[at % 2].add(kind, thousandths / 1000, is_true=is_true)
    parts[0].merge(parts[1])
    assert parts[0].counts == whole.counts
    assert 0.0 <= whole.calibration_error <= 1.0
    assert 0.0 <= whole.brier_score <= 1.0
    assert whole.findings == len(findings)
