"""The rule for kernels too small to fill the SMs."""

import pytest

from cases import case, window
from readings import workload
from rightsizer.advice.rules.launch_bound import RULE
from rightsizer.model.finding import Action, FindingKind, Reason
from rightsizer.model.state import Resource, State, Tier
from rightsizer.model.workload import WorkloadClass

JOB = workload()
LAUNCH = State.LAUNCH_BOUND
BUSY = State.PRODUCTIVE


def test_small_kernels_are_inefficient() -> None:
    """The remedy is to launch many at once."""
    small = window({LAUNCH: 6}, {Resource.COMPUTE: {0.1: 6}})
    found = RULE.judge(case([small], JOB))
    assert found.kind is FindingKind.INEFFICIENT
    assert found.reasons == (Reason.LAUNCH_BOUND,)
    assert found.action is Action.ENABLE_CUDA_GRAPHS
    assert found.summary == (
        "GPU 0 of llama: limited by launches of small kernels for 100% of 6 h of "
        "activity; "
        "they leave most SMs idle."
    )
    assert (found.savings.gpus_low, found.savings.gpus_high) == (0.0, pytest.approx(0.9))
    assert any('mode="reduce-overhead"' in instruction.text for instruction in found.instructions)


def test_a_service_lets_its_engine_capture_graphs() -> None:
    """It has no training step to compile."""
    server = workload(workload_class=WorkloadClass.SERVING)
    texts = [
        instruction.text
        for instruction in RULE.judge(case([window({LAUNCH: 6})], server)).instructions
    ]
    assert any("--enforce-eager" in text for text in texts)
    assert not any("torch.compile" in text for text in texts)


@pytest.mark.parametrize("tier", [Tier.POWER, Tier.BASIC])
def test_without_profiling_it_cannot_be_told(tier: Tier) -> None:
    """Small kernels look like large ones."""
    found = RULE.judge(case([window({BUSY: 6}, tiers={tier: 1})], JOB))
    assert found.reasons == (Reason.UNSUPPORTED_TELEMETRY,)


def test_no_savings_at_low_confidence() -> None:
    """Half of the time at a third of the coverage is a guess."""
    hazy = RULE.judge(case([window({LAUNCH: 3.1, BUSY: 2.9, State.UNKNOWN: 12})], JOB))
    assert hazy.is_actionable
    assert hazy.savings.gpus_high is None


def test_minor_launch_wait_is_no_finding() -> None:
    """Bound by launches, but nine tenths of the SMs are used."""
    used = window({LAUNCH: 6}, {Resource.COMPUTE: {0.95: 6}})
    found = RULE.judge(case([used], JOB))
    assert not found.is_actionable
    assert "that costs 5% of all time on GPU 0, too little to matter" in found.summary
