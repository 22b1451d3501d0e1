"""The rule for idle tensor cores beside FP32 work."""

import pytest

from cases import case, window
from readings import HOUR, gpu, workload
from rightsizer.advice.rules.tensor_cores_unused import RULE
from rightsizer.model.finding import Action, FindingKind, Reason
from rightsizer.model.state import Condition, State, Tier
from rightsizer.model.window import Window

JOB = workload()


def single_precision(hours: float, active: float = 6.0, **facts: object) -> Window:
    """Some hours of FP32 alone, out of the active ones."""
    conditions = {Condition.NO_TENSOR_CORES: round(hours * HOUR)}
    return window({State.COMPUTE_BOUND: active}, **{"conditions": conditions, **facts})


def test_resting_tensor_cores_are_inefficient() -> None:
    """The speedup is unknown, so no savings are claimed."""
    found = RULE.judge(case([single_precision(5.4)], JOB))
    assert found.kind is FindingKind.INEFFICIENT
    assert found.reasons == (Reason.TENSOR_CORES_UNUSED,)
    assert found.action is Action.ENABLE_MIXED_PRECISION
    assert found.summary == (
        "GPU 0 of llama: computing in FP32 with the tensor cores at rest for 90% of 6 h "
        "of activity."
    )
    assert found.savings.gpus_high is None
    assert 'set_float32_matmul_precision("high")' in found.instructions[0].text


@pytest.mark.parametrize("architecture", ["Volta", "Turing"])
def test_old_tensor_cores_take_half_precision_only(architecture: str) -> None:
    """TF32 and BF16 came with Ampere."""
    devices = [gpu(architecture=architecture)]
    found = RULE.judge(case([single_precision(6.0)], JOB, devices))
    texts = "\n".join(instruction.text for instruction in found.instructions)
    assert "GradScaler" in texts
    assert "bfloat16" not in texts


def test_short_work_says_nothing() -> None:
    """Five minutes."""
    found = RULE.judge(case([single_precision(1 / 12, 1 / 12)], JOB))
    assert found.reasons == (Reason.INSUFFICIENT_DATA,)


def test_a_minority_of_fp32_work_is_no_complaint() -> None:
    """An optimizer step in FP32 beside products in BF16."""
    assert not RULE.judge(case([single_precision(2.0)], JOB)).is_actionable


def test_without_profiling_it_cannot_be_told() -> None:
    """NVML does not report pipes."""
    found = RULE.judge(case([single_precision(0.0, tiers={Tier.POWER: 1})], JOB))
    assert found.reasons == (Reason.UNSUPPORTED_TELEMETRY,)
