"""The broker of a node's GPUs, over a thousand simulated arrivals in a week, killed all the while.

The same people come to two nodes of eight GPUs, one with a switch and one without NVLink. They are
served by first-free placement, by the broker with whole GPUs only, and by the broker as it is,
whose process is killed with -9 again and again and goes on from its store.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from broker_node import hgx, pcie_box
from evaluation.broker.allocators import FirstFree, KilledAgents, LocalBroker
from evaluation.broker.arrivals import WEEK_SECONDS, Arrival, arrivals
from evaluation.broker.week import WeekCounts, live
from evaluation.options import Options
from measured import summarized, table
from rightsizer.model.topology import Topology

ARRIVALS: Final = 1000
KILLS: Final = 20
"""In each of the two weeks."""
NODES: Final[Mapping[str, Callable[[], Topology]]] = {
    "HGX, one switch": hgx,
    "PCIe, pairs below a switch": pcie_box,
}
_GPUS: Final = 8
_HOUR: Final = 3600.0
_BROKER: Final = "broker, shared"


class Outcome:
    """Counts of a week with kills."""

    def __init__(self, lived: WeekCounts, agents: KilledAgents) -> None:
        self.lived = lived
        self.kills = agents.kills
        self.torn = agents.torn
        self.lost = agents.lost
        self.resurrected = agents.resurrected


def evaluate(_: Options) -> Iterator[str]:
    """Both nodes, three ways to lend their GPUs."""
    coming = arrivals(ARRIVALS, seed=1)
    hours = sum(each.gpus * each.lasts_seconds for each in coming) / _HOUR
    offered = _GPUS * WEEK_SECONDS / _HOUR
    yield (
        f"{ARRIVALS} arrivals in a week request {hours:.0f} of {offered:.0f} GPU-hours; "
        f"{sum(each.ticket.request.may_share for each in coming)} of them may share a GPU, "
        f"{sum(each.gpus > 1 for each in coming)} request several.\n"
    )
    outcomes = {name: _outcomes(topology(), coming) for name, topology in NODES.items()}
    lived = {name: outcome[0] for name, outcome in outcomes.items()}
    yield "Waiting, in minutes: median and 95th percentile.\n"
    first_node = next(iter(NODES))
    yield summarized(
        _waits(lived),
        ("node", "scheduler", "all", "1 GPU", "2", "4", "8", "longest"),
        sums_up=lambda line: line[0] == first_node,
    )
    yield ""
    headings = (
        "node",
        "scheduler",
        "GPU-hours leased",
        "work in each",
        "busy",
        "best links",
        "days",
    )
    yield table(_use(lived), headings) + "\n"
    yield table(
        _promises({name: outcome[1] for name, outcome in outcomes.items()}),
        (
            "node",
            "kills",
            "in a request",
            "leases lost",
            "revived",
            "leased twice",
            "memory overcommitted",
            "never served",
        ),
    )


def lend_and_kill(
    topology: Topology, coming: Sequence[Arrival], kills: int, folder: Path
) -> Outcome:
    """The broker as it is, killed at so many moments."""
    # Each arrival brings a question and two looks at least.
    agents = KilledAgents(folder / "broker.db", kills, 2 * len(coming), seed=1)
    try:
        return Outcome(live(agents, topology, coming), agents)
    finally:
        agents.close()


def _outcomes(
    topology: Topology, coming: Sequence[Arrival]
) -> tuple[dict[str, WeekCounts], Outcome]:
    with tempfile.TemporaryDirectory() as folder:
        outcome = lend_and_kill(topology, coming, KILLS, Path(folder))
    return {
        "first free": live(FirstFree(), topology, coming),
        "broker, whole GPUs": live(LocalBroker(may_share=False), topology, coming),
        _BROKER: outcome.lived,
    }, outcome


def _waits(lived: Mapping[str, Mapping[str, WeekCounts]]) -> Iterator[tuple[str, ...]]:
    for node, ways in lived.items():
        for way, each in ways.items():
            cells = (
                f"{each.wait_of(0.5, gpus) / 60:.0f}, {each.wait_of(0.95, gpus) / 60:.0f}"
                for gpus in (None, 1, 2, 4, 8)
            )
            yield node, way, *cells, f"{max(each.waits.values()) / 60:.0f}"


def _use(lived: Mapping[str, Mapping[str, WeekCounts]]) -> Iterator[tuple[str, ...]]:
    for node, ways in lived.items():
        for way, each in ways.items():
            yield (
                node,
                way,
                f"{each.leased_seconds / _HOUR:.0f}",
                f"{each.job_seconds / each.leased_seconds:.2f}",
                f"{each.demand_seconds / each.leased_seconds:.0%}",
                f"{each.joined} of {each.several}",
                f"{each.ends_seconds / 86400:.1f}",
            )


def _promises(outcomes: Mapping[str, Outcome]) -> Iterator[tuple[str, ...]]:
    for node, outcome in outcomes.items():
        unserved = len(outcome.lived.sizes) - len(outcome.lived.waits)
        counts = (outcome.kills, outcome.torn, outcome.lost, outcome.resurrected)
        broken = (outcome.lived.doubles, outcome.lived.overfull, unserved)
        yield node, *(str(count) for count in (*counts, *broken))
