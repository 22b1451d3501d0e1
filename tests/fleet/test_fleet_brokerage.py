"""Waiting work is offered free and releasable GPUs: in queue order, each once, cheapest first."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import judgement
from estate_views import DAYS, L4, complaints, device_of, pool, steady, view, work
from readings import GIBIBYTE
from rightsizer.advice.rules.rule import Judgement
from rightsizer.fleet.model import FleetDevice, FleetPool, FleetView, FleetWorkload, WaitingWork
from rightsizer.fleet.pools.placement import PoolOffer, WaitingOutcome, place_waiting
from rightsizer.fleet.pools.reclaim import reclaims_of
from rightsizer.model.device import MigInstance
from rightsizer.model.finding import Action, Savings
from rightsizer.model.workload import WorkloadClass, WorkloadKind

ROUNDED = 1e-5  # Offers are compared to six decimal places.


def a_pool(
    name: str, free: Mapping[str, int], *, nodes: int = 2, each: int = 8, days: float = DAYS
) -> FleetPool:
    """A pool with the given number of free GPUs on some of its nodes."""
    return pool(name, steady(1.0), nodes=nodes, each=each, free=free, days=days)


def with_memory(of: FleetPool, gibibytes: float) -> FleetPool:
    """The same pool of other GPUs."""
    devices = tuple(
        replace(device, device=replace(device.device, memory_total_bytes=gibibytes * GIBIBYTE))
        for device in of.devices
    )
    return replace(of, devices=devices)


def idle(workload: FleetWorkload, advice: str, **facts: Any) -> Judgement:
    """Recommendation to release all that a workload holds."""
    fields: dict[str, Any] = {
        "devices": tuple(device.uuid for device in workload.case.devices),
        **facts,
    }
    return judgement(key=workload.case.key, id=advice, workload=workload.case.key, **fields)


def outcomes(served: WaitingOutcome) -> list[tuple[str, float, bool, dict[str, float]]]:
    """Pool, GPUs, whether available now, and nodes of each offer."""
    return [(offer.pool, offer.gpus, offer.is_now, dict(offer.nodes)) for offer in served.offers]


def steps(offer: PoolOffer) -> list[tuple[str, str, tuple[str, ...]]]:
    """Required steps: action, recommendation, workload."""
    return [(str(step.action), step.advice, step.workloads) for step in offer.steps]


def test_free_gpus_are_given_first_and_only_in_whole_parts() -> None:
    """The fullest node with room is used, so that whole nodes stay whole."""
    here = a_pool("a", {"a-0": 8, "a-1": 3})
    (found,) = place_waiting(view([here], waiting=[WaitingWork("w", "a", 4.0, gpus_each=2.0)]), [])

    assert outcomes(found) == [("a", 4.0, True, {"a-0": 2.0, "a-1": 2.0})]
    assert (found.now_gpus, found.after_gpus, found.left_gpus) == (4.0, 0.0, 0.0)


def test_longest_waiting_comes_first_and_no_gpu_is_promised_twice() -> None:
    """Workloads of unknown waiting time come last."""
    here = a_pool("a", {"a-0": 4})
    waiting = [
        WaitingWork("silent", "a", 2.0, None, 1.0),
        WaitingWork("late", "a", 3.0, 60.0, 1.0),
        WaitingWork("early", "a", 2.0, 3600.0, 1.0),
    ]
    found = place_waiting(view([here], waiting=waiting), [])

    assert [(each.waiting.key, each.now_gpus, each.left_gpus) for each in found] == [
        ("early", 2.0, 0.0),
        ("late", 2.0, 1.0),
        ("silent", 0.0, 2.0),
    ]


def test_the_own_pool_comes_first_then_the_smallest_gpus_that_hold_it() -> None:
    """Other workloads of the same kind show how much memory is needed."""
    own = with_memory(a_pool("own", {"own-0": 1}), 80)
    large, small, tiny = (
        with_memory(a_pool(name, {f"{name}-0": 1}), size)
        for name, size in (("large", 141), ("small", 48), ("tiny", 24))
    )
    like = work("train", "own", {"own-1": 8}, memory=0.5)
    waiting = WaitingWork(like.case.key, "own", 4.0, gpus_each=1.0)
    (found,) = place_waiting(view([large, tiny, small, own], [like], [waiting]), [])

    assert found.memory_bytes == 40 * GIBIBYTE
    assert [pool for pool, *_ in outcomes(found)] == ["own", "small", "large"]
    assert found.left_gpus == 1.0


def test_work_of_unknown_need_stays_off_gpus_smaller_than_its_own() -> None:
    """A request for a pool of 80 GiB GPUs may need that memory."""
    own = with_memory(a_pool("own", {}), 80)
    small = with_memory(a_pool("small", {"small-0": 8}), 48)
    (found,) = place_waiting(
        view([own, small], waiting=[WaitingWork("w", "own", 1.0, gpus_each=1.0)]), []
    )

    assert outcomes(found) == []
    assert found.left_gpus == 1.0


def test_a_scheduler_gets_its_own_nodes_alone() -> None:
    """A Slurm queue cannot use nodes of Kubernetes."""
    pods = a_pool("pods", {"pods-0": 4})
    jobs = a_pool("jobs", {"jobs-0": 4})
    workloads = [
        work("api", "pods", {"pods-1": 8}),
        work("job", "jobs", {"jobs-1": 8}, WorkloadClass.BATCH, kind=WorkloadKind.SLURM),
    ]
    waiting = [
        WaitingWork("jobs", "jobs", 6.0, 9.0, 1.0),
        WaitingWork("w", "", 6.0, 1.0, 1.0, "web"),
    ]
    queue, pod = place_waiting(view([pods, jobs], workloads, waiting), [])

    assert [pool for pool, *_ in outcomes(queue)] == ["jobs"]
    assert [pool for pool, *_ in outcomes(pod)] == ["pods"]


def test_idle_work_is_let_go_where_nothing_is_free() -> None:
    """Their release is the first step."""
    here = a_pool("a", {})
    holder = work("nb", "a", {"a-0": 2}, WorkloadClass.NOTEBOOK)
    waiting = WaitingWork("w", "a", 2.0, gpus_each=2.0)
    (found,) = place_waiting(view([here], [holder], [waiting]), [idle(holder, "abc")])

    assert outcomes(found) == [("a", 2.0, False, {"a-0": 2.0})]
    assert steps(found.offers[0]) == [("release", "abc", ("web/nb",))]
    assert found.offers[0].steps[0].frees == (("a-0", 2),)


def test_of_steps_the_one_that_disturbs_least_comes_first() -> None:
    """A notebook is reopened easily; a job may lose its progress."""
    here = a_pool("a", {})
    job = work("job", "a", {"a-0": 2}, WorkloadClass.BATCH)
    notebook = work("nb", "a", {"a-1": 2}, WorkloadClass.NOTEBOOK)
    waiting = WaitingWork("w", "a", 2.0, gpus_each=2.0)
    advice = [idle(job, "aaa"), idle(notebook, "zzz")]
    (found,) = place_waiting(view([here], [job, notebook], [waiting]), advice)

    assert [step[1] for step in steps(found.offers[0])] == ["zzz"]


def test_of_equal_steps_the_longest_idle_comes_first() -> None:
    """The order is by GPU-hours that were held idle."""
    here = a_pool("a", {})
    some = work("some", "a", {"a-0": 1}, WorkloadClass.NOTEBOOK)
    more = work("more", "a", {"a-1": 2}, WorkloadClass.NOTEBOOK)
    waiting = WaitingWork("w", "a", 1.0, gpus_each=1.0)
    advice = [idle(some, "aaa"), idle(more, "zzz")]
    (found,) = place_waiting(view([here], [some, more], [waiting]), advice)

    assert [step[1] for step in steps(found.offers[0])] == ["zzz"]


def test_one_step_serves_several() -> None:
    """It is listed for each, and the GPUs it frees are offered once."""
    here = a_pool("a", {})
    holder = work("nb", "a", {"a-0": 3}, WorkloadClass.NOTEBOOK)
    waiting = [WaitingWork("x", "a", 1.0, 9.0, 1.0), WaitingWork("y", "a", 4.0, 1.0, 1.0)]
    first, second = place_waiting(view([here], [holder], waiting), [idle(holder, "abc")])

    assert (first.after_gpus, second.after_gpus, second.left_gpus) == (1.0, 2.0, 2.0)
    assert steps(first.offers[0]) == steps(second.offers[0])


def test_moves_make_room_on_one_node_where_gpus_are_scattered() -> None:
    """A service is restarted elsewhere; no recommendation is needed for that."""
    here = a_pool("a", {"a-0": 2, "a-1": 2}, each=4)
    service = work("api", "a", {"a-0": 2})
    waiting = WaitingWork("w", "a", 4.0, gpus_each=4.0)
    (found,) = place_waiting(view([here], [service], [waiting]), [])

    assert outcomes(found) == [("a", 4.0, False, {"a-0": 4.0})]
    assert steps(found.offers[0]) == [("move_gpus", "", ("web/api",))]
    assert found.offers[0].steps[0].target == "a-1"


def test_target_of_a_move_is_no_longer_free() -> None:
    """The next in the queue does not get it."""
    here = a_pool("a", {"a-0": 2, "a-1": 2}, each=4)
    service = work("api", "a", {"a-0": 2})
    waiting = [WaitingWork("w", "a", 4.0, 9.0, 4.0), WaitingWork("next", "a", 2.0, 1.0, 1.0)]
    first, second = place_waiting(view([here], [service], waiting), [])

    assert (first.after_gpus, second.now_gpus, second.left_gpus) == (4.0, 0.0, 2.0)


def test_jobs_are_not_moved() -> None:
    """Moved jobs would start over."""
    here = a_pool("a", {"a-0": 2, "a-1": 2}, each=4)
    job = work("job", "a", {"a-0": 2}, WorkloadClass.BATCH)
    (found,) = place_waiting(view([here], [job], [WaitingWork("w", "a", 4.0, gpus_each=4.0)]), [])

    assert found.left_gpus == 4.0


def test_more_than_is_needed_is_given_back_but_for_one() -> None:
    """The number is the recommendation's lower bound of the savings."""
    here = a_pool("a", {})
    service = work("api", "a", {"a-0": 4})
    fewer = idle(service, "abc", action=Action.REDUCE_REPLICAS, savings=Savings(2.7, 3.5))
    (found,) = reclaims_of(view([here], [service]), [fewer])

    assert found.gpus_by_node == {"a-0": 2}


def test_small_work_that_would_share_frees_all_gpus_but_one() -> None:
    """All but the first are moved, and only where the risk is low."""
    here = a_pool("a", {})
    small = [work(name, "a", {"a-0": 1}, first=at) for at, name in enumerate("xyz")]
    keys = [each.case.key for each in small]
    shared = {"workloads": keys, "how": "mps", "slices": [], "risk": "Low"}
    packing = judgement(
        key="pool/a", id="pck", action=Action.SHARE_MPS, evidence={"together": [shared]}
    )
    (found,) = reclaims_of(view([here], small), [packing])
    risky = replace(
        packing,
        finding=replace(packing.finding, evidence={"together": [shared | {"risk": "High"}]}),
    )

    assert (found.gpus_by_node, found.moves, found.workloads) == ({"a-0": 2}, 2, tuple(keys))
    assert reclaims_of(view([here], small), [risky]) == ()


@pytest.mark.parametrize("change", ["not yet", "shared", "autoscaled"])
def test_uncertain_release_is_not_counted(change: str) -> None:
    """Covers recommendations that may not open, GPUs with further holders, and schedules."""
    here = a_pool("a", {})
    holder = work("nb", "a", {"a-0": 1})
    beside = work("other", "a", {"a-0": 1})
    advice = idle(holder, "abc")
    if change == "not yet":
        advice = replace(advice, may_open=False)
    if change == "autoscaled":
        advice = idle(holder, "abc", action=Action.AUTOSCALE)
    workloads = [holder, beside] if change == "shared" else [holder]

    assert reclaims_of(view([here], workloads), [advice]) == ()


def advised(seen: FleetView) -> list[Judgement]:
    """Findings of the fleet's own rules, as recommendations."""
    return [
        Judgement(replace(complaint, key=key), may_open=True, still_holds=True)
        for (_, key), complaint in complaints(seen).items()
    ]


def test_the_rules_own_advice_on_small_work_makes_room() -> None:
    """Four notebooks on one GPU leave three, for work of a pool that has none free."""
    names = [f"nb-{at}" for at in range(4)]
    small = [
        work(name, "a", {"a-0": 1}, WorkloadClass.NOTEBOOK, compute=0.2, memory=0.2, first=at)
        for at, name in enumerate(names)
    ]
    full = pool("a", steady(8.0), nodes=1)
    seen = view([full], small, [WaitingWork("w", "b", 5.0, gpus_each=1.0)])
    (found,) = place_waiting(seen, advised(seen))

    assert outcomes(found) == [("a", 3.0, False, {"a-0": 3.0})]
    assert [(step[0], step[2]) for step in steps(found.offers[0])] == [
        ("share_mps", tuple(f"web/{name}" for name in names))
    ]


def test_the_rules_own_advice_on_services_that_might_share_promises_nothing() -> None:
    """It has no lower bound of the GPUs freed."""
    light = [
        work(f"api-{at}", "a", {"a-0": 2}, compute=0.1, memory=0.15, board=L4, first=2 * at)
        for at in range(4)
    ]
    full = pool("a", steady(8.0), nodes=1, board=L4)
    seen = view([full], light, [WaitingWork("w", "b", 1.0, gpus_each=1.0)])
    advice = [each for each in advised(seen) if "services" in each.finding.evidence]
    (found,) = place_waiting(seen, advice)

    assert advice
    assert found.left_gpus == 1.0


def test_parts_of_a_gpu_share_one_and_are_never_of_two() -> None:
    """Seven sevenths are one GPU."""
    here = a_pool("a", {"a-0": 2})
    waiting = [
        WaitingWork("slices", "a", 8 / 7, 9.0, 1 / 7),
        WaitingWork("whole", "a", 1.0, 1.0, 1.0),
    ]
    slices, whole = place_waiting(view([here], waiting=waiting), [])

    assert slices.now_gpus == pytest.approx(8 / 7)
    assert whole.now_gpus == 0.0


@st.composite
def estates(draw: st.DrawFn) -> tuple[FleetView, list[Judgement]]:
    """Two pools of small nodes, holders of a few GPUs, and waiting work."""
    pools = []
    workloads = []
    advice = []
    for name in ("a", "b"):
        free: dict[str, int] = {}
        for at in range(3):
            node = f"{name}-{at}"
            used = 0
            for number in range(draw(st.integers(0, 2))):
                count = draw(st.integers(1, 2))
                kind = draw(st.sampled_from(list(WorkloadClass)))
                holder = work(f"{node}-{number}", name, {node: count}, kind, first=used, days=0.1)
                used += count
                workloads.append(holder)
                if draw(st.booleans()):
                    action = draw(st.sampled_from([Action.RELEASE, Action.REDUCE_GPU_COUNT]))
                    saved = Savings(float(count - 1), float(count))
                    key = holder.case.key
                    advice.append(idle(holder, key, action=action, savings=saved))
            free[node] = draw(st.integers(0, 4 - used))
        pools.append(a_pool(name, free, nodes=3, each=4, days=0.1))
    waiting = draw(
        st.lists(
            st.builds(
                WaitingWork,
                st.sampled_from(["p", "q", "r"]),
                st.sampled_from(["a", "b", ""]),
                st.sampled_from([1 / 7, 0.5, 1.0, 2.0, 3.0, 6.0, 20.0]),
                st.none() | st.floats(0, 1e6),
                st.none() | st.sampled_from([1 / 7, 1.0, 2.0, 3.0, 4.0, 5.0]),
            ),
            max_size=6,
        )
    )
    return view(pools, workloads, waiting), advice


def _sum(offers: Iterable[PoolOffer], *, is_now: bool) -> Counter[str]:
    found: Counter[str] = Counter()
    for offer in offers:
        if offer.is_now is is_now:
            for node, gpus in offer.nodes:
                found[node] += gpus  # type: ignore[assignment] # Parts of a GPU too.
    return found


@given(estates())
def test_no_more_is_promised_than_is_free_or_freed(
    estate: tuple[FleetView, list[Judgement]],
) -> None:
    """This holds on every node over all waiting work, and no request gets more than it asks for."""
    seen, advice = estate
    found = place_waiting(seen, advice)
    offers = [offer for each in found for offer in each.offers]
    free = Counter({node: gpus for of in seen.pools for node, gpus in of.free_by_node.items()})
    freed: Counter[str] = Counter()
    arrived: Counter[str] = Counter()
    steps = {(step.workloads, step.frees, step.target) for offer in offers for step in offer.steps}
    for _, frees, target in steps:
        freed.update(dict(frees))
        if target:
            arrived[target] += sum(gpus for _, gpus in frees)
    now = _sum(offers, is_now=True)
    after = _sum(offers, is_now=False)
    for node in free | freed | now | after:
        assert now[node] <= free[node] + ROUNDED
        assert now[node] + after[node] + arrived[node] <= free[node] + freed[node] + ROUNDED
    held = Counter(
        node for workload in seen.workloads for node in workload.nodes.keys() & freed.keys()
    )
    assert all(held[node] for node in freed)
    for each in found:
        assert each.now_gpus + each.after_gpus + each.left_gpus == pytest.approx(each.waiting.gpus)
        assert bool(each.why_left) is (each.left_gpus > 0)


@given(estates())
def test_each_workload_is_asked_once(estate: tuple[FleetView, list[Judgement]]) -> None:
    """No workload is both moved and released, or moved twice; only held GPUs are freed."""
    seen, advice = estate
    offers = [offer for each in place_waiting(seen, advice) for offer in each.offers]
    done = {(step.workloads, step.frees, step.target) for offer in offers for step in offer.steps}
    asked = [key for workloads, *_ in done for key in workloads]
    sizes = {workload.case.key: workload.nodes for workload in seen.workloads}

    assert len(asked) == len(set(asked))
    for (key,), frees, _ in done:
        assert all(gpus <= sizes[key][node] for node, gpus in frees)


def test_an_instance_frees_no_whole_gpu() -> None:
    """Releasing a seventh leaves the other six to others."""
    here = a_pool("a", {})
    holder = work("nb", "a", {"a-0": 1})
    part = MigInstance("GPU-a-0-0", "1g.10gb", 7, 0, 1 / 7, 1 / 8)
    instance = replace(device_of("a-0", 0), mig=part)
    holder = replace(holder, case=replace(holder.case, devices=(instance,)))
    here = replace(here, devices=(FleetDevice(instance, "a-0", "a"),))

    assert reclaims_of(view([here], [holder]), [idle(holder, "x")]) == ()
