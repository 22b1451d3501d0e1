"""An empty node is one finding, and so are the empty GPUs on a pool's other nodes."""

from collections.abc import Mapping

from msgspec.structs import replace

from cached_fleet import FIRST_DAY, day_frame, subject_of
from estate_views import MARKET, pool, steady, view
from readings import HOUR
from rightsizer.fleet.cache.grid import COARSE_STEP, DAY
from rightsizer.fleet.model import FleetPool, WaitingWork
from rightsizer.fleet.rules.empty_gpus import RULE
from rightsizer.model.finding import Action, Finding, Reason
from rightsizer.model.state import State

END = view([]).end


def judged(
    empty: Mapping[str, float], waiting: tuple[WaitingWork, ...] = (), nodes: int = 4
) -> dict[str, Finding]:
    """The verdicts by key for pool `p` with eight GPUs a node; `empty` has empty hours by UUID."""
    here: FleetPool = pool("p", steady(0.0), nodes=nodes, free={})
    since = {uuid: END - round(hours * HOUR) for uuid, hours in empty.items()}
    of = replace(view([here], waiting=waiting), empty=since)
    return {each.key: each for each in RULE.in_market(MARKET).judge(of)}


def node(at: int, hours: float = 192.0, count: int = 8) -> dict[str, float]:
    """The first GPUs of a node."""
    return {f"GPU-p-{at}-{gpu}": hours for gpu in range(count)}


def test_an_empty_node_is_one_line() -> None:
    """It has the start of the empty time, the savings, and how to drain the node."""
    found = judged(node(1))
    assert found.keys() == {"node/p-1", "pool/p"}
    assert not found["pool/p"].is_actionable
    line = found["node/p-1"]
    assert line.summary == (
        "p-1 of p: 8 GPUs empty for 8 d, since 2026-01-07 00:00 UTC: drain and return it."
    )
    assert (line.action, line.reasons) == (Action.RELEASE, (Reason.IDLE_EMPTY,))
    assert line.savings.gpus_low == 8.0
    assert "p-1" in line.instructions[0].text


def test_empty_gpus_beside_others_are_one_line_a_pool() -> None:
    """The evidence names the GPUs."""
    found = judged(node(0, 30.0, 3) | node(2, 100.0, 2))
    assert found.keys() == {"pool/p"}
    line = found["pool/p"]
    assert line.summary == (
        "p: 5 GPUs of 2 nodes that others use are "
        "empty for 1 d 6 h to 4 d 4 h (3 on p-0, 2 on p-2)."
    )
    assert line.evidence["gpus_by_node"].keys() == {"p-0", "p-2"}  # type: ignore[attr-defined]
    assert line.savings.gpus_low == 0.0


def test_gpu_empty_for_an_hour_is_no_finding() -> None:
    """Neither is a GPU for which work waits."""
    assert not judged(node(1, 3.0))["pool/p"].is_actionable
    waiting = (WaitingWork("ml/next", "p", 8.0),)
    assert not judged(node(1), waiting)["pool/p"].is_actionable


def test_waiting_work_takes_what_it_needs_of_empty_gpus() -> None:
    """Of nodes that others use first, and each part on one node; the rest is told."""
    empty = node(0, count=3) | node(1) | node(2)
    waits = WaitingWork("ml/next", "p", 2.0, gpus_each=2.0)
    found = judged(empty, (waits,))
    assert found.keys() == {"node/p-1", "node/p-2", "pool/p"}
    assert "p: 1 GPUs of 1 node" in found["pool/p"].summary
    found = judged(empty, (replace(waits, gpus=12.0, gpus_each=4.0),))
    assert found.keys() == {"pool/p"}
    assert found["pool/p"].evidence["gpus_by_node"].keys() == {"p-0", "p-2"}  # type: ignore[attr-defined]


def test_many_empty_nodes_are_one_line() -> None:
    """A list of twelve would be one of a hundred in a larger pool."""
    found = judged({uuid: hours for at in range(12) for uuid, hours in node(at).items()}, nodes=12)
    assert found.keys() == {"nodes/p", "pool/p"}
    assert found["nodes/p"].summary.startswith("12 nodes of p (p-0, p-1, ")
    assert "96 GPUs empty for 8 d" in found["nodes/p"].summary


def test_since_when_a_gpu_is_empty_is_by_its_state_and_by_its_holder() -> None:
    """A GPU is empty since its last work or its last holder's end, whichever is later."""
    days = subject_of(
        day_frame(FIRST_DAY),
        day_frame(FIRST_DAY + 1, state=State.IDLE_EMPTY, busy=0.0),
    )
    second = (FIRST_DAY + 1) * DAY
    assert days.empty_since(0) == second
    assert days.empty_since(second + 3 * COARSE_STEP) == second + 3 * COARSE_STEP
    busy = subject_of(day_frame(FIRST_DAY))
    assert busy.empty_since(0) is None
