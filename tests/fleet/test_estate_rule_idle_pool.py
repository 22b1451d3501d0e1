"""Idle pool rule: GPUs of a pool that were never needed."""

import pytest
from msgspec.structs import replace

from estate_views import MARKET, growing, hours, pool, restless, steady, view, work
from readings import workload
from rightsizer.fleet.model import FleetPool, FleetView, WaitingWork
from rightsizer.fleet.pools.hourly import SpareSettings, spare_of
from rightsizer.fleet.rules.idle_pool import RULE
from rightsizer.model.finding import Action, Finding, FindingKind, Reason, Risk
from rightsizer.model.workload import WorkloadClass, WorkloadKind


def judged(of: FleetPool | FleetView) -> Finding:
    """The verdict on the only pool."""
    found = of if isinstance(of, FleetView) else view([of])
    (verdict,) = RULE.in_market(MARKET).judge(found)
    return verdict


def test_gpus_never_needed_can_be_removed() -> None:
    """A margin is kept, and whole nodes are removed where possible."""
    found = judged(pool("spare", restless(8, 16), nodes=5))
    assert found.kind is FindingKind.OVERPROVISIONED
    assert found.reasons == (Reason.GPU_COUNT_OVERPROVISIONED,)
    assert found.action is Action.REDUCE_GPU_COUNT
    assert found.summary == (
        "spare: at no moment were more than 16 of its 40 GPUs held; 22 GPUs can go, 2 whole nodes "
        "among them, and 18 leave room."
    )
    assert [option.target for option in found.options] == ["2 nodes", "18"]
    assert found.evidence["spare_nodes"] == ["spare-2", "spare-3"]
    assert found.risk is Risk.VERY_LOW
    assert found.confidence > 0.9
    assert "kubectl drain spare-2 " in found.instructions[0].text


def test_a_pool_that_is_all_empty_is_released() -> None:
    """The finding is an idle pool, not an oversized one."""
    found = judged(pool("empty", steady(0.0), nodes=2))
    assert found.kind is FindingKind.IDLE
    assert found.reasons == (Reason.IDLE_EMPTY,)
    assert found.action is Action.RELEASE
    assert found.summary == "empty: none of its 16 GPUs was held at any moment."
    assert [option.target for option in found.options] == ["2 nodes"]


def test_the_peak_within_the_hour_counts() -> None:
    """An hour's mean does not show the moment at which all GPUs were held."""
    quiet = pool("bursts", steady(2.0))
    burst = replace(quiet, held_peak=hours(lambda hour: 31.0 if hour == 100 else 2.0))
    assert not judged(burst).is_actionable


def test_a_little_room_is_no_waste() -> None:
    """Less than a tenth of the pool is kept as reserve for busy days."""
    found = judged(pool("busy", restless(20, 27)))
    assert found.kind is FindingKind.OPTIMIZED
    assert found.summary == "busy: 27 of its 32 GPUs were held at once."


def test_work_that_waits_takes_what_it_needs() -> None:
    """The rest is not needed; what waits for another pool takes nothing."""
    roomy = pool("spare", restless(8, 16), nodes=5)
    kept = [
        judged(view([roomy], waiting=[WaitingWork("ml/next", name, 20.0)])).evidence["keep"]
        for name in ("other", "spare")
    ]
    assert kept == [18, 33]


def test_work_that_names_no_pool_waits_for_those_that_have_no_room() -> None:
    """Such work could already run in a pool that has a whole node free."""
    anywhere = WaitingWork("ml/next", "", 8.0)
    roomy = pool("spare", restless(8, 16))
    thin = pool("spare", restless(8, 16), free=dict.fromkeys(roomy.size_by_node, 4))
    found = [judged(view([one], waiting=[anywhere])).evidence for one in (roomy, thin)]
    assert ["waiting_gpus" in each for each in found] == [False, True]


def test_growing_pool_is_not_reduced() -> None:
    """Half of it was never held, but within a month all of it will be."""
    assert not judged(pool("filling", growing(10.0, 1.0))).is_actionable


@pytest.mark.parametrize("days", [3.0, 5.9])
def test_a_history_shorter_than_a_week_says_nothing(days: float) -> None:
    """A weekend may need all of it."""
    found = judged(view([pool("new", steady(4.0), days=days)], days=days))
    assert found.reasons == (Reason.INSUFFICIENT_DATA,)
    assert found.abstained is not None


def test_hours_of_the_week_that_were_never_seen_say_nothing() -> None:
    """The two weeks contain no known Monday."""

    def course(hour: int) -> float | None:
        return None if hour // 24 % 7 in (4, 5) else 4.0

    found = judged(pool("gaps", course))
    assert found.reasons == (Reason.INSUFFICIENT_DATA,)


def test_a_pool_that_is_half_unseen_says_nothing() -> None:
    """Unseen time may have had a peak."""
    found = judged(pool("holes", lambda hour: 4.0 if hour % 3 else None, days=28))
    assert found.abstained == "only 67% of the span is known"


def test_a_pool_without_gpus_says_nothing() -> None:
    """The pool's GPUs have all disappeared."""
    assert judged(pool("gone", steady(0.0), nodes=0)).abstained == "it has no GPU now"


def test_slurm_drains_its_own_way() -> None:
    """The action depends on the scheduler of the pool's workloads."""
    job = work("job", "spare", {"spare-0": 8}, WorkloadClass.BATCH, kind=WorkloadKind.SLURM)
    assert job.case.workload != workload()
    found = judged(view([pool("spare", restless(8, 16))], [job]))
    assert found.instructions[0].text.startswith("scontrol update nodename=spare-2 state=drain")


def test_the_id_survives_a_gpu_more_or_less() -> None:
    """Targets of large pools are rounded to twentieths."""
    one = judged(pool("large", restless(100, 390, seed=3), nodes=100))
    other = judged(pool("large", restless(100, 393, seed=3), nodes=100))
    assert one.id == other.id
    assert one.id != judged(pool("large", restless(100, 600), nodes=100)).id


def test_gpus_held_now_are_not_removed() -> None:
    """The hours may be older than the store's present state."""
    one = pool("spare", steady(2.0))
    now = replace(one, free_by_node=dict.fromkeys(one.size_by_node, 1))
    assert spare_of(now, SpareSettings()).keep == 28
