"""The rule for GPUs that communicate over the host although better links are available."""

from typing import Any

import pytest
from msgspec.structs import replace

from cases import case, window
from readings import gpu, workload
from rightsizer.advice.rules.nvlink_absent import RULE
from rightsizer.model.finding import Action, Case, FindingKind, Reason
from rightsizer.model.state import Resource, State
from rightsizer.model.topology import LinkKind
from rightsizer.model.workload import Workload, WorkloadClass
from standing_cases import around, held, joined

JOB = workload()
PAIRS = {(0, 1): LinkKind.NVLINK, (2, 3): LinkKind.NVLINK}
TOPOLOGY = joined(PAIRS, 4)


def job(*indices: int, traffic: float | None = None, holder: Workload = JOB) -> Case:
    """Ten hours on some GPUs, with the need of their PCIe links if measured."""
    demands = {} if traffic is None else {Resource.PCIE: {traffic: 10}}
    windows = [window({State.PRODUCTIVE: 10}, demands) for _ in indices]
    return case(windows, holder, [gpu(index) for index in indices])


def on_node(judged: Case, *others: int, **node: Any) -> Case:
    """The same among other GPUs, which are free without a holder."""
    holder = judged.workload or JOB
    own = held(holder, *(device.index for device in judged.devices))
    holdings = own | node.pop("holdings", {})
    return around(
        judged,
        others=[gpu(index) for index in others],
        **{"topology": TOPOLOGY, "holdings": holdings} | node,
    )


def test_a_pair_across_sockets_moves_to_a_free_pair() -> None:
    """With the GPUs and how to start on them."""
    found = RULE.judge(on_node(job(0, 2, traffic=0.5), 1, 3))
    assert found.kind is FindingKind.MISPLACED
    assert found.reasons == (Reason.NVLINK_ABSENT,)
    assert found.action is Action.MOVE_GPUS
    assert found.summary == (
        "GPUs 0 and 2 of llama: connected by SYS at the weakest; GPUs 0 and 1 would be better "
        "connected, which are free."
    )
    assert found.instructions[1].text == "CUDA_VISIBLE_DEVICES=GPU-0,GPU-1 COMMAND"
    assert found.evidence["better_score"] == [400, 400]


def test_two_that_are_crossed_swap() -> None:
    """The holder of a single GPU may use either."""
    holdings = held(workload("a"), 1) | held(workload("b"), 3)
    found = RULE.judge(on_node(job(0, 2, traffic=0.5), 1, 3, holdings=holdings))
    assert found.is_actionable
    assert found.evidence["swaps"] == {"a": "GPU-2"}
    assert found.instructions[1].text.startswith("# a moves first: CUDA_VISIBLE_DEVICES=GPU-2\n")


def test_gpus_of_another_job_of_several_are_not_taken() -> None:
    """That job has its own links to keep."""
    found = RULE.judge(
        on_node(job(0, 2, traffic=0.5), 1, 3, holdings=held(workload("other"), 1, 3))
    )
    assert not found.is_actionable
    assert "no available GPUs" in found.summary


@pytest.mark.parametrize(
    ("judged", "others"),
    [
        (job(0, 1, traffic=0.9), (2, 3)),
        (job(0, traffic=0.9), (1, 2, 3)),
        (job(0, 2, traffic=0.01), (1, 3)),
        (job(0, 1, 2, 3, traffic=0.9), ()),
    ],
    ids=["joined already", "a single GPU", "they do not talk", "the whole node"],
)
def test_nothing_to_gain_is_no_finding(judged: Case, others: tuple[int, ...]) -> None:
    """Hard negatives."""
    found = RULE.judge(on_node(judged, *others))
    assert not found.is_actionable
    assert found.abstained is None


def test_a_free_gpu_with_a_process_that_nobody_knows_is_not_free() -> None:
    """Its unknown process uses it."""
    busy = on_node(job(0, 2, traffic=0.5), 1, 3, pids={"GPU-1": (1,), "GPU-3": (2,)})
    assert not RULE.judge(busy).is_actionable


def test_without_traffic_only_a_batch_job_is_taken_to_talk() -> None:
    """At lower confidence."""
    batch = RULE.judge(on_node(job(0, 2), 1, 3))
    measured = RULE.judge(on_node(job(0, 2, traffic=0.5), 1, 3))
    assert batch.is_actionable
    assert batch.confidence < measured.confidence
    serving = job(0, 2, holder=workload("api", WorkloadClass.SERVING))
    assert RULE.judge(on_node(serving, 1, 3)).reasons == (Reason.UNSUPPORTED_TELEMETRY,)


def test_without_topology_nobody_can_tell() -> None:
    """Neither from a history, nor with a missing pair."""
    for unknown in (
        job(0, 2),
        on_node(job(0, 2), 1, 3, topology=None),
        on_node(job(0, 2), 1, 3, topology=joined({(0, 2): LinkKind.UNKNOWN}, 4)),
    ):
        assert RULE.judge(unknown).reasons == (Reason.UNSUPPORTED_TELEMETRY,)


def test_permuting_gpus_permutes_the_advice() -> None:
    """Their order in the case does not matter."""
    one = RULE.judge(on_node(job(0, 2, traffic=0.5), 1, 3))
    other = RULE.judge(on_node(job(2, 0, traffic=0.5), 3, 1))
    assert (one.id, one.evidence["better_gpus"]) == (other.id, other.evidence["better_gpus"])
    assert one.culprits == other.culprits


def test_other_boards_are_no_better_set() -> None:
    """A job on two kinds of board is as slow as the slower one."""
    judged = on_node(job(0, 2, traffic=0.5))
    assert judged.node is not None
    devices = (*judged.devices, gpu(1, name="NVIDIA L4"), gpu(3, name="NVIDIA L4"))
    assert not RULE.judge(replace(judged, node=replace(judged.node, devices=devices))).is_actionable
