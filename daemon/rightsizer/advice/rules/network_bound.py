"""Rule: GPUs that wait for data exchange with other nodes."""

from typing import Annotated, Final

from rightsizer.advice.board_status import abstain_unobserved
from rightsizer.advice.instructions import instruction
from rightsizer.advice.observation import in_condition, observe, screen_observed, unobserved
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.savings import release_savings
from rightsizer.advice.screen import Screen, SubjectTable
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.values import (
    Action,
    AdapterKind,
    Case,
    Cause,
    Condition,
    Device,
    Finding,
    Instruction,
    LinkKind,
    Reason,
    Signal,
    Spec,
)

_KINDS: Final = tuple(LinkKind)
_PORTS: Final = (
    Signal.INFINIBAND_RECEIVE,
    Signal.INFINIBAND_TRANSMIT,
    Signal.NETWORK_RECEIVE_BYTES_PER_SECOND,
    Signal.NETWORK_TRANSMIT_BYTES_PER_SECOND,
)
_FABRIC: Final = frozenset({AdapterKind.INFINIBAND, AdapterKind.NETWORK})


class NetworkBoundSettings(RuleSettings, frozen=True):
    """Thresholds for network limits.

    Attributes:
        on_ratio: Share of the span that a GPU waits with busy ports.
            Source: docs/definitions.md, conduct: as for a hidden stall, it keeps all ranks waiting
    """

    on_ratio: Annotated[float, Spec(within=(0.001, 1))] = 0.3
    conduct: OpeningPolicy = OpeningPolicy.slow()


def judge(subject: CaseSubject, settings: NetworkBoundSettings) -> Finding:
    """Whether a GPU of the workload waits while the nearest network ports are saturated."""
    case = subject.case
    is_bound = in_condition(Condition.NETWORK_BOUND)
    seen = observe(subject, settings, is_bound, "held up by the network")
    if isinstance(seen, Finding):
        return abstain_unobserved(seen, subject, _PORTS, "the network", "share_ratio")
    lost = 0.0
    for window, device in zip(case.windows, case.devices, strict=True):
        share = seen.shares[window.uuid]
        seconds = window.known_seconds
        if window.waste_seconds and seconds > 0.0:
            # Limited to the loss that has no other known cause.
            share = min(share, window.waste_seconds.get(Cause.HEADROOM, 0.0) / seconds)
        lost += share * device.capacity_ratio
    fabric = f"mpirun -N {len(case.devices)} all_reduce_perf -b 8M -e 4G -f 2 -g 1"
    return seen.find_problem(
        ", with the ports nearest to the GPUs at their rate",
        reasons=(Reason.NETWORK_BOUND,),
        action=Action.NONE,
        savings=release_savings(case, subject.market, 0.0, lost / case.gpus),
        instructions=(
            instruction("show_transport"),
            *_nearest(case, seen.devices),
            Instruction("Test the fabric without the job", f"ibstat; perfquery -x\n{fabric}", "sh"),
            instruction("send_less"),
        ),
        affected_gpus=lost,
    )


def _nearest(case: Case, devices: tuple[Device, ...]) -> tuple[Instruction, ...]:
    """Name the adapter nearest to each device in NCCL's settings."""
    topology = case.node.topology if case.node else None
    adapters = (
        [adapter for adapter in topology.adapters if adapter.kind in _FABRIC] if topology else []
    )
    names: dict[str, None] = {}
    for uuid in (device.uuid for device in devices):
        reached = [(_KINDS.index(a.links[uuid]), a.name) for a in adapters if uuid in a.links]
        if reached:
            names[min(reached)[1]] = None
    if not any(names):
        return ()
    text = f"export NCCL_IB_HCA={','.join(filter(None, names))} NCCL_NET_GDR_LEVEL=PXB"
    return (Instruction("Have NCCL use the adapters next to these GPUs", text, "sh"),)


def screen(table: SubjectTable, settings: NetworkBoundSettings) -> Screen:
    """Settle which subjects do not wait for the network."""
    share = table.condition_share(Condition.NETWORK_BOUND)
    yield from screen_observed(
        table, settings, share, *unobserved(table, share, _PORTS, "the network")
    )


RULE: Final = Rule("network_bound", NetworkBoundSettings(), judge, screen)
