"""The rule for GPUs that wait for copies over their link."""

import pytest

from cases import case, histogram, window
from readings import HOUR, workload
from rightsizer.advice.rules.pcie_bound import RULE
from rightsizer.model.finding import Action, FindingKind, Reason
from rightsizer.model.state import Cause, Condition, State
from rightsizer.model.workload import WorkloadClass

JOB = workload()
LINK = State.PCIE_BOUND
BUSY = State.COMPUTE_BOUND


def test_copies_that_limit_are_inefficient() -> None:
    """The link is well used; the loss is compute that waits."""
    full = window({LINK: 6}, waste_seconds={Cause.PCIE: 1.0}, compute_at_least=histogram({0.2: 6}))
    found = RULE.judge(case([full], JOB))
    assert found.kind is FindingKind.INEFFICIENT
    assert found.reasons == (Reason.PCIE_BOUND,)
    assert found.action is Action.FIX_INPUT_PIPELINE
    assert (
        found.summary == "GPU 0 of llama: held up by copies over PCIe for 100% of 6 h of activity."
    )
    assert found.savings.gpus_high == pytest.approx(0.8, abs=0.011)
    assert any("pin_memory=True" in instruction.text for instruction in found.instructions)


@pytest.mark.parametrize(("hours", "is_named"), [(0.6, True), (0.5, False)])
def test_a_degraded_link_is_named_too(
    hours: float,
    is_named: bool,  # noqa: FBT001 - a case.
) -> None:
    """A tenth of the active time is no coincidence."""
    conditions = {Condition.PCIE_LINK_DEGRADED: round(hours * HOUR)}
    found = RULE.judge(case([window({LINK: 6}, conditions=conditions)], JOB))
    assert (Reason.PCIE_LINK_DEGRADED in found.reasons) == is_named
    assert ("the link of GPU 0 runs below what it could" in found.summary) == is_named
    assert ("--id=GPU-0" in found.instructions[0].text) == is_named


def test_a_service_keeps_its_weights_on_the_gpu() -> None:
    """Offloaded weights cross the bus for every token."""
    server = workload(workload_class=WorkloadClass.SERVING)
    found = RULE.judge(case([window({LINK: 6})], server))
    assert "--cpu-offload-gb" in found.instructions[-1].text


def test_a_minority_of_the_work_is_no_complaint() -> None:
    """Copies at the start of each epoch."""
    assert not RULE.judge(case([window({LINK: 2, BUSY: 4})], JOB)).is_actionable
