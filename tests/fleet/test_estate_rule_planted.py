"""Planted fleets: exactly the planted faults are found, by all rules together."""

from collections.abc import Set as AbstractSet

import pytest
from msgspec.structs import replace

from estate_views import (
    H100,
    L4,
    L40S,
    beside,
    by_day,
    complaints,
    findings,
    growing,
    healthy,
    pool,
    restless,
    steady,
    used,
    view,
    work,
)
from rightsizer.fleet.model import FleetView, WaitingWork
from rightsizer.fleet.rules import FLEET_RULES
from rightsizer.model.finding import Action, FindingKind, Reason
from rightsizer.model.state import Condition, State
from rightsizer.model.workload import WorkloadClass

BATCH = WorkloadClass.BATCH
NOTEBOOK = WorkloadClass.NOTEBOOK


def spare() -> FleetView:
    """Half of a pool that was never requested."""
    return view([pool("spare", restless(8, 16))])


def empty() -> FleetView:
    """A pool that was never requested."""
    return view([pool("empty", steady(0.0), nodes=2)])


def daily() -> FleetView:
    """A pool that is full by day, and nearly empty by night."""
    return view([pool("daily", by_day(60.0, 14.0), nodes=8)])


def filling() -> FleetView:
    """A pool whose held share grows every day."""
    return view([pool("filling", growing(30.0, 1.5), nodes=8)])


def scattered_room() -> FleetView:
    """Two free GPUs on each node, and a job that waits for four."""
    free = dict.fromkeys(("parts-0", "parts-1", "parts-2", "parts-3"), 2)
    return view(
        [pool("parts", steady(24.0), free=free)],
        [work("api", "parts", {"parts-1": 2}, compute=0.8)],
        [WaitingWork("ml/next", "parts", 4.0)],
    )


def small() -> FleetView:
    """Notebooks of one namespace that use a fifth of a GPU each."""
    return view(
        [pool("small", steady(8.0), nodes=1)],
        [
            work(f"nb-{at}", "small", {"small-0": 1}, NOTEBOOK, compute=0.2, memory=0.2, first=at)
            for at in range(4)
        ],
    )


def replicas() -> FleetView:
    """Services of two replicas each, all of them light."""
    return view(
        [pool("twins", steady(8.0), nodes=1, board=L4)],
        [
            work(
                f"api-{at}",
                "twins",
                {"twins-0": 2},
                compute=0.1,
                memory=0.15,
                first=2 * at,
                board=L4,
            )
            for at in range(4)
        ],
    )


def dear() -> FleetView:
    """A light service on an H100, and cheaper GPUs that are free."""
    return view(
        [
            pool("dear", steady(8.0), nodes=1),
            pool("cheap", steady(4.0), nodes=2, each=4, board=L40S),
        ],
        [
            work("light", "dear", {"dear-0": 1}, compute=0.15, memory=0.15),
            work("heavy", "dear", {"dear-0": 1}, compute=0.8, first=1),
        ],
    )


def slow_node() -> FleetView:
    """Two jobs over three nodes each; both wait for the GPUs of the same node."""
    works = used(0.5, 0.6, 1.0)
    works = replace(works, conditions={Condition.RANK_IMBALANCE: works.known})
    waits = replace(works, states={State.HIDDEN_STALL: works.known})
    jobs = [
        work(
            f"job-{at}",
            "lag",
            {"lag-0": 2, "lag-1": 2, "lag-2": 2},
            BATCH,
            first=2 * at,
            windows=[waits, waits, works, works, waits, waits],
        )
        for at in range(2)
    ]
    return view([pool("lag", steady(24.0), nodes=3)], jobs)


def apart() -> FleetView:
    """A job of eight GPUs on two nodes, and a node with room for it."""
    free = {"apart-0": 4, "apart-1": 0, "apart-2": 0, "apart-3": 0}
    return view(
        [pool("apart", restless(30, 32), free=free)],
        [work("wide", "apart", {"apart-0": 4, "apart-1": 4}, BATCH)],
    )


PLANTED = [
    (spare, {("idle_pool", "pool/spare")}),
    (empty, {("idle_pool", "pool/empty")}),
    (daily, {("pool_autoscale", "pool/daily")}),
    (filling, {("pool_exhaustion", "pool/filling")}),
    (scattered_room, {("fragmentation", "pool/parts")}),
    (small, {("packing", "pool/small")}),
    (replicas, {("replica_consolidation", "pool/twins")}),
    (dear, {("idle_pool", "pool/cheap"), ("wrong_gpu_type", "web/light")}),
    (slow_node, {("stragglers", "pool/lag")}),
    (apart, {("scattered_placement", "web/wide")}),
]


def test_a_healthy_estate_gives_no_complaint() -> None:
    """The fleet has full pools, jobs on whole nodes, and services that fill their GPUs."""
    assert complaints(healthy()) == {}


def test_every_pool_and_workload_is_judged_once_by_each_rule() -> None:
    """Healthy ones get verdicts too, so that recommendations can close."""
    found = findings(healthy())
    pools = {f"pool/{each.name}" for each in healthy().pools}
    works = {workload.case.key for workload in healthy().workloads}
    for rule in FLEET_RULES:
        assert {key for name, key in found if name == rule.name} in (pools, works)


@pytest.mark.parametrize(
    ("plant", "expected"), PLANTED, ids=lambda each: getattr(each, "__name__", "")
)
def test_planted_waste_alone_is_found(
    plant: object, expected: AbstractSet[tuple[str, str]]
) -> None:
    """The rest of the fleet's workloads add no finding."""
    assert callable(plant)
    assert set(complaints(beside(healthy(), plant()))) == expected


def test_all_of_them_at_once_are_distinguished() -> None:
    """Faults of one pool are not attributed to another."""
    whole = healthy()
    for plant, _ in PLANTED:
        whole = beside(whole, plant())
    expected = {each for _, plants in PLANTED for each in plants}
    # The three remaining cheap GPUs go to the notebooks, as far as they suffice.
    also = {("wrong_gpu_type", "web/nb-0"), ("wrong_gpu_type", "web/nb-1")}
    assert set(complaints(whole)) == expected | also


def test_each_finding_says_what_it_is() -> None:
    """Kind, reason and action are those that sinks and dashboards know."""
    found = {
        name: next(complaint for at, complaint in complaints(plant()).items() if at[0] == name)
        for plant, expected in PLANTED
        for name, _ in expected
    }
    said = {name: (each.kind, each.reasons[0], each.action) for name, each in found.items()}
    over = FindingKind.OVERPROVISIONED
    misplaced = FindingKind.MISPLACED
    assert said | {"idle_pool": None} == {
        "idle_pool": None,
        "pool_autoscale": (over, Reason.DIURNAL_AUTOSCALE, Action.AUTOSCALE),
        "pool_exhaustion": (
            FindingKind.UNDERPROVISIONED,
            Reason.EXHAUSTION_FORECAST,
            Action.NONE,
        ),
        "fragmentation": (misplaced, Reason.CAPACITY_FRAGMENTED, Action.MOVE_GPUS),
        "packing": (over, Reason.SHARING_CANDIDATE_MPS, Action.SHARE_MPS),
        "replica_consolidation": (over, Reason.SHARING_CANDIDATE_MPS, Action.SHARE_MPS),
        "wrong_gpu_type": (over, Reason.GPU_OVERPROVISIONED, Action.CHANGE_GPU_TYPE),
        "stragglers": (
            FindingKind.INEFFICIENT,
            Reason.RANK_IMBALANCE,
            Action.INVESTIGATE_STRAGGLER,
        ),
        "scattered_placement": (misplaced, Reason.NVLINK_ABSENT, Action.MOVE_GPUS),
    }


def test_no_finding_names_more_devices_than_a_row_holds() -> None:
    """A pool may have thousands of devices."""
    large = view([pool("large", restless(300, 600), nodes=100)])
    (found,) = complaints(large).values()
    assert len(found.devices) == 64
    assert set(found.culprits) <= set(found.devices)


def test_what_waits_is_taken_from_what_is_spare() -> None:
    """GPUs that were never needed before are needed now; the rest is still told."""
    for plant, _ in PLANTED:
        estate = plant()
        waiting = [WaitingWork("ml/next", each.name, 3.0) for each in estate.pools]
        before = complaints(estate)
        for key, complaint in complaints(replace(estate, waiting=tuple(waiting))).items():
            if complaint.kind in {FindingKind.OVERPROVISIONED, FindingKind.IDLE}:
                assert key in before
                assert (complaint.savings.gpus_high or 0.0) <= (
                    before[key].savings.gpus_high or 0.0
                )


def test_savings_are_intervals_that_name_their_prices() -> None:
    """A pool whose board has no price has none; energy of a pool is not measured."""
    (found,) = complaints(spare()).values()
    assert found.savings.gpus_low == found.savings.gpus_high == 14.0
    assert found.savings.dollars_per_hour_low == pytest.approx(14 * 3.6)
    assert found.savings.dollars_per_hour_high == pytest.approx(14 * 4.4)
    assert found.savings.price_source == "our contract"
    assert found.savings.kilowatt_hours_per_month_high is None
    unknown = view([pool("spare", restless(8, 16), board="NO-SUCH-BOARD")])
    (found,) = complaints(unknown).values()
    assert found.savings.gpus_high == 14.0
    assert found.savings.dollars_per_hour_high is None
    assert H100 not in found.summary
