"""Rule: silent nodes, missing GPUs, and lost profiling.

These appear in no other figure. Nodes removed by a scheduler are not missed: where a scheduler
lists the nodes of a cluster, only listed nodes count, and targets that are still scraped.

Silence is a finding about the exporter; hardware is blamed only with a second witness: a critical
Xid, fewer GPUs offered by the node, or most of its GPUs still seen where nothing tells what it
offers.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Annotated, Final, NamedTuple

from rightsizer.advice.market import Market
from rightsizer.advice.rules.rule import OpeningPolicy, RuleSettings
from rightsizer.advice.verdict import CaseSubject
from rightsizer.fleet.model import FleetDevice, FleetPool, FleetView, LostDevice
from rightsizer.fleet.pools.pool import MOST_DEVICES, PoolSubject, pool_key
from rightsizer.fleet.rules.rule import PRESENT, FleetRule, node_key
from rightsizer.io.terminal import counted
from rightsizer.model.values import (
    CONSTANT,
    CRITICAL_XIDS,
    HOUR_SECONDS,
    Action,
    Case,
    Finding,
    Instruction,
    Nanoseconds,
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

NAME: Final = "disappearance"
_MOST_NODES: Final = 8
"""Per pool that are named individually; more of them have one cause."""
_MOST_NAMED: Final = 6
_LISTED = {"fact": 0.95}
_UNLISTED = {"fact": 0.45}
"""By whether the node is known to be expected. Without a scheduler's list it may have been
returned, so that it is a finding and no advice."""
_SAVINGS: Final = "what is not seen is in no figure"
_SEE_NODE: Final = """\
ping -c 3 {node}
kubectl get node {node} -o wide || scontrol show node {node}
kubectl get pods -A -o wide --field-selector spec.nodeName={node} | grep -E 'dcgm|rightsizer'
"""
_SEE_EXPORTER: Final = """\
kubectl get pods -A -o wide --field-selector spec.nodeName={node} | grep -E 'dcgm|rightsizer'
# On {node}:
nvidia-smi -L
systemctl status nvidia-dcgm nvidia-dcgm-exporter rightsizer --no-pager
"""
_SEE_GPU: Final = """\
# On {node}:
nvidia-smi -L
dmesg -T | grep -E 'NVRM: Xid|fallen off the bus' | tail
"""
_SEE_FIELDS: Final = """\
# On {node}: another profiler holds the counters, or the exporter's list of counters has changed.
dcgmi profile --resume
dcgm-exporter --version; grep DCGM_FI_PROF_ /etc/dcgm-exporter/*.csv
"""


class DisappearanceSettings(RuleSettings, frozen=True):
    """Thresholds for lost nodes, GPUs and profiling.

    Attributes:
        on_ratio: Share of a node's GPUs that must be gone.
            Source: one GPU of a node is worth reporting
        minimum_known_seconds: Known time below which the rule abstains.
            Source: silence needs no telemetry
        silent_seconds: How long a GPU or a node must be silent.
            Source: assumed; a node reboots in less, and so does a rollout of an exporter
        unprofiled_seconds: How long a GPU that had profiling must lack it.
            Source: assumed; a profiler holds the counters for less
    """

    on_ratio: Annotated[float, Spec(within=(0.001, 1))] = 0.01
    minimum_known_seconds: Annotated[float, CONSTANT] = 0.0
    silent_seconds: Annotated[float, Spec(within=(600, None))] = 2 * HOUR_SECONDS
    unprofiled_seconds: Annotated[float, Spec(within=(HOUR_SECONDS, None)), CONSTANT] = (
        6 * HOUR_SECONDS
    )
    conduct: OpeningPolicy = PRESENT


class _Place(NamedTuple):
    cluster: str
    pool: str
    node: str


class _Loss(NamedTuple):
    """What is missing of a node or a pool, and the remedy."""

    key: str
    lost: Sequence[LostDevice]
    summary: str
    instructions: Sequence[Instruction]
    factors: Mapping[str, float] = _LISTED
    reason: Reason = Reason.TELEMETRY_LOST
    action: Action = Action.RESTORE_TELEMETRY


def judge(view: FleetView, settings: DisappearanceSettings, market: Market) -> tuple[Finding, ...]:
    """Whether a node fell silent, a GPU disappeared, or profiling was lost, and since when."""
    there = {
        _node(device): pool.size_by_node.get(device.node, 0)
        for pool in view.pools
        for device in pool.devices
    }
    listed = {
        device.cluster
        for pool in view.pools
        for device in pool.devices
        if device.scheduler is not None
    }
    gone = [
        lost_device
        for lost_device in view.lost
        if not lost_device.is_profiling
        and view.end - lost_device.since >= nanoseconds(settings.silent_seconds)
        and (lost_device.device.cluster not in listed or _is_listed(lost_device.device))
    ]
    verdicts = [_profiling(view, pool, settings, market) for pool in view.pools]
    losses = _silent_nodes(
        view, [lost_device for lost_device in gone if _node(lost_device.device) not in there]
    )
    single = [
        lost_device
        for lost_device in gone
        if _node(lost_device.device) in there and not _is_replaced(view, lost_device)
    ]
    for place, lost in _by_place(single):
        left = there[place.cluster, place.node]
        if len(lost) >= settings.on_ratio * (left + len(lost)):
            losses.append(_gone(view, place, lost, left))
    return (*verdicts, *(_problem(view, loss, market) for loss in losses))


def _is_listed(device: FleetDevice) -> bool:
    return device.scheduler is not None or device.is_awaited


def _node(device: FleetDevice) -> tuple[str, str]:
    return device.cluster, device.node


def _by_place(lost: Iterable[LostDevice]) -> list[tuple[_Place, list[LostDevice]]]:
    def place(lost_device: LostDevice) -> _Place:
        return _Place(lost_device.device.cluster, lost_device.device.pool, lost_device.device.node)

    ordered = sorted(
        lost, key=lambda lost_device: (place(lost_device), lost_device.device.device.index)
    )
    return [(where, list(group)) for where, group in groupby(ordered, key=place)]


def _is_replaced(view: FleetView, lost: LostDevice) -> bool:
    device = lost.device
    return any(
        _node(fleet_device) == _node(device)
        and fleet_device.device.mig is None
        and (fleet_device.device.index, fleet_device.device.pci_bus_id)
        == (device.device.index, device.device.pci_bus_id)
        for pool in view.pools
        for fleet_device in pool.devices
    )


def _silent_nodes(view: FleetView, silent: Sequence[LostDevice]) -> list[_Loss]:
    """Return one loss per node, or per pool if many of its nodes are silent."""
    living = [lost_device for lost_device in silent if _is_up(lost_device.device)]
    others = [lost_device for lost_device in silent if not _is_up(lost_device.device)]
    nodes = []
    for together, lost_devices in (("nodes", others), ("exporters", living)):
        places = _by_place(lost_devices)
        for (cluster, pool), of_pool in groupby(places, key=lambda entry: entry[0][:2]):
            several = list(of_pool)
            if len(several) > _MOST_NODES:
                names = [place.node for place, _ in several]
                what = f"{len(names)} nodes of {pool} ({first_names(names, _MOST_NAMED)})"
                lost = [lost_device for _, group in several for lost_device in group]
                nodes.append(_silence(view, f"{together}/{pool}", what, names, lost))
            else:
                nodes += [
                    _silence(view, node_key(cluster, node), f"{node} of {pool}", [node], lost)
                    for (*_, node), lost in several
                ]
    return nodes


def _is_up(device: FleetDevice) -> bool:
    return device.witness is not None and device.witness.is_up is True


def _silence(
    view: FleetView, key: str, what: str, nodes: Sequence[str], lost: Sequence[LostDevice]
) -> _Loss:
    since = max(lost_device.since for lost_device in lost)
    count = counted(len(lost), "GPU")
    is_listed = any(_is_listed(lost_device.device) for lost_device in lost)
    beside = "" if is_listed else ", unless it was given back"
    silent = f"silent for {_age(view, since)}{beside}"
    title = "See whether {node} is up"
    commands = _SEE_NODE
    witness = lost[0].device.witness
    if witness is not None and _is_up(lost[0].device):
        is_listed = True
        silent = f"no exporter of GPUs for {_age(view, since)}, while it is up by {witness.source}"
        title = "See what happened to the exporter of {node}"
        commands = _SEE_EXPORTER
    elif witness is not None and witness.is_up is False:
        silent = f"silent for {_age(view, since)}, and down by {witness.source}"
    return _Loss(
        key,
        lost,
        f"{what}: {silent}; its {count} were seen last at {utc_text(seconds(since))}.",
        [
            Instruction(title.format(node=node), commands.format(node=node), "sh")
            for node in nodes[:_MOST_NAMED]
        ],
        _LISTED if is_listed else _UNLISTED,
    )


def _gone(view: FleetView, place: _Place, lost: Sequence[LostDevice], left: int) -> _Loss:
    named = ", ".join(
        f"GPU {lost_device.device.device.index} for {_age(view, lost_device.since)}"
        + (f" (held by {lost_device.holder} then)" if lost_device.holder else "")
        for lost_device in lost
    )
    there = f"its other {counted(left, 'GPU')} {'is' if left == 1 else 'are'} there"
    key = node_key(place.cluster, place.node)
    witness = _second_witness(lost, left)
    if not witness:
        commands = _SEE_EXPORTER.format(node=place.node)
        return _Loss(
            key,
            lost,
            f"{place.node} of {place.pool}: not exported any more: {named}; {there}, and nothing "
            "else says that the hardware failed.",
            [Instruction(f"See what the exporter of {place.node} reads", commands, "sh")],
        )
    return _Loss(
        key,
        lost,
        f"{place.node} of {place.pool}: gone: {named}; {there}{witness.rstrip()}.",
        [Instruction(f"See what {place.node} has left", _SEE_GPU.format(node=place.node), "sh")],
        reason=Reason.HARDWARE_UNHEALTHY,
        action=Action.RESEAT_OR_DRAIN,
    )


_NEIGHBORS: Final = " "
"""Witness that needs no words: the summary counts the GPUs that are there."""


def _second_witness(lost: Sequence[LostDevice], left: int) -> str:
    """Return what beside the silence says that hardware failed; empty without anything."""
    logs = [lost_device.device.xids for lost_device in lost if lost_device.device.xids is not None]
    codes = sorted({code for log in logs for code in log.counts if code in CRITICAL_XIDS})
    if codes:
        return f", after Xid {', '.join(map(str, codes))}"
    witness = lost[0].device.witness
    if witness is not None and witness.has_shrunk is not None:
        return ", and the node offers fewer" if witness.has_shrunk else ""
    return _NEIGHBORS if len(lost) <= left else ""


def _profiling(
    view: FleetView, pool: FleetPool, settings: DisappearanceSettings, market: Market
) -> Finding:
    """Judge the profiling of one pool: its nodes share one exporter's list of counters."""
    name = pool.name
    key = pool_key(pool.name)
    lost = [
        lost_device
        for lost_device in view.lost
        if lost_device.is_profiling
        and lost_device.device.pool == name
        and view.end - lost_device.since >= nanoseconds(settings.unprofiled_seconds)
    ]
    if not lost:
        subject = PoolSubject.of(NAME, view, pool, market)
        return subject.find_nothing(f"{name}: nothing was lost.")
    ages = {
        place.node: _age(view, max(lost_device.since for lost_device in group))
        for place, group in _by_place(lost)
    }
    named = first_names([f"{node} for {age}" for node, age in ages.items()], _MOST_NAMED)
    summary = (
        f"{name}: profiling is lost on {counted(len(lost), 'GPU')} ({named}); what limits them is "
        "not known any more."
    )
    first = next(iter(ages))
    title = f"See why {first} exports no profiling"
    commands = _SEE_FIELDS.format(node=first)
    loss = _Loss(key, lost, summary, [Instruction(title, commands, "sh")])
    return _problem(view, loss, market)


def _problem(view: FleetView, loss: _Loss, market: Market) -> Finding:
    lost = loss.lost
    since = max(lost_device.since for lost_device in loss.lost)
    devices = tuple(lost_device.device.device for lost_device in lost[:MOST_DEVICES])
    window = Window(loss.key, since, view.end, states={State.UNKNOWN: view.end - since})
    return CaseSubject(NAME, Case(loss.key, None, devices, (window,), ()), market).find_problem(
        reasons=(loss.reason,),
        action=loss.action,
        summary=loss.summary,
        factors=loss.factors,
        risk=Risk.VERY_LOW,
        evidence={
            "since": {
                lost_device.device.device.uuid: utc_text(seconds(lost_device.since))
                for lost_device in lost
            },
            "nodes": sorted({lost_device.device.node for lost_device in lost}),
        },
        culprits=tuple(device.uuid for device in devices),
        savings=_SAVINGS,
        instructions=tuple(loss.instructions),
        affected_gpus=sum(lost_device.device.device.capacity_ratio for lost_device in lost),
    )


def _age(view: FleetView, since: Nanoseconds) -> str:
    return format_duration(seconds(view.end - since))


RULE: Final = FleetRule(NAME, DisappearanceSettings(), judge)
