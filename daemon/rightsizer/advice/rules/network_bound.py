"""GPUs whose exchange with other nodes takes longer than their work."""

from typing import Final

from rightsizer.advice.market import Market
from rightsizer.advice.observation import minimum_known, observe, on_ratio
from rightsizer.advice.rules.bottleneck import slow_opening_policy
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.advice.verdict import complain, released
from rightsizer.model.device import Device
from rightsizer.model.finding import Action, Case, Finding, FindingKind, Instruction, Reason, Risk
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.state import Cause, Condition
from rightsizer.model.topology import Adapter, AdapterKind, LinkKind
from rightsizer.model.window import Window

NAME: Final = "network_bound"
_KINDS: Final = tuple(LinkKind)
_FABRIC: Final = frozenset({AdapterKind.INFINIBAND, AdapterKind.NETWORK})


@dataclass(frozen=True, slots=True)
class NetworkBoundSettings:
    """From when on waiting for the network is a finding."""

    on_ratio: float = on_ratio(
        0.3,
        "Share of the span for which a GPU must wait while its ports are busy.",
        "docs/definitions.md, conduct: as for a hidden stall, it keeps all ranks waiting",
    )
    minimum_known_seconds: float = minimum_known()
    conduct: OpeningPolicy = field(default_factory=slow_opening_policy)


def judge(case: Case, settings: NetworkBoundSettings, market: Market) -> Finding:
    """Whether a GPU of the workload waits while the ports next to it are at their rate."""
    shares = {each.uuid: each.condition_share(Condition.NETWORK_BOUND) for each in case.windows}

    seen = observe(NAME, case, settings, shares, "held up by the network")
    if isinstance(seen, Finding):
        return seen
    lost = sum(
        _lost(window, shares[window.uuid]) * device.capacity_ratio
        for window, device in zip(case.windows, case.devices, strict=True)
    )
    capacity = case.gpus
    return complain(
        NAME,
        case,
        kind=FindingKind.INEFFICIENT,
        reasons=(Reason.NETWORK_BOUND,),
        action=Action.NONE,
        summary=f"{seen.summary}, with the ports nearest to the GPUs at their rate.",
        factors=seen.factors,
        risk=Risk.VERY_LOW,
        evidence=seen.evidence,
        savings=released(case, market, 0.0, lost / capacity),
        minimum_confidence_ratio=market.settings.minimum_confidence_ratio,
        instructions=_instructions(case, seen.devices),
        affected_gpus=lost,
    )


def _lost(window: Window, share: float) -> float:
    """At most the time at the limit, and at most what no cause of its own is known for."""
    if not window.waste_seconds or window.known_seconds <= 0.0:
        return share
    return min(share, window.waste_seconds.get(Cause.HEADROOM, 0.0) / window.known_seconds)


def _instructions(case: Case, devices: tuple[Device, ...]) -> tuple[Instruction, ...]:
    return (
        Instruction(
            "See which ports and which transport the collectives take",
            "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH COMMAND",
            "sh",
        ),
        *_nearest(case, devices),
        Instruction(
            "See what the fabric gives without the job",
            (
                "ibstat; perfquery -x\n"
                f"mpirun -N {len(case.devices)} all_reduce_perf -b 8M -e 4G -f 2 -g 1"
            ),
            "sh",
        ),
        Instruction(
            "Send less, or beside the work",
            (
                "larger gradient buckets and more overlap (DistributedDataParallel(..., "
                "bucket_cap_mb=100), FSDP's forward_prefetch), gradient accumulation, bf16 "
                "gradients, shards kept within a node (HYBRID_SHARD)"
            ),
        ),
    )


def _nearest(case: Case, devices: tuple[Device, ...]) -> tuple[Instruction, ...]:
    topology = case.node.topology if case.node else None
    adapters = [each for each in topology.adapters if each.kind in _FABRIC] if topology else []
    near = dict.fromkeys(_nearest_to(device, adapters) for device in devices if adapters)
    names = [name for name in near if name]
    if not names:
        return ()
    return (
        Instruction(
            "Let NCCL take the adapters next to these GPUs",
            f"export NCCL_IB_HCA={','.join(names)} NCCL_NET_GDR_LEVEL=PXB",
            "sh",
        ),
    )


def _nearest_to(device: Device, adapters: list[Adapter]) -> str:
    reached = [each for each in adapters if device.uuid in each.links]
    if not reached:
        return ""
    return min(reached, key=lambda each: (_KINDS.index(each.links[device.uuid]), each.name)).name


RULE: Final = Rule(NAME, NetworkBoundSettings(), judge)
