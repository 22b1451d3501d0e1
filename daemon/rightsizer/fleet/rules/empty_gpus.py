"""Rule: GPUs without holders, by node, and by pool for partly used nodes.

The rule `idle` reports single GPUs, too many rows for a fleet. How many GPUs a pool needs is
judged by `idle_pool`, from weeks of holdings.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.advice.market import Market
from rightsizer.advice.rules.rule import OpeningPolicy, RuleSettings
from rightsizer.fleet.model import FleetPool, FleetView
from rightsizer.fleet.pools.pool import (
    MOST_DEVICES,
    PoolSubject,
    may_wait_for,
    pool_key,
    waiting_parts,
)
from rightsizer.fleet.pools.reclaim import take_out
from rightsizer.fleet.rules.rule import PRESENT, FleetRule, node_key
from rightsizer.io.terminal import counted
from rightsizer.model.values import (
    CONSTANT,
    DAY_SECONDS,
    HOUR_SECONDS,
    Action,
    Case,
    Device,
    Finding,
    Nanoseconds,
    Option,
    Reason,
    Risk,
    Spec,
    State,
    Window,
    format_duration,
    nanoseconds,
    seconds,
    utc_text,
)
from rightsizer.report.labels import first_names

NAME: Final = "empty_gpus"
_MOST_NODES: Final = 8
"""Per pool that get a line each; more of them are combined."""
_MOST_NAMED: Final = 6
_SURE: Final = {"fact": 0.95}
_WHOLE: Final = 1.0 - 1e-6


class EmptyGpusSettings(RuleSettings, frozen=True):
    """Thresholds for GPUs that nothing holds.

    Attributes:
        on_ratio: Share of a pool's GPUs that must be empty.
            Source: one GPU of a hundred is worth reporting
        minimum_known_seconds: Known time below which the rule abstains.
            Source: emptiness is what was seen
        empty_seconds: How long a GPU must have been empty.
            Source: assumed; a night is no reason to return a node
    """

    on_ratio: Annotated[float, Spec(within=(0.001, 1))] = 0.01
    minimum_known_seconds: Annotated[float, CONSTANT] = 0.0
    empty_seconds: Annotated[float, Spec(within=(HOUR_SECONDS, None))] = DAY_SECONDS
    conduct: OpeningPolicy = PRESENT


class _Node(Struct, frozen=True):
    name: str
    size: int
    empty: list[tuple[Device, Nanoseconds]] = []
    """Its empty GPUs, and since when each is empty."""

    @property
    def gpus(self) -> float:
        return sum(device.capacity_ratio for device, _ in self.empty)

    @property
    def is_empty(self) -> bool:
        return self.size > 0 and self.gpus >= self.size * _WHOLE


def judge(view: FleetView, settings: EmptyGpusSettings, market: Market) -> tuple[Finding, ...]:
    """Which nodes are empty, and which GPUs of partly used nodes."""
    return tuple(finding for pool in view.pools for finding in _pool(view, pool, settings, market))


def _pool(
    view: FleetView, pool: FleetPool, settings: EmptyGpusSettings, market: Market
) -> list[Finding]:
    subject = PoolSubject.of(NAME, view, pool, market)
    nodes = _without(_nodes(view, pool, settings), waiting_parts(view, pool))
    key = pool_key(pool.name)
    gpus = sum(node.gpus for node in nodes)
    if not gpus and (waiting := may_wait_for(view, pool)):
        why = f"Work waits for {waiting:g} GPUs of {pool.name}, which will take what is empty."
        return [subject.find_nothing(why)]
    if not gpus or gpus < settings.on_ratio * subject.size:
        summary = f"{pool.name}: no GPU is empty for {format_duration(settings.empty_seconds)}."
        return [subject.find_nothing(summary)]
    empty = [node for node in nodes if node.is_empty]
    partly = [node for node in nodes if not node.is_empty]
    if len(empty) > _MOST_NODES:
        findings = [_returned(subject, f"nodes/{pool.name}", empty)]
    else:
        findings = [_returned(subject, node_key(pool.cluster, node.name), [node]) for node in empty]
    summary = f"{pool.name}: what is empty of it are whole nodes."
    beside = _scattered(subject, key, partly) if partly else subject.find_nothing(summary)
    return [*findings, beside]


def _nodes(view: FleetView, pool: FleetPool, settings: EmptyGpusSettings) -> list[_Node]:
    nodes: dict[str, _Node] = {}
    for device in pool.devices:
        since = view.empty.get(device.device.uuid)
        if since is not None and view.end - since >= nanoseconds(settings.empty_seconds):
            node = _Node(device.node, pool.size_by_node.get(device.node, 0))
            nodes.setdefault(device.node, node).empty.append((device.device, since))
    return [nodes[name] for name in sorted(nodes)]


def _without(nodes: Sequence[_Node], parts: Iterable[float]) -> list[_Node]:
    """Return what is left of empty GPUs once waiting work has its parts, each on one node.

    Nodes that others use are filled first, the fullest before others.
    """
    left = list(nodes)
    for part in parts:
        fitting = [node for node in left if node.gpus >= part * _WHOLE]
        if fitting:
            node = min(fitting, key=lambda node: (node.is_empty, node.gpus, node.name))
            kept = list(node.empty)
            taken = 0.0
            while taken < part * _WHOLE:
                device, _ = kept.pop()
                taken += device.capacity_ratio
            left[left.index(node)] = replace(node, empty=kept)
    return [node for node in left if node.empty]


def _returned(subject: PoolSubject, key: str, nodes: Sequence[_Node]) -> Finding:
    pool = subject.pool
    since = max(_since(nodes))
    names = [node.name for node in nodes]
    gpus = sum(node.size for node in nodes)
    age = format_duration(seconds(subject.view.end - since))
    if len(nodes) == 1:
        what = f"{names[0]} of {pool.name}: {counted(gpus, 'GPU')} empty"
        them = "it"
    else:
        named = first_names(names, _MOST_NAMED)
        what = f"{len(names)} nodes of {pool.name} ({named}): {gpus} GPUs empty"
        them = "them"
    summary = f"{what} for {age}, since {utc_text(seconds(since))}: drain and return {them}."
    return _problem(subject, key, nodes, gpus, summary, returned=True)


def _scattered(subject: PoolSubject, key: str, nodes: Sequence[_Node]) -> Finding:
    gpus = sum(node.gpus for node in nodes)
    since = _since(nodes)
    end = subject.view.end
    shortest, longest = (format_duration(seconds(end - at)) for at in (max(since), min(since)))
    ages = longest if shortest == longest else f"{shortest} to {longest}"
    named = [f"{round(node.gpus, 2):g} on {node.name}" for node in nodes]
    summary = (
        f"{subject.name}: {round(gpus, 2):g} GPUs of {counted(len(nodes), 'node')} that others use "
        f"are empty for {ages} ({first_names(named, _MOST_NAMED)})."
    )
    return _problem(subject, key, nodes, gpus, summary, returned=False)


def _since(nodes: Iterable[_Node]) -> list[Nanoseconds]:
    return [since for node in nodes for _, since in node.empty]


def _problem(  # noqa: PLR0913 - parts of a verdict.
    subject: PoolSubject,
    key: str,
    nodes: Sequence[_Node],
    gpus: float,
    summary: str,
    *,
    returned: bool,
) -> Finding:
    devices = [device for node in nodes for device, _ in node.empty]
    since = max(_since(nodes))
    end = subject.view.end
    window = Window(key, since, end, states={State.IDLE_EMPTY: end - since})
    case = Case(key, None, tuple(devices[:MOST_DEVICES]), (window,), ())
    # GPUs beside those of others save money only once work has moved there.
    savings = subject.savings(gpus if returned else 0.0, gpus)
    what = "drain and return" if returned else "place work that waits elsewhere here"
    return replace(subject, case=case).find_problem(
        reasons=(Reason.IDLE_EMPTY,),
        action=Action.RELEASE,
        summary=summary,
        factors=_SURE,
        risk=Risk.LOW,
        evidence={
            "idle_since": utc_text(seconds(since)),
            "gpus_by_node": {
                node.name: {device.uuid: utc_text(seconds(at)) for device, at in node.empty}
                for node in nodes
            },
        },
        options=(Option(what, Risk.LOW, action=Action.RELEASE, fits=True, savings=savings),),
        savings=savings,
        instructions=take_out([node.name for node in nodes], subject.scheduler) if returned else (),
        affected_gpus=gpus,
    )


RULE: Final = FleetRule(NAME, EmptyGpusSettings(), judge)
