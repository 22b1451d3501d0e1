"""Track record of advice: outcomes, savings, and calibration of confidence."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import NOW, finding
from rightsizer.advice.settings import TrackRecordSettings
from rightsizer.advice.track_record import TrackRecord
from rightsizer.model.advice import Advice, AdviceState

ADVICE = Advice(finding(), AdviceState.SUCCEEDED, NOW, NOW)
KEY = ("idle", "IdleHeld")


def answered(
    *answers: tuple[float, bool], settings: TrackRecordSettings | None = None
) -> TrackRecord:
    """A record of advice by its confidence, and whether it was right."""
    record = TrackRecord((), settings)
    for confidence, was_right in answers:
        advice = replace(ADVICE, opening_confidence=confidence)
        record.count_answer(advice, was_right=was_right)
    return record


def test_outcomes_and_savings_add_up() -> None:
    """Outcomes by reason and end, savings by rule and reason."""
    record = TrackRecord()
    record.count_end(ADVICE)
    record.count_end(ADVICE)
    record.add_savings(ADVICE, 12.0, 3600.0)
    record.add_savings(ADVICE, 3.0, 0.0)

    assert record.outcomes == {("IdleHeld", "succeeded"): 2}
    assert record.tallies[0].realized_gpu_hours == 15.0
    assert record.tallies[0].realized_joules == 3600.0
    assert TrackRecord(record.tallies).outcomes == record.outcomes


def test_reason_that_is_wrong_too_often_must_be_surer() -> None:
    """After twenty outcomes: the confidence from which on seven of ten were right."""
    doubtful = [(0.62, False)] * 10
    sure = [(0.82, True)] * 9
    assert answered(*doubtful, *sure).floor(*KEY) == 0.0
    record = answered(*doubtful, *sure, (0.82, False))
    assert record.floor(*KEY) == 0.65
    assert record.floor(*KEY) == 0.65
    assert record.floor("idle", "IdleEmpty") == 0.0


def test_reason_that_is_always_wrong_may_win_back_trust() -> None:
    """It must be nearly certain, but is not silenced forever."""
    assert answered(*[(0.99, False)] * 20).floor(*KEY) == 0.95


def test_operator_may_forgo_floors() -> None:
    """Without floors, they are reported as a suggestion."""
    record = answered(*[(0.6, False)] * 20, settings=TrackRecordSettings(raises_floors=False))
    assert record.floor(*KEY) == 0.0


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=60))
def test_advice_above_the_floor_was_right_often_enough(answers: list[tuple[float, bool]]) -> None:
    """Or the floor is at its maximum."""
    record = answered(*answers)
    floor = record.floor(*KEY)
    above = [was_right for confidence, was_right in answers if int(confidence * 20) / 20 >= floor]
    assert 0.0 <= floor <= 0.95
    if len(answers) >= 20 and floor < 0.95:
        assert sum(above) >= 0.7 * len(above)
