"""Straggler rule: nodes that are the slowest of several jobs."""

from collections.abc import Iterable

from msgspec.structs import replace

from estate_views import MARKET, pool, steady, used, view, work
from rightsizer.fleet.model import FleetWorkload
from rightsizer.fleet.rules.stragglers import RULE
from rightsizer.model.finding import Action, Finding, Reason
from rightsizer.model.state import Condition, State
from rightsizer.model.window import Window
from rightsizer.model.workload import WorkloadClass

BASE = used(0.5, 0.6, 1.0)
WORKS = replace(BASE, conditions={Condition.RANK_IMBALANCE: BASE.known})
WAITS = replace(WORKS, states={State.HIDDEN_STALL: WORKS.known})
NODES = ("lag-0", "lag-1", "lag-2")


def judged(works: Iterable[FleetWorkload]) -> Finding:
    """The verdict on the only pool."""
    (verdict,) = RULE.in_market(MARKET).judge(view([pool("lag", steady(24.0), nodes=3)], works))
    return verdict


def job(at: int, slow: str | None, each: int = 2) -> FleetWorkload:
    """A job over three nodes, one of which makes the others wait."""
    windows: list[Window] = []
    for node in NODES:
        windows.extend([WORKS if node in (slow, None) else WAITS] * each)
    given = windows if slow else [BASE] * (3 * each)
    nodes = dict.fromkeys(NODES, each)
    return work(f"job-{at}", "lag", nodes, WorkloadClass.BATCH, first=each * at, windows=given)


def test_a_node_that_is_waited_for_in_several_jobs_is_named() -> None:
    """The finding has the node's GPUs, and how to compare it."""
    found = judged([job(0, "lag-1"), job(1, "lag-1"), job(2, None)])
    assert found.reasons == (Reason.RANK_IMBALANCE,)
    assert found.action is Action.INVESTIGATE_STRAGGLER
    assert found.summary == "lag: lag-1 is the odd one in 2 jobs of several nodes."
    assert found.culprits == ("GPU-lag-1-0", "GPU-lag-1-1", "GPU-lag-1-2", "GPU-lag-1-3")
    assert found.instructions[0].title == "Compare lag-1 with another node"
    assert found.savings.gpus_high is None


def test_one_job_is_that_jobs_affair() -> None:
    """The rule on a single job's GPUs reports it already."""
    assert not judged([job(0, "lag-1"), job(1, None)]).is_actionable


def test_different_nodes_in_different_jobs_are_no_slow_node() -> None:
    """Each job has a slow rank of its own."""
    found = judged([job(0, "lag-0"), job(1, "lag-1")])
    assert not found.is_actionable
    assert found.evidence["jobs_by_node"] == {"lag-0": ["web/job-0"], "lag-1": ["web/job-1"]}


def test_jobs_of_one_node_say_nothing_of_nodes() -> None:
    """Such jobs compare only GPUs of the same node."""
    alone = [
        work(
            f"one-{at}",
            "lag",
            {"lag-1": 2},
            WorkloadClass.BATCH,
            first=2 * at,
            windows=[WORKS, WAITS],
        )
        for at in range(2)
    ]
    assert not judged(alone).is_actionable
