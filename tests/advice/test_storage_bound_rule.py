"""The rule for GPUs that wait for storage, and for which operation."""

from collections.abc import Sequence

import pytest

from cases import NOW, case, window
from readings import workload
from rightsizer.advice.rules.storage_bound import RULE
from rightsizer.model.block import BLOCK_SPAN, Blocks, Measure
from rightsizer.model.finding import Action, FindingKind, Reason
from rightsizer.model.state import Cause, State
from rightsizer.model.workload import WorkloadClass

JOB = workload()
STORAGE = State.STORAGE_BOUND
BUSY = State.COMPUTE_BOUND


def blocks(means: Sequence[float]) -> Blocks:
    """Five-minute blocks with the given mean busy share."""
    start = NOW - len(means) * BLOCK_SPAN
    return Blocks.joined(
        Blocks.of_one(
            start + at * BLOCK_SPAN, 300.0, {Measure.BUSY: mean}, {Measure.BUSY: min(1.0, mean)}
        )
        for at, mean in enumerate(means)
    )


def test_slow_reads_are_the_input_pipeline() -> None:
    """It is slow all the time, and savings are bounded by the loss."""
    slow = window({STORAGE: 6}, blocks=blocks([0.3] * 72), waste_seconds={Cause.STORAGE: 12960})
    found = RULE.judge(case([slow], JOB))
    assert found.kind is FindingKind.INEFFICIENT
    assert found.reasons == (Reason.STORAGE_BOUND,)
    assert found.action is Action.FIX_INPUT_PIPELINE
    assert found.summary == (
        "GPU 0 of llama: held up by storage for 100% of 6 h of activity, without "
        "stretches of full "
        "work between, as when data is read too slowly."
    )
    assert (found.savings.gpus_low, found.savings.gpus_high) == (0.0, 0.6)
    assert "prefetch_factor" in found.instructions[-1].text


def test_bursts_between_work_are_checkpoints() -> None:
    """Twenty minutes of work, half an hour of writing."""
    bursts = window({STORAGE: 4, BUSY: 2}, blocks=blocks(([0.98] * 4 + [0.14] * 8) * 6))
    found = RULE.judge(case([bursts], JOB))
    assert found.action is Action.FIX_CHECKPOINTING
    assert "in bursts between stretches of full work" in found.summary
    assert found.evidence["working_blocks_ratio"] == pytest.approx(1 / 3, abs=1e-4)
    assert "async_save" in found.instructions[-1].text


def test_without_blocks_it_says_both() -> None:
    """Reads cannot be distinguished from checkpoints."""
    found = RULE.judge(case([window({STORAGE: 6})], JOB))
    assert "for what it reads or for checkpoints that it writes" in found.summary
    texts = "".join(instruction.text for instruction in found.instructions)
    assert "async_save" in texts
    assert "prefetch_factor" in texts


def test_a_service_writes_no_checkpoints() -> None:
    """It loads weights or adapters."""
    server = workload(workload_class=WorkloadClass.SERVING)
    bursts = window({STORAGE: 4, BUSY: 2}, blocks=blocks(([0.98] * 4 + [0.14] * 8) * 6))
    found = RULE.judge(case([bursts], server))
    assert found.action is Action.FIX_INPUT_PIPELINE
    assert not any("async_save" in instruction.text for instruction in found.instructions)


def test_periodic_checkpoints_are_how_training_works() -> None:
    """They are normal in training: a few minutes in each hour."""
    hourly = window({STORAGE: 0.5, BUSY: 5.5}, blocks=blocks(([0.98] * 11 + [0.14]) * 6))
    found = RULE.judge(case([hourly], JOB))
    assert not found.is_actionable
    assert found.summary == "GPU 0: held up by storage for 8% of the active time."


def test_a_lower_threshold_takes_more_for_a_complaint() -> None:
    """The threshold is a setting, and open advice uses a relaxed one."""
    found = case([window({STORAGE: 2.4, BUSY: 3.6})], JOB)
    assert not RULE.judge(found).is_actionable
    assert RULE.relaxed(0.6).judge(found).is_actionable
