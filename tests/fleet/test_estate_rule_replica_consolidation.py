"""Replica consolidation rule: services that keep light replicas of similar size."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from estate_views import H100, L4, MARKET, pool, steady, used, view, work
from rightsizer.fleet.model import FleetWorkload, WaitingWork
from rightsizer.fleet.rules.replica_consolidation import RULE
from rightsizer.model.finding import Action, Finding
from rightsizer.model.state import Resource
from rightsizer.model.workload import Allocator, WorkloadClass

POOL = pool("twins", steady(8.0), nodes=1, board=L4)


def judged(works: Iterable[FleetWorkload], waiting: Iterable[WaitingWork] = ()) -> Finding:
    """The verdict on the only pool."""
    (verdict,) = RULE.in_market(MARKET).judge(view([POOL], works, waiting))
    return verdict


def service(at: int, count: int = 2, **facts: Any) -> FleetWorkload:
    """A light service with a GPU for each replica."""
    usual: dict[str, Any] = {"compute": 0.1, "memory": 0.15, "board": L4, "first": 2 * at}
    return work(f"api-{at}", "twins", {"twins-0": count}, **usual | facts)


def test_replicas_of_several_services_lie_on_the_same_gpus() -> None:
    """The number of replicas, and so their redundancy, stays."""
    found = judged(map(service, range(4)))
    assert found.action is Action.SHARE_MPS
    assert found.summary == (
        "twins: the replicas of 4 services fit on 2 GPUs instead of 8, one of each service on a "
        "GPU; 6 would be free."
    )
    assert (found.savings.gpus_low, found.savings.gpus_high) == (0, 6)


def test_the_service_with_most_replicas_decides() -> None:
    """Three replicas and two fit on three GPUs."""
    found = judged([service(0, 3), service(2, 2)])
    assert found.evidence["gpus_freed"] == 2


@pytest.mark.parametrize(
    "facts",
    [
        {"workload_class": WorkloadClass.BATCH},
        {"allocator": Allocator.PREALLOCATING},
        {"compute": 0.6},
        {"memory": 0.6},
        {"compute": lambda hour: None if hour % 2 else 0.1},
    ],
    ids=["batch", "preallocating", "busy", "full", "unknown"],
)
def test_replica_that_does_not_fit_stays(facts: dict[str, Any]) -> None:
    """Neither does one that is not known to fit."""
    assert not judged([service(at, **facts) for at in range(4)]).is_actionable


def test_strangers_stay_apart() -> None:
    """Time-sharing does not isolate workloads of different owners."""
    assert not judged([service(at, namespace=f"n-{at}") for at in range(4)]).is_actionable


def test_parts_of_one_model_are_no_replicas() -> None:
    """They exchange data over NVLink, or may do so."""
    talking = used(0.1, 0.15)
    talking = replace(
        talking,
        demands={**talking.demands, Resource.NVLINK: talking.demands[Resource.COMPUTE]},
    )
    loud = [service(at, board=H100, windows=[talking] * 2) for at in range(4)]
    assert not judged(loud).is_actionable
    unmeasured = replace(
        talking,
        demands={
            key: demand for key, demand in talking.demands.items() if key is not Resource.NVLINK
        },
    )
    silent = [service(at, board=H100, windows=[unmeasured] * 2) for at in range(4)]
    assert not judged(silent).is_actionable


def test_nothing_moves_while_work_waits() -> None:
    """A pool is never oversized while work waits for it."""
    assert not judged(map(service, range(4)), [WaitingWork("ml/x", "twins", 1.0)]).is_actionable
