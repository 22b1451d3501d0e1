"""Fragmentation rule: free GPUs that are spread over too many nodes."""

import pytest
from msgspec.structs import replace

from estate_views import MARKET, hours, pool, steady, view, work
from rightsizer.fleet.model import FleetView, FleetWorkload, WaitingWork
from rightsizer.fleet.rules.fragmentation import RULE
from rightsizer.model.finding import Action, Finding, Reason, Severity
from rightsizer.model.workload import WorkloadClass, WorkloadKind

FREE = {"parts-0": 2, "parts-1": 1, "parts-2": 2, "parts-3": 0}
PARTS = pool("parts", steady(27.0), free=FREE)
NEXT = WaitingWork("ml/next", "parts", 4.0)


def judged(of: FleetView) -> Finding:
    """The verdict on the only pool."""
    (verdict,) = RULE.in_market(MARKET).judge(of)
    return verdict


def service(name: str, node: str, gpus: int) -> FleetWorkload:
    """Workload that may be moved."""
    return work(name, "parts", {node: gpus}, compute=0.8)


def test_the_smallest_moves_that_make_room_are_named() -> None:
    """A piece of two GPUs moves to where two are free."""
    here = [service("api", "parts-0", 2), service("big", "parts-2", 6)]
    found = judged(view([PARTS], here, [NEXT]))
    assert found.action is Action.MOVE_GPUS
    assert found.reasons == (Reason.CAPACITY_FRAGMENTED,)
    assert found.evidence["moves"] == [
        {"workload": "web/api", "gpus": 2, "from": "parts-0", "to": "parts-2"}
    ]
    assert found.summary == (
        "parts: 5 GPUs are free, no node has more than 2 of them, and jobs that wait take 4 on "
        "one; 1 move would make room on parts-0."
    )
    assert found.severity is Severity.CRITICAL
    assert "MostAllocated" in found.instructions[-1].text


def test_jobs_that_were_seen_are_enough_to_tell() -> None:
    """Past jobs are likely to return; they are less urgent than waiting ones."""
    job = work("train", "parts", {"parts-3": 4}, WorkloadClass.BATCH)
    found = judged(view([PARTS], [job, service("api", "parts-0", 2)]))
    assert found.is_actionable
    assert found.severity is Severity.LOW
    assert "jobs that were seen take 4" in found.summary


def test_training_is_not_interrupted_for_it() -> None:
    """Without any movable workload, only a change of the scheduler is recommended."""
    job = work("train", "parts", {"parts-0": 2}, WorkloadClass.BATCH)
    found = judged(view([PARTS], [job], [NEXT]))
    assert found.action is Action.NONE
    assert found.options == ()
    assert "nothing that may be moved would make room" in found.summary
    assert [instruction.language for instruction in found.instructions] == ["yaml"]


def test_slurm_packs_its_own_way() -> None:
    """The action depends on the scheduler of the pool's workloads."""
    job = work("train", "parts", {"parts-3": 4}, WorkloadClass.BATCH, kind=WorkloadKind.SLURM)
    found = judged(view([PARTS], [job], [NEXT]))
    assert "CR_Pack_Nodes" in found.instructions[-1].text


@pytest.mark.parametrize(
    "waiting",
    [
        WaitingWork("ml/one", "parts", 1.0),
        WaitingWork("ml/many", "parts", 6.0),
        WaitingWork("x", "other", 4.0),
    ],
    ids=["one", "more than there are", "another pool"],
)
def test_request_too_large_for_the_free_gpus_is_no_fragmentation(waiting: WaitingWork) -> None:
    """One GPU fits anywhere, and six are not free at all."""
    assert not judged(view([PARTS], [service("api", "parts-0", 2)], [waiting])).is_actionable


def test_brief_fragmentation_is_no_finding() -> None:
    """GPUs that are scattered now but were contiguous most of the time are not reported."""
    whole = {node: hours(steady(4.0 if node == "parts-0" else 0.0)) for node in FREE}
    found = judged(view([replace(PARTS, node_free=whole)], (), [NEXT]))
    assert not found.is_actionable


def test_nodes_that_nobody_saw_say_nothing() -> None:
    """It is unknown which of their GPUs were free."""
    found = judged(view([replace(PARTS, node_free={})], (), [NEXT]))
    assert found.reasons == (Reason.INSUFFICIENT_DATA,)


def test_nobody_misses_what_was_never_needed() -> None:
    """Unneeded GPUs are another rule's finding, unless work waits."""
    large = pool("parts", steady(14.0), free=dict.fromkeys(FREE, 3))
    job = work("train", "parts", {"parts-3": 4}, WorkloadClass.BATCH)
    assert not judged(view([large], [job])).is_actionable
    assert judged(view([large], [job], [NEXT])).is_actionable


def test_a_job_larger_than_a_node_wants_whole_nodes() -> None:
    """A job of sixteen GPUs takes eight on each of two nodes."""
    free = dict.fromkeys(FREE, 4)
    wide = WaitingWork("ml/wide", "parts", 16.0)
    found = judged(view([pool("parts", steady(16.0), free=free)], (), [wide]))
    assert found.evidence["gpus_wanted_on_one_node"] == 8
