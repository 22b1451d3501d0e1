"""GPUs that nothing holds, node by node, and of the nodes that are partly used pool by pool.

The rule `idle` says it of each GPU, which of a fleet is a list that is not read. How many GPUs a
pool needs at all is judged by `idle_pool`, from weeks of who held them.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from rightsizer.advice.market import Market
from rightsizer.advice.rules.rule import OpeningPolicy
from rightsizer.advice.verdict import CaseSubject
from rightsizer.console.text import counted
from rightsizer.fleet.model import FleetPool, FleetView
from rightsizer.fleet.pools.pool import PoolSubject, may_wait_for, pool_key
from rightsizer.fleet.pools.reclaim import take_out
from rightsizer.fleet.rules.rule import FleetRule, FleetVerdict
from rightsizer.model.device import Device
from rightsizer.model.finding import Action, Case, Finding, Option, Reason, Risk
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import setting
from rightsizer.model.state import State
from rightsizer.model.units import (
    DAY_SECONDS,
    HOUR_SECONDS,
    NANOSECONDS_PER_SECOND,
    Nanoseconds,
    format_duration,
    nanoseconds,
    seconds,
)
from rightsizer.model.window import Window
from rightsizer.report.labels import first_names

NAME: Final = "empty_gpus"
_MOST_NODES: Final = 8
"""Of one pool that have a line each; more of them have one together."""
_MOST_DEVICES: Final = 64
_MOST_NAMED: Final = 6
_SURE: Final = {"fact": 0.95}
_WHOLE: Final = 1.0 - 1e-6


@dataclass(frozen=True, slots=True)
class EmptyGpusSettings:
    """When GPUs that nothing holds are worth a word.

    Attributes:
        on_ratio: Part of a pool's GPUs that must be empty.
            Source: one GPU of a hundred is worth a line
        minimum_known_seconds: Known time under which the rule abstains.
            Source: emptiness is what was seen
        empty_seconds: How long a GPU must have been empty.
            Source: assumed; a night is no reason to return a node
    """

    on_ratio: float = setting(0.01, within=(0.001, 1))
    minimum_known_seconds: float = setting(0.0)
    empty_seconds: float = setting(DAY_SECONDS, within=(HOUR_SECONDS, None))
    conduct: OpeningPolicy = field(
        default_factory=lambda: OpeningPolicy(
            long_seconds=14 * DAY_SECONDS,
            short_seconds=DAY_SECONDS / 4,
            minimum_known_seconds=0.0,
            close_after_seconds=HOUR_SECONDS,
        )
    )


class _Node:
    """The GPUs of a node, and since when each is empty."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size
        self.devices: list[Device] = []
        self.since: list[Nanoseconds] = []
        self.gpus = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether nothing holds any of it."""
        return self.size > 0 and self.gpus >= self.size * _WHOLE


def judge(view: FleetView, settings: EmptyGpusSettings, market: Market) -> tuple[FleetVerdict, ...]:
    """Which nodes are empty, and which GPUs of nodes that are partly used."""
    return tuple(each for pool in view.pools for each in _pool(view, pool, settings, market))


def _pool(
    view: FleetView, pool: FleetPool, settings: EmptyGpusSettings, market: Market
) -> list[FleetVerdict]:
    subject = PoolSubject.of(NAME, view, pool, market)
    nodes = _nodes(view, pool, settings)
    gpus = sum(each.gpus for each in nodes)
    key = pool_key(pool.name)
    if waiting := may_wait_for(view, pool):
        why = f"Work waits for {waiting:g} GPUs of {pool.name}, which will take what is empty."
        return [FleetVerdict(key, subject.find_nothing(why))]
    if not gpus or gpus < settings.on_ratio * subject.size:
        summary = f"{pool.name}: no GPU is empty for {format_duration(settings.empty_seconds)}."
        return [FleetVerdict(key, subject.find_nothing(summary))]
    empty = [each for each in nodes if each.is_empty]
    partly = [each for each in nodes if not each.is_empty]
    found = []
    if len(empty) > _MOST_NODES:
        found.append(_returned(subject, f"nodes/{pool.name}", empty))
    else:
        place = f"{pool.cluster}/" if pool.cluster else ""
        found += [_returned(subject, f"node/{place}{each.name}", [each]) for each in empty]
    if partly:
        found.append(FleetVerdict(key, _scattered(subject, partly)))
    else:
        summary = f"{pool.name}: what is empty of it are whole nodes."
        found.append(FleetVerdict(key, subject.find_nothing(summary)))
    return found


def _nodes(view: FleetView, pool: FleetPool, settings: EmptyGpusSettings) -> list[_Node]:
    """Nodes with GPUs that are empty for long enough, by name."""
    found: dict[str, _Node] = {}
    for each in pool.devices:
        since = view.empty.get(each.device.uuid)
        if since is not None and view.end - since >= nanoseconds(settings.empty_seconds):
            size = pool.size_by_node.get(each.node, 0)
            node = found.setdefault(each.node, _Node(each.node, size))
            node.devices.append(each.device)
            node.since.append(since)
            node.gpus += each.device.capacity_ratio
    return [found[name] for name in sorted(found)]


def _returned(subject: PoolSubject, key: str, nodes: Sequence[_Node]) -> FleetVerdict:
    """Nodes that are wholly empty."""
    pool, since = subject.pool, max(max(each.since) for each in nodes)
    gpus, names = sum(each.size for each in nodes), [each.name for each in nodes]
    age = format_duration(seconds(subject.view.end - since))
    if len(nodes) == 1:
        what = f"{names[0]} of {pool.name}: {counted(gpus, 'GPU')} empty"
        it = "it"
    else:
        named = first_names(names, _MOST_NAMED)
        what = f"{len(names)} nodes of {pool.name} ({named}): {gpus} GPUs empty"
        it = "them"
    summary = f"{what} for {age}, since {_utc(since)}: drain and return {it}."
    return FleetVerdict(key, _complaint(subject, key, nodes, gpus, summary, returned=True))


def _scattered(subject: PoolSubject, nodes: Sequence[_Node]) -> Finding:
    """Empty GPUs beside others that are held."""
    gpus, since = sum(each.gpus for each in nodes), [at for each in nodes for at in each.since]
    end = subject.view.end
    shortest, longest = (format_duration(seconds(end - at)) for at in (max(since), min(since)))
    ages = longest if shortest == longest else f"{shortest} to {longest}"
    named = [f"{each.gpus:g} on {each.name}" for each in nodes]
    summary = (
        f"{subject.name}: {gpus:g} GPUs of {counted(len(nodes), 'node')} that others use are empty "
        f"for {ages} ({first_names(named, _MOST_NAMED)})."
    )
    return _complaint(subject, pool_key(subject.name), nodes, gpus, summary, returned=False)


def _complaint(  # noqa: PLR0913 - what is told of it.
    subject: PoolSubject,
    key: str,
    nodes: Sequence[_Node],
    gpus: float,
    summary: str,
    *,
    returned: bool,
) -> Finding:
    devices = [device for each in nodes for device in each.devices]
    since = max(max(each.since) for each in nodes)
    end = subject.view.end
    window = Window(key, since, end, states={State.IDLE_EMPTY: end - since})
    # What lies beside others' GPUs is only saved once work has moved there.
    savings = subject.savings(gpus if returned else 0.0, gpus)
    what = "drain and return" if returned else "place work that waits elsewhere here"
    case = Case(key, None, tuple(devices[:_MOST_DEVICES]), (window,), ())
    return CaseSubject(NAME, case, subject.market).complain(
        reasons=(Reason.IDLE_EMPTY,),
        action=Action.RELEASE,
        summary=summary,
        factors=_SURE,
        risk=Risk.LOW,
        evidence={
            "idle_since": _utc(since),
            "gpus_by_node": {each.name: _named(each) for each in nodes},
        },
        options=(Option(what, Risk.LOW, action=Action.RELEASE, fits=True, savings=savings),),
        savings=savings,
        instructions=take_out([each.name for each in nodes], subject.scheduler) if returned else (),
        affected_gpus=gpus,
    )


def _named(node: _Node) -> Mapping[str, str]:
    """Each of its empty GPUs, and since when it is empty."""
    pairs = zip(node.devices, node.since, strict=True)
    return {device.uuid: _utc(at) for device, at in pairs}


def _utc(time: Nanoseconds) -> str:
    return f"{datetime.fromtimestamp(time // NANOSECONDS_PER_SECOND, UTC):%Y-%m-%d %H:%M} UTC"


RULE: Final = FleetRule(NAME, EmptyGpusSettings(), judge)
