"""Pool of waiting work: stated by it, by running work, or by sufficient size."""

import pytest

from estate_views import L4, pool, steady, view, work
from rightsizer.fleet.model import WaitingWork
from rightsizer.fleet.pools.pool import may_wait_for, placed_waiting, waiting_for, waiting_gpus

LARGE = pool("large", steady(30.0), nodes=4, each=8)
SMALL = pool("small", steady(6.0), nodes=4, each=2, board=L4)
SERVICE = work("api", "small", {"small-0": 1}, namespace="web")
TRAINING = work("train", "large", {"large-0": 8}, namespace="ml")
OTHER = work("tune", "small", {"small-1": 1}, namespace="both")
MORE = work("tune-large", "large", {"large-1": 1}, namespace="both")
WORKLOADS = (SERVICE, TRAINING, OTHER, MORE)


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        (WaitingWork("any", "elsewhere", 1.0, gpus_each=1.0), "elsewhere"),
        (WaitingWork(SERVICE.case.key, "", 1.0, gpus_each=1.0), "small"),
        (WaitingWork("ml/next", "", 2.0, gpus_each=2.0, namespace="ml"), "large"),
        (WaitingWork("both/next", "", 2.0, gpus_each=2.0, namespace="both"), ""),
        (WaitingWork("both/next", "", 8.0, gpus_each=4.0, namespace="both"), "large"),
        (WaitingWork("web/next", "", 8.0, gpus_each=8.0, namespace="web"), "large"),
        (WaitingWork("new/next", "", 1.0, gpus_each=1.0, namespace="new"), ""),
        (WaitingWork("new/next", "", 64.0, gpus_each=64.0, namespace="new"), ""),
        (WaitingWork("new/next", "", 64.0, namespace="new"), ""),
    ],
    ids=[
        "named",
        "more of the same",
        "its namespace",
        "a namespace in two pools",
        "the one that is large enough",
        "never one that is too small",
        "nobody knows",
        "too large for any",
        "of unknown parts",
    ],
)
def test_the_pool_is_reported_by_whatever_is_known(waiting: WaitingWork, expected: str) -> None:
    """The most certain information decides."""
    (found,) = placed_waiting([waiting], [LARGE, SMALL], WORKLOADS)
    assert found.pool == expected
    assert found.gpus == waiting.gpus


def test_work_of_another_pool_is_not_waited_for_here() -> None:
    """One pending pod concerns only its own pool."""
    here = WaitingWork("ml/next", "large", 4.0, gpus_each=4.0)
    seen = view([LARGE, SMALL], waiting=[here])
    assert waiting_for(seen, LARGE) == (here,)
    assert (waiting_gpus(seen, SMALL), may_wait_for(seen, SMALL)) == (0, 0)


@pytest.mark.parametrize(
    ("gpus_each", "free", "may"),
    [(2.0, 1, 2.0), (2.0, 2, 0.0), (4.0, 0, 0.0), (None, 1, 2.0)],
    ids=["no node has room", "one has room", "no node is large enough", "of unknown parts"],
)
def test_request_without_a_pool_waits_for_pools_without_room(
    gpus_each: float | None, free: int, may: float
) -> None:
    """It protects GPUs from removal, but does not make a pool undersized."""
    nodes = dict.fromkeys(SMALL.size_by_node, free)
    tight = pool(
        "tight",
        steady(6.0),
        nodes=4,
        each=2,
        free={node.replace("small", "tight"): count for node, count in nodes.items()},
    )
    seen = view([tight], waiting=[WaitingWork("ml/next", "", 2.0, gpus_each=gpus_each)])
    assert may_wait_for(seen, tight) == may
    assert waiting_gpus(seen, tight) == 0
