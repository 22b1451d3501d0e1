"""Scattered placement rule: jobs on more nodes than they need."""

from typing import Any

import pytest

from estate_views import MARKET, pool, steady, view, window_of, work
from rightsizer.fleet.rules.scattered_placement import RULE
from rightsizer.model.finding import Action, Finding, Reason
from rightsizer.model.workload import WorkloadClass, WorkloadKind

BATCH = WorkloadClass.BATCH


def judged(nodes: dict[str, int], free: dict[str, int], **facts: Any) -> Finding:
    """The verdict on the only job."""
    usual: dict[str, Any] = {"workload_class": BATCH, "where": "apart"}
    job = work("wide", nodes=nodes, **usual | facts)
    of = view([pool("apart", steady(30.0), free=free)], [job])
    (verdict,) = RULE.in_market(MARKET).judge(of)
    return verdict


def test_a_job_goes_where_it_fits() -> None:
    """The job's own GPUs count as free, so that as little as possible moves."""
    found = judged({"apart-0": 4, "apart-1": 4}, {"apart-0": 4, "apart-2": 8})
    assert found.reasons == (Reason.NVLINK_ABSENT,)
    assert found.action is Action.MOVE_GPUS
    assert found.summary == (
        "The 8 GPUs of wide lie on 2 nodes (apart-0 and apart-1); apart-0 has room for all of them."
    )
    assert found.confidence_factors["exchange"] == 0.65
    assert found.options[0].target == "apart-0"


def test_several_nodes_may_be_the_fewest() -> None:
    """Sixteen GPUs on two nodes of eight are compact; on four nodes they are scattered."""
    assert not judged({"apart-0": 8, "apart-1": 8}, {}).is_actionable
    four = {f"apart-{at}": 4 for at in range(4)}
    found = judged(four, four)
    assert found.evidence["better_nodes"] == ["apart-0", "apart-1"]


def test_without_room_nobody_moves() -> None:
    """The job is scattered, and stays so until another workload ends."""
    found = judged({"apart-0": 4, "apart-1": 4}, {"apart-0": 3, "apart-1": 3})
    assert not found.is_actionable
    assert found.summary == "On 2 nodes instead of 1; no fewer have room for it now."


@pytest.mark.parametrize("workload_class", [WorkloadClass.SERVING, WorkloadClass.NOTEBOOK])
def test_replicas_lie_apart_on_purpose(workload_class: WorkloadClass) -> None:
    """Spread replicas survive the failure of a node."""
    found = judged({"apart-0": 1, "apart-1": 1}, {"apart-0": 1}, workload_class=workload_class)
    assert not found.is_actionable


def test_an_unknown_class_is_an_abstention() -> None:
    """The workload may be a service."""
    found = judged(
        {"apart-0": 1, "apart-1": 1}, {"apart-0": 1}, workload_class=WorkloadClass.UNKNOWN
    )
    assert found.reasons == (Reason.UNSUPPORTED_TELEMETRY,)


def test_a_minute_says_nothing() -> None:
    """The job may be starting."""
    found = judged(
        {"apart-0": 1, "apart-1": 1}, {"apart-0": 1}, windows=[window_of(seconds=30.0)] * 2
    )
    assert found.reasons == (Reason.INSUFFICIENT_DATA,)


def test_a_pool_that_is_not_known_says_nothing() -> None:
    """The number of GPUs a node is unknown."""
    found = judged({"x-0": 1, "x-1": 1}, {}, where="elsewhere")
    assert not found.is_actionable


def test_slurm_asks_for_nodes() -> None:
    """The action depends on the kind of owner."""
    found = judged({"apart-0": 4, "apart-1": 4}, {"apart-0": 4}, kind=WorkloadKind.SLURM)
    assert found.instructions[0].text == "#SBATCH --nodes=1\n#SBATCH --gpus=8\n"
