"""A fleet run's result, made by hand: two pools, advice of every kind, two teams."""

from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace

from cases import finding, judgement
from estate_views import L4, MARKET, by_day, hours, pool, steady, used, view, work
from readings import DAY, EPOCH, HOUR
from rightsizer.advice.rules.rule import Judgement
from rightsizer.fleet.cases.evaluation import VerdictKind
from rightsizer.fleet.encoder import FleetAnswer
from rightsizer.fleet.model import FleetView, NodeAdvice, WaitingWork
from rightsizer.fleet.pools.placement import place_waiting
from rightsizer.fleet.source import SourceReport, StoreUse
from rightsizer.fleet.usage import FREE, HeldGpu, UseKey, UseSum, usage_of
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.finding import (
    Action,
    Finding,
    FindingKind,
    Instruction,
    Reason,
    Risk,
    Savings,
    Severity,
)
from rightsizer.model.state import Cause, Tier
from rightsizer.model.workload import WorkloadClass

__all__ = ["END", "SPARE", "fleet_answer", "sources"]

END: Final = EPOCH + 14 * DAY
_WINDOW: Final = used(
    0.5,
    used_seconds=14 * DAY / 2e9,
    waste_seconds={Cause.IDLE: 14 * DAY / 4e9},
    energy_joules=3.6e6 * 40,
)


_KIND: Final = "kubernetes"
_USES: Final = {
    UseKey("", "web", "serve", _KIND, L4): UseSum(
        held=672.0,
        used=336.0,
        wasted=168.0,
        idle=168.0,
        joules=3.6e6 * 80,
        workloads={"chat"},
    ),
    UseKey("", "ml", "serve", _KIND, "NO-SUCH-BOARD"): UseSum(
        held=336.0,
        used=168.0,
        wasted=84.0,
        idle=84.0,
        is_measured=False,
        workloads={"label"},
    ),
    UseKey("", "", "batch", FREE, L4): UseSum(
        held=8064.0, wasted=8064.0, free=8064.0, joules=3.6e6 * 500
    ),
    UseKey("", "", "serve", FREE, L4): UseSum(
        held=336.0, wasted=336.0, free=336.0, joules=3.6e6 * 10
    ),
}


def fleet_answer(**facts: Any) -> FleetAnswer:
    """A fleet of 28 GPUs, with usual values by default."""
    judgements = (
        judgement(key="pool/batch", **_of(SPARE)),
        judgement(key="kubernetes:web/chat", **_of(_CHAT)),
        judgement(key="pool/serve", **_of(_FULL)),
    )
    usual: dict[str, Any] = {
        "time": END,
        "lookback_seconds": 14 * 86400.0,
        "sources": sources(),
        "view": replace(_view(), coverage_ratio=0.987),
        "judgements": judgements,
        "tallies": {
            VerdictKind("idle_pool", FindingKind.IDLE, None): 1,
            VerdictKind("idle_pool", FindingKind.OPTIMIZED, None): 1,
            VerdictKind("gpu_count", FindingKind.UNKNOWN, Reason.INSUFFICIENT_DATA): 2,
            VerdictKind("power_cap", FindingKind.UNKNOWN, Reason.UNSUPPORTED_TELEMETRY): 1,
            VerdictKind("idle", FindingKind.OPTIMIZED, None): 3,
        },
        "node_advice": _NODE_ADVICE,
        "waiting": _WAITING,
        "served": place_waiting(replace(_view(), waiting=_WAITING), judgements),
        "advice": _advice(judgements),
        "usage": usage_of(_USES, MARKET),
        "use": StoreUse(285, 1, 2, 4000, 313_209, 9_751_756, 5.125, 1.5),
        "notes": ("2 verdicts are missing, for a fault of this program in packing.",),
    }
    usual |= facts
    usual.setdefault("holdings", tuple(_holdings(usual["view"])))
    return FleetAnswer(market=MARKET, **usual)


def _holdings(of: FleetView) -> Iterator[HeldGpu]:
    """Who holds the devices of a view; half of the hours of what is held is used."""
    holders = {
        device.uuid: workload for workload in of.workloads for device in workload.case.devices
    }
    devices = (fleet_device.device for some in of.pools for fleet_device in some.devices)
    for device in devices:
        hours = {"held": 336.0, "unknown": 0.0, "stalled": 0.0, "lost": 0.0}
        if (holder := holders.get(device.uuid)) is None:
            yield HeldGpu(device.uuid, "", "", 1.0, used=0.0, idle=0.0, free=336.0, **hours)
        else:
            key = holder.case.key
            yield HeldGpu(
                device.uuid, key, holder.team, 1.0, used=168.0, idle=84.0, free=0.0, **hours
            )


def sources() -> tuple[SourceReport, ...]:
    """A source of devices, one of pools, and an absent one."""
    return (
        SourceReport(
            "rightsizer",
            devices=28,
            oldest=EPOCH,
            resolution_seconds=15.0,
            tier=Tier.PROFILING,
            metrics=frozenset({"rightsizer_device_info"}),
            can=("where each device's time went",),
            cannot=("no recording rules: 14 d are read from raw counters",),
            warnings=("the clock of serve-0 is 3 min late",),
        ),
        SourceReport(
            "kube-state-metrics",
            metrics=frozenset({"kube_pod_owner"}),
            can=("Nodes are grouped into pools by their labels.",),
        ),
        SourceReport("slurm"),
    )


def _view() -> Any:
    batch = pool("batch", steady(0.0), nodes=3, each=8)
    serve = pool("serve", by_day(4.0, 2.0), nodes=1, each=4, board=L4)
    quiet = replace(serve, active=hours(steady(1.5)))
    return view(
        (batch, quiet),
        (
            work("chat", "serve", {"serve-0": 2}, board=L4, windows=[_WINDOW] * 2),
            work(
                "label",
                "serve",
                {"serve-0": 1},
                WorkloadClass.BATCH,
                first=2,
                namespace="ml",
                board="NO-SUCH-BOARD",
                windows=[replace(_WINDOW, energy_joules=0.0)],
            ),
        ),
    )


SPARE: Final[Finding] = finding(
    id="vd64lictieky",
    rule="idle_pool",
    reasons=(Reason.IDLE_EMPTY,),
    devices=tuple(f"GPU-batch-{node}-{at}" for node in range(3) for at in range(8)),
    workload=None,
    summary="batch: none of its 24 GPUs was held at any moment.",
    confidence=0.93,
    risk=Risk.VERY_LOW,
    severity=Severity.HIGH,
    savings=Savings(24.0, 24.0, 48.0, 96.0, price_source="our contract", price_date="2026-08"),
    evidence={
        "window_seconds": 1_209_600.0,
        "known_seconds": 1_209_600.0,
        "coverage_ratio": 1.0,
        "gpus": 24,
        "held_most": 0.0,
    },
    instructions=(Instruction("Empty batch-0", "kubectl drain batch-0", "sh"),),
)
_CHAT: Final[Finding] = finding(
    id="5ujnqgynxwjp",
    rule="diurnal_autoscale",
    kind=FindingKind.OVERPROVISIONED,
    reasons=(Reason.DIURNAL_AUTOSCALE,),
    action=Action.AUTOSCALE,
    devices=("GPU-serve-0-0", "GPU-serve-0-1"),
    workload="kubernetes:web/chat",
    summary="chat: diurnal load; autoscaling would have used 25% less.",
    confidence=0.79,
    severity=Severity.MEDIUM,
    savings=Savings(0.5, 1.0, 0.25, 0.5),
    instructions=(Instruction("Scale by the hour", "minReplicaCount: 1", "yaml"),),
)
_FULL: Final[Finding] = finding(
    id="5v3mbtabv665",
    rule="pool_exhaustion",
    kind=FindingKind.UNDERPROVISIONED,
    reasons=(Reason.EXHAUSTION_FORECAST,),
    action=Action.NONE,
    devices=("GPU-serve-0-0",),
    workload=None,
    summary="serve: the most that is held at once reaches all 4 in 2 to 3 days.",
    severity=Severity.CRITICAL,
    savings=Savings(reason="capacity shortage"),
)
_NODE_ADVICE: Final = (
    NodeAdvice(
        id="5ujnqgynxwjp",
        finding="overprovisioned",
        reason="DiurnalAutoscale",
        action="autoscale",
        workload="kubernetes:web/chat",
        devices=("GPU-serve-0-0", "GPU-serve-0-1"),
        confidence=0.8,
    ),
    NodeAdvice(
        id="pl2rn4xq6oat",
        finding="degraded",
        reason="PcieLinkDegraded",
        action="reseat_gpu",
        workload="",
        devices=("GPU-serve-0-3",),
        confidence=None,
    ),
)


_WAITING: Final = (
    WaitingWork("pod/web/queue", "serve", 3.0, 4 * 3600.0, team="web"),
    WaitingWork("pod/ml/giant", "", 16.0, 600.0, 16.0, "ml", team="ml"),
)


def _of(of: Finding) -> dict[str, Any]:
    return {name: getattr(of, name) for name in Finding.__struct_fields__ if name != "key"}


def _advice(judgements: tuple[Judgement, ...]) -> tuple[Advice, ...]:
    """Advice of the judgements, one of them claimed, and an old item."""
    spare, chat, full = (each.finding for each in judgements)
    gone = replace(chat, id="a2b3c4d5e6f7", workload="kubernetes:web/old", key="")
    return (
        Advice(spare, AdviceState.ACTIVE, END - 7 * DAY, END),
        Advice(chat, AdviceState.CLAIMED, END - 3 * DAY, END, actor="ana", why="next week"),
        Advice(full, AdviceState.ACTIVE, END - HOUR, END),
        Advice(gone, AdviceState.EXPIRED, EPOCH, EPOCH + DAY, closed=EPOCH + DAY),
    )
