"""The rule of GPUs that do nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import case, window
from readings import workload
from rightsizer.advice.rules import idle
from rightsizer.advice.rules.idle import RULE, IdleSettings
from rightsizer.domain.finding import Action, FindingKind, Reason, Risk
from rightsizer.domain.state import State
from rightsizer.domain.workload import WorkloadClass

JOB = workload()
EMPTY, HELD, BUSY = State.IDLE_EMPTY, State.IDLE_HELD, State.PRODUCTIVE


def test_held_and_idle_is_a_complaint() -> None:
    """It names the holder, the share, the time and what to do."""
    found = RULE.judge(case([window({HELD: 2})], JOB))
    assert found.finding is FindingKind.IDLE
    assert found.reasons == (Reason.IDLE_HELD,)
    assert found.action is Action.RELEASE
    assert found.summary == "GPU 0: held by llama but idle 100% of the last 2 h."
    assert found.is_complaint
    assert found.confidence > 0.9
    assert found.risk is Risk.MEDIUM
    assert found.evidence["idle_ratio"] == {"GPU-0": 1.0}


def test_empty_and_idle_is_its_own_reason() -> None:
    """Nobody holds it, so nobody need be asked."""
    found = RULE.judge(case([window({EMPTY: 2, HELD: 0.5})]))
    assert found.reasons == (Reason.IDLE_EMPTY,)
    assert found.summary == "GPU 0: empty and idle 100% of the last 2 h 30 min."
    assert found.workload is None


def test_serving_is_scaled_rather_than_released() -> None:
    """Requests will come again."""
    serving = workload(workload_class=WorkloadClass.SERVING)
    assert RULE.judge(case([window({HELD: 3})], serving)).action is Action.SCALE_TO_ZERO


@pytest.mark.parametrize(("idle_hours", "kind"), [(9, FindingKind.IDLE), (8.99, "optimized")])
def test_nine_tenths_of_the_time_must_be_idle(idle_hours: float, kind: str) -> None:
    """A few active seconds an hour do not make a GPU used; more do."""
    found = RULE.judge(case([window({HELD: idle_hours, BUSY: 10 - idle_hours})], JOB))
    assert found.finding == kind
    assert found.is_complaint == (kind == "idle")


def test_all_devices_must_be_idle() -> None:
    """One idle GPU among eight is a straggler's mark, not a GPU to reclaim."""
    windows = [window({HELD: 5})] * 7
    found = RULE.judge(case([*windows, window({BUSY: 5})], JOB))
    assert found.finding is FindingKind.OPTIMIZED
    assert found.summary == "GPUs 0, 1, 2, 3, 4, 5, 6 and 7: active 100% of the time."
    assert RULE.judge(case([*windows, window({HELD: 5})], JOB)).is_complaint


def test_standby_is_meant_to_be_idle() -> None:
    """It is not judged, and nothing is left open of it."""
    standby = workload(workload_class=WorkloadClass.STANDBY)
    assert RULE.judge(case([window({HELD: 50})], standby)).finding is FindingKind.OPTIMIZED


@pytest.mark.parametrize("known_seconds", [0, 59])
def test_too_little_telemetry_is_no_verdict(known_seconds: float) -> None:
    """A minute is the least, and unknown time is not idle time."""
    hours = known_seconds / 3600
    found = RULE.judge(case([window({HELD: 5}), window({HELD: hours, State.UNKNOWN: 5})], JOB))
    assert found.finding is FindingKind.UNKNOWN
    assert found.reasons == (Reason.INSUFFICIENT_DATA,)
    assert found.abstained == f"only {known_seconds} s of telemetry"


@given(
    st.dictionaries(st.sampled_from(State), st.floats(0.01, 100.0), min_size=1),
    st.floats(0.1, 1000.0),
)
def test_adding_unknown_time_never_creates_advice(
    hours: dict[State, float], unknown: float
) -> None:
    """What nobody saw makes no complaint, and no complaint surer."""
    before = RULE.judge(case([window(hours)], JOB))
    more = hours | {State.UNKNOWN: hours.get(State.UNKNOWN, 0.0) + unknown}
    after = RULE.judge(case([window(more)], JOB))
    assert after.is_complaint <= before.is_complaint
    if after.is_complaint:
        assert after.confidence <= before.confidence


@pytest.mark.parametrize(
    ("workload_class", "minutes"),
    [
        (WorkloadClass.NOTEBOOK, 60),
        (WorkloadClass.BATCH, 30),
        (WorkloadClass.SERVING, 120),
        (WorkloadClass.UNKNOWN, 120),
    ],
)
def test_class_decides_on_the_patience(workload_class: WorkloadClass, minutes: int) -> None:
    """A batch job is told after half an hour, a service after two."""
    conduct = idle.conduct(workload(workload_class=workload_class), IdleSettings())
    assert conduct.long_seconds == minutes * 60
    assert conduct.minimum_known_seconds == pytest.approx(minutes * 54)
    assert conduct.short_seconds == 1800


def test_device_that_nobody_holds_has_the_patience_of_the_unknown() -> None:
    """Nobody stated its use."""
    assert idle.conduct(None, IdleSettings()).long_seconds == 7200


def test_end_of_a_finding_keeps_its_id() -> None:
    """The same is said of the same workload, however long it lasts and whoever counts."""
    short, long = (RULE.judge(case([window({HELD: hours})], JOB)) for hours in (1, 100))
    assert short.id == long.id
    other = RULE.judge(case([window({HELD: 1})], workload("other")))
    assert other.id != short.id
    assert short.evidence["known_seconds"] == 3600
