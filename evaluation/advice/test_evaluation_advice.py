"""On labeled scenarios due recommendations open, on each tier that can tell, and no others."""

from typing import Final

import pytest

from evaluation.advice.findings import Stream, live
from evaluation.advice.stream import Outcome
from evaluation.options import FIRST_SCORED_SEED, SCENARIOS
from rightsizer.model.state import Tier

pytestmark = pytest.mark.timeout(240)

TICK: Final = 1801.0
WHOLE: Final[Stream] = (Tier.PROFILING, False)
BASIC: Final[Stream] = (Tier.BASIC, False)


@pytest.fixture(scope="module")
def filler() -> dict[Stream, Outcome]:
    """Two idle GPUs until eight, then a loop on two SMs that only pretends to work."""
    return live(str(SCENARIOS / "filler-kernel.yaml"), FIRST_SCORED_SEED, TICK)


def test_due_advice_alone_is_given(filler: dict[Stream, Outcome]) -> None:
    """This holds with and without disturbance, where the telemetry suffices."""
    for stream, outcome in filler.items():
        assert outcome.scores.expected.total() >= 2, stream
        assert (outcome.scores.precision, outcome.scores.recall) == (1.0, 1.0), stream
        assert not outcome.scores.flaps.total(), stream


def test_a_stall_is_due_where_power_or_profiling_is_read(filler: dict[Stream, Outcome]) -> None:
    """Utilization alone cannot show a stall, so that none is due there, and the rule is silent."""
    rules = {stream: {case.rule for case in filler[stream].scores.expected} for stream in filler}

    assert "hidden_stall" in rules[WHOLE]
    assert "hidden_stall" not in rules[BASIC]
    silences = filler[BASIC].scores.silences
    assert silences["hidden_stall", True] > 0
    assert not silences["hidden_stall", False]


def test_confidence_keeps_its_word(filler: dict[Stream, Outcome]) -> None:
    """The calibration error is within its promised limit."""
    for stream, outcome in filler.items():
        assert outcome.complaints.findings > 0, stream
        assert outcome.complaints.calibration_error < 0.1, stream


def test_a_lost_gpu_is_no_idle_one() -> None:
    """It has no readings; the finding is that it is unhealthy."""
    path = str(SCENARIOS / "lost-gpu.yaml")
    kinds = (WHOLE, BASIC)
    # Idleness is judged over hours.
    found = live(path, FIRST_SCORED_SEED, TICK, kinds=kinds, past_days=1)

    for stream, outcome in found.items():
        assert not outcome.scores.false.total(), stream
        assert all(case.rule != "idle" for case in outcome.scores.right), stream
