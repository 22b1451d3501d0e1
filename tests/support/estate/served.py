"""Placement of the fleet's waiting work that a broker can truly offer, and its comparison."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from estate.layout import LARGE, SMALL, Layout
from estate.truth import Metrics
from estate.waiting import PENDING, QUEUED

__all__ = ["PlantedWait", "WaitScore", "planted_waits", "wait_score"]

_Nodes = Mapping[str, float]


class PlantedWait(Struct, frozen=True):
    """A waiting workload, its place, and its possible remedies."""

    what: str
    key: str
    """Key of its workload or partition."""
    pool: str
    """Its pool; empty if unknown."""
    now: _Nodes
    """GPUs that it could have at once, by node."""
    after: _Nodes
    steps: tuple[tuple[str, str, str], ...] = ()
    """What to do first: the action, to whom, and the node that it is moved to."""
    left: float = 0.0
    why: str = ""
    """Words that are said of the rest."""
    needs: frozenset[Metrics] = frozenset(Metrics)
    """Metrics that show it."""


class WaitScore(Struct, frozen=True):
    """Comparison with the truth."""

    found: tuple[PlantedWait, ...]
    missed: tuple[PlantedWait, ...]
    wrong: tuple[str, ...]
    """False statements."""


_MOVED: Final = PlantedWait(
    "a job of a whole node, once a service is moved",
    "kubernetes:assembly/assemble",
    "burst",
    {},
    {"burst-1": 4.0},
    (("move_gpus", "kubernetes:previews/preview", "burst-2"),),
)
_FULL: Final = PlantedWait(
    "a service of a full pool, once another gives back a replica",
    "kubernetes:production/summarize",
    "serve",
    {},
    {"serve-1": 1.0},
    (("reduce_replicas", "kubernetes:production/search-rank", ""),),
    # An exporter cannot show that replicas do not communicate.
    needs=frozenset({Metrics.OWN, Metrics.RULES}),
)
_ANYWHERE: Final = PlantedWait(
    "a job of no pool, at once on unused GPUs",
    "kubernetes:newcomers/try-out",
    "",
    {"spare-1": 1.0},
    {},
)
_HUGE: Final = PlantedWait(
    "a job that is larger than any node",
    "kubernetes:moonshots/colossus",
    "",
    {},
    {},
    left=16.0,
    why="6 pools have no node of 16 GPUs",
)
_QUEUE: Final = PlantedWait(
    "a Slurm queue of which only the length is known",
    "train",
    "train",
    {},
    {},
    left=float(sum(QUEUED["train"].values())),
    why="6 pools are another scheduler's",
)


def _whole(after: _Nodes, left: float, why: str, *steps: tuple[str, str, str]) -> PlantedWait:
    """In one fleet releasing an idle notebook is enough for it, in the other it is not."""
    what = "a job that wants on one node all that is free in its pool"
    key = "kubernetes:research/big-finetune"
    return PlantedWait(what, key, "batch", {}, after, steps, left, why)


def _small_jobs(now: _Nodes) -> PlantedWait:
    what = "jobs of one GPU each, at once where some are free"
    return PlantedWait(what, "kubernetes:vision/label-images", "batch", now, {})


_ALIKE: Final = (_MOVED, _FULL, _ANYWHERE, _HUGE, _QUEUE)
_WAITS: Final[Mapping[str, tuple[PlantedWait, ...]]] = {
    SMALL.name: (
        *_ALIKE,
        _whole({"batch-2": 2.0}, 0.0, "", ("release", "kubernetes:notebooks/notebook-lab", "")),
        _small_jobs({"batch-1": 1.0}),
    ),
    LARGE.name: (
        *_ALIKE,
        _whole({}, 4.0, "no node of batch, burst, serve has 4 GPUs left"),
        _small_jobs({"batch-1": 1.0, "batch-2": 2.0, "batch-3": 1.0}),
    ),
}


def planted_waits(layout: Layout, metrics: Metrics) -> tuple[PlantedWait, ...]:
    """Planted waits visible in a fleet."""
    return tuple(each for each in _WAITS[layout.name] if metrics in each.needs)


def wait_score(layout: Layout, metrics: Metrics, document: Mapping[str, Any]) -> WaitScore:
    """Compare `waiting_work` in the JSON of `rightsizer fleet` with the truth.

    Each step of the advice must be among the findings of the same answer.
    """
    by_key = {each["key"]: each for each in document["waiting_work"]}
    planted = planted_waits(layout, metrics)
    asked = _asked(layout)
    advised = {(each["id"], each["key"]): each["action"] for each in document["findings"]}
    found = tuple(
        each
        for each in planted
        if each.key in by_key and _is_so(each, by_key[each.key], asked[each.key], advised)
    )
    unseen = {each.key for each in _WAITS[layout.name]} - {each.key for each in planted}
    right = {each.key for each in found}
    wrong = tuple(str(each) for key, each in by_key.items() if key not in right | unseen)
    return WaitScore(found, tuple(each for each in planted if each not in found), wrong)


def _asked(layout: Layout) -> Mapping[str, tuple[float, float | None]]:
    """Requested GPUs and waiting time, by key."""
    pending = {
        each.key: (float(each.pods * each.gpus_each), 60.0 * each.minutes)
        for each in PENDING[layout.name]
    }
    queued = {name: (float(sum(users.values())), None) for name, users in QUEUED.items()}
    return {**pending, **queued}


def _is_so(
    planted: PlantedWait,
    finding: Mapping[str, Any],
    asked: tuple[float, float | None],
    advised: Mapping[tuple[str, str], str],
) -> bool:
    steps = [step for offer in finding["offers"] for step in offer["steps"]]
    return (
        finding["pool"] == planted.pool
        and (finding["gpus"], finding["waiting_seconds"]) == asked
        and _nodes(finding["offers"], is_now=True) == planted.now
        and _nodes(finding["offers"], is_now=False) == planted.after
        and planted.steps
        == tuple((step["action"], *step["workloads"], step["target"] or "") for step in steps)
        and all(
            step["advice"] is None
            or advised.get((step["advice"], step["workloads"][0])) == step["action"]
            for step in steps
        )
        and finding["left_gpus"] == planted.left
        and (planted.why in finding["why_left"] if planted.why else finding["why_left"] is None)
    )


def _nodes(offers: Iterable[Mapping[str, Any]], *, is_now: bool) -> dict[str, float]:
    return {
        node: gpus
        for offer in offers
        if offer["is_now"] is is_now
        for node, gpus in offer["nodes"].items()
    }
