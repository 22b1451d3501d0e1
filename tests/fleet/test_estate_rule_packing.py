"""Packing rule: small workloads that could share fewer GPUs."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from estate_views import MARKET, by_day, pool, steady, used, view, work
from rightsizer.fleet.model import FleetWorkload, WaitingWork
from rightsizer.fleet.rules.packing import RULE
from rightsizer.model.finding import Action, Finding, Reason, Risk
from rightsizer.model.state import Tier
from rightsizer.model.workload import Allocator, WorkloadClass, WorkloadKind

POOL = pool("small", steady(8.0), nodes=1)
NOTEBOOK = WorkloadClass.NOTEBOOK


def judged(works: Iterable[FleetWorkload], waiting: Iterable[WaitingWork] = ()) -> Finding:
    """The verdict on the only pool."""
    (verdict,) = RULE.in_market(MARKET).judge(view([POOL], works, waiting))
    return verdict


def notebook(at: int, **facts: Any) -> FleetWorkload:
    """A small notebook on a GPU of its own."""
    usual: dict[str, Any] = {"compute": 0.2, "memory": 0.2, "first": at}
    return work(f"nb-{at}", "small", {"small-0": 1}, NOTEBOOK, **usual | facts)


def test_the_plan_names_who_goes_with_whom() -> None:
    """Workloads active at the same hours share side by side, on as few GPUs as the sums allow."""
    found = judged(map(notebook, range(4)))
    assert found.action is Action.SHARE_MPS
    assert found.summary == (
        "small: 4 small workloads would do with 1 GPU, side by side (MPS); 3 would be free."
    )
    (option,) = found.options
    assert option.description == (
        "on one GPU, side by side (MPS): web/nb-0, web/nb-1, web/nb-2, web/nb-3"
    )
    assert found.savings.gpus_low == found.savings.gpus_high == 3
    assert found.evidence["gpus_at_least"] == 1
    assert "replicas: 4" in found.instructions[0].text
    assert found.confidence > 0.8


def test_the_gpus_of_those_that_move_are_named_alone() -> None:
    """What else the pool has is no part of the recommendation."""
    busy = notebook(6, compute=0.9)
    found = judged([*map(notebook, range(3)), busy])
    assert found.devices == tuple(notebook(at).case.devices[0].uuid for at in range(3))


def test_those_that_never_work_at_once_take_turns() -> None:
    """Their peaks sum to more than a GPU."""
    day = notebook(0, compute=by_day(0.8, 0.0, 8, 20))
    night = notebook(1, compute=by_day(0.0, 0.8, 8, 20))
    found = judged([day, night])
    assert found.action is Action.SHARE_TIMESLICE
    assert found.reasons == (Reason.SHARING_CANDIDATE_TIME_SLICE,)
    assert not judged([notebook(at, compute=by_day(0.8, 0.0)) for at in range(2)]).is_actionable


def test_strangers_are_kept_apart_by_slices() -> None:
    """MIG isolates workloads of different owners from each other's faults."""
    found = judged([notebook(at, namespace=f"team-{at}") for at in range(3)])
    assert found.action is Action.SHARE_MIG
    assert found.reasons == (Reason.SHARING_CANDIDATE_MIG,)
    assert [option.target for option in found.options] == ["2g.20gb+2g.20gb+2g.20gb"]
    assert "-cgi 2g.20gb,2g.20gb,2g.20gb" in found.instructions[0].text


def test_slurm_gives_out_parts_its_own_way() -> None:
    """The action depends on the scheduler of the pool's workloads."""
    found = judged([notebook(at, kind=WorkloadKind.SLURM) for at in range(2)])
    assert "--gres=mps:50" in found.instructions[0].text


@pytest.mark.parametrize(
    "facts",
    [
        {"allocator": Allocator.PREALLOCATING},
        {"compute": lambda hour: None if hour % 2 else 0.2},
        {"compute": 0.0},
    ],
    ids=["preallocating", "half unknown", "idle"],
)
def test_workload_not_known_to_fit_keeps_its_gpu(facts: dict[str, Any]) -> None:
    """Held memory is not needed memory, unknown need may be large, and idle work shares nothing."""
    assert not judged([notebook(at, **facts) for at in range(4)]).is_actionable


def test_workload_with_two_gpus_keeps_them() -> None:
    """Only a workload that fits one GPU at all times is small."""
    wide = [
        work(f"x-{at}", "small", {"small-0": 2}, NOTEBOOK, compute=0.2, first=2 * at)
        for at in range(3)
    ]
    assert not judged(wide).is_actionable


@pytest.mark.parametrize("workload_class", [WorkloadClass.BATCH, WorkloadClass.STANDBY])
def test_batch_is_never_packed(workload_class: WorkloadClass) -> None:
    """Sharing would only make it run longer."""
    jobs = [
        work(f"j-{at}", "small", {"small-0": 1}, workload_class, compute=0.1, memory=0.1, first=at)
        for at in range(4)
    ]
    assert not judged(jobs).is_actionable


def test_without_a_class_nothing_is_said() -> None:
    """The reason recommends stating the class in a policy."""
    unknown = [
        work(f"u-{at}", "small", {"small-0": 1}, WorkloadClass.UNKNOWN, compute=0.1, first=at)
        for at in range(4)
    ]
    assert judged(unknown).reasons == (Reason.UNSUPPORTED_TELEMETRY,)


def test_two_on_one_gpu_share_already() -> None:
    """The load of a shared GPU is not that of one workload."""
    assert not judged([notebook(0), replace_name(notebook(0))]).is_actionable


def replace_name(of: FleetWorkload) -> FleetWorkload:
    """Another workload on the same GPU."""
    return replace(of, case=replace(of.case, key="web/other"))


def test_workload_under_pressure_is_not_packed() -> None:
    """A workload is never oversized while it is undersized."""
    pressed = [
        replace(
            each,
            case=replace(
                each.case,
                provisioning=tuple(
                    replace(fit, is_underprovisioned=True) for fit in each.case.provisioning
                ),
            ),
        )
        for each in map(notebook, range(4))
    ]
    assert not judged(pressed).is_actionable


def test_nothing_is_packed_while_work_waits() -> None:
    """A pool is never oversized while work waits for it."""
    assert not judged(map(notebook, range(4)), [WaitingWork("ml/x", "small", 1.0)]).is_actionable


def test_little_telemetry_is_little_confidence() -> None:
    """Utilization alone hardly shows how much is needed."""
    basic = used(0.2, 0.2)
    basic = replace(basic, tiers={Tier.BASIC: basic.known})
    found = judged([notebook(at, windows=[basic]) for at in range(4)])
    assert found.confidence < 0.5
    assert found.savings.gpus_high is None


def test_risk_is_told_of_each_gpu() -> None:
    """It is based on two weeks of hours in which the sum never exceeded the GPU."""
    (option,) = judged(map(notebook, range(4))).options
    assert option.risk is Risk.VERY_LOW
