"""Rule: GPUs of one workload that communicate over the host while better ones are available."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from operator import attrgetter
from typing import Annotated, Final

from msgspec import Struct

from rightsizer.advice.confidence import direct_factors
from rightsizer.advice.instructions import kind_of
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.screen import Screen, SubjectTable, too_little, well
from rightsizer.advice.verdict import CaseSubject, names_of
from rightsizer.model.values import (
    CONSTANT,
    Action,
    Case,
    Device,
    Finding,
    GpuLink,
    Instruction,
    LinkKind,
    Node,
    Option,
    Reason,
    Resource,
    Risk,
    Spec,
    Topology,
    WorkloadClass,
)
from rightsizer.owners.owner import shell
from rightsizer.owners.registry import owner_of
from rightsizer.sizing.gpu_sets import MOST_CANDIDATES, SetScore, best_set, link_score, score_of


class BetterGpus(Struct, frozen=True):
    """Better-connected set of the same number of GPUs."""

    devices: tuple[Device, ...]
    score: SetScore
    swaps: Mapping[str, str]
    """Workloads that must move, by name, with the uuid of the GPU that they get instead."""


def better_gpus(
    devices: Sequence[Device], node: Node, topology: Topology, gain_ratio: float
) -> BetterGpus | None:
    """Best set of GPUs worth moving to, or `None`.

    `gain_ratio`: required increase of the sum over pairs if the weakest pair stays the same.
    """
    now = score_of(_uuids(devices), topology)
    board = devices[0].board, devices[0].name
    same = [
        device
        for device in node.devices
        if device.mig is None and device.is_given_out and (device.board, device.name) == board
    ]
    held = {device.uuid: device for device in devices}
    # Neither a holder nor a process.
    idle = {uuid for uuid, reading in node.readings.items() if reading.processes == ()}
    free = {
        device.uuid: device
        for device in same
        if device.uuid in idle and not node.holdings.get(device.uuid)
    }
    movable = {device.uuid: device for device in same if _sole_holder(device, node) is not None}
    for eligible in (held | free, held | free | movable):
        candidates = sorted(eligible, key=lambda uuid: (eligible[uuid].index, uuid))
        if len(candidates) > MOST_CANDIDATES:
            continue
        placement_set = best_set(candidates, len(devices), topology, set(held))
        if placement_set is None or set(placement_set.uuids) == set(held):
            continue
        gain = placement_set.score.weakest - now.weakest
        if gain > 0 or (gain == 0 and placement_set.score.total >= now.total * (1.0 + gain_ratio)):
            then = tuple(eligible[uuid] for uuid in placement_set.uuids)
            return BetterGpus(then, placement_set.score, _swaps(devices, then, node))
    return None


def _sole_holder(device: Device, node: Node) -> str | None:
    """Name of the only holder, if it holds no other GPU, or `None`."""
    holders = node.holdings.get(device.uuid, ())
    if len(holders) != 1:
        return None
    workload = holders[0].workload
    held = sum(
        any(holding.workload.key == workload.key for holding in others)
        for others in node.holdings.values()
    )
    return workload.name if held == 1 else None


def _uuids(devices: Sequence[Device]) -> list[str]:
    return [device.uuid for device in devices]


def _swaps(devices: Sequence[Device], then: Sequence[Device], node: Node) -> Mapping[str, str]:
    given, taken = (
        sorted(
            (device for device in some if device.uuid not in others),
            key=attrgetter("index", "uuid"),
        )
        for some, others in ((devices, _uuids(then)), (then, _uuids(devices)))
    )
    names = ((_sole_holder(one, node), other.uuid) for one, other in zip(taken, given, strict=True))
    return {name: uuid for name, uuid in names if name is not None}


_FAR: Final = frozenset({LinkKind.PHB, LinkKind.NODE, LinkKind.SYSTEM})


class NvlinkAbsentSettings(RuleSettings, frozen=True):
    """Thresholds for poorly connected GPUs.

    Attributes:
        on_ratio: Need for a GPU's PCIe link from which links between GPUs matter.
            Source: assumed; KempnerPulse calls 1 GB/s input and output, collectives are well above
            that
        gain_ratio: Minimum relative increase of the sum of pair scores, unless the weakest pair
            improves.
            Source: assumed; a move restarts the workload
        attribution_ratio: Confidence that a multi-GPU job's PCIe traffic is between its GPUs.
            Source: assumed; some of it feeds the GPUs
        class_only_ratio: Confidence, unmeasured, that GPUs of one batch job exchange data.
            Source: assumed; most jobs of several GPUs train one model
    """

    on_ratio: Annotated[float, Spec(within=(0.001, 1))] = 0.1
    gain_ratio: Annotated[float, Spec(within=(0.01, 100)), CONSTANT] = 0.5
    attribution_ratio: Annotated[float, CONSTANT] = 0.8
    class_only_ratio: Annotated[float, CONSTANT] = 0.65
    conduct: OpeningPolicy = OpeningPolicy()


def judge(subject: CaseSubject, settings: NvlinkAbsentSettings) -> Finding:
    """Whether the workload's GPUs are poorly connected, and which GPUs would be better."""
    case = subject.case
    if (early := subject.abstain_early(settings.minimum_known_seconds)) is not None:
        return early
    is_divided = any(device.mig for device in case.devices)
    if len(case.devices) == 1 or case.workload is None or is_divided:
        return subject.find_nothing(f"{subject.name}: nothing to join.")
    node = case.node
    topology = None if case.node is None else case.node.topology
    if node is None or topology is None:
        return subject.abstain("how the GPUs are joined is not known")
    if (weakest := _weakest(case, topology)) is None:
        return subject.abstain("the way between some of the GPUs is not known")
    evidence = _evidence(_uuids(case.devices), topology, weakest)
    factors = direct_factors(case, 1.0, 0.5)
    joined = f"connected by {weakest.label} at the weakest"
    if weakest.kind not in _FAR:
        return subject.find_nothing(f"{subject.name}: {joined}.", factors, evidence)
    # Connected over the host: check whether it matters, and whether a better set exists.
    fits = (provisioning.resources.get(Resource.PCIE) for provisioning in case.provisioning)
    needs = [fit.demand for fit in fits if fit is not None and fit.demand is not None]
    traffic = max(needs, default=None)
    if traffic is None and case.workload_class is not WorkloadClass.BATCH:
        return subject.abstain(
            "what the GPUs exchange is not measured, and only of batch jobs can it be assumed"
        )
    evidence |= {"traffic_ratio": traffic, "threshold_ratio": settings.on_ratio}
    if traffic is not None and traffic < settings.on_ratio:
        summary = f"{subject.name}: {joined}, yet they exchange little."
        return subject.find_nothing(summary, factors, evidence)
    if (better := better_gpus(case.devices, node, topology, settings.gain_ratio)) is None:
        summary = f"{subject.name}: {joined}; no available GPUs are better connected."
        return subject.find_nothing(summary, factors, evidence)
    names = names_of(better.devices)
    swaps = better.swaps
    others = f", if {' and '.join(swaps)} made room" if swaps else ", which are free"
    then = _uuids(better.devices)
    exchange = settings.class_only_ratio if traffic is None else settings.attribution_ratio
    return subject.find_problem(
        reasons=(Reason.NVLINK_ABSENT,),
        action=Action.MOVE_GPUS,
        summary=(
            f"{subject.name}{subject.holder}: {joined}; {names} would be better connected{others}."
        ),
        factors=factors | {"exchange": exchange},
        risk=Risk.MEDIUM if swaps else Risk.LOW,
        evidence=evidence
        | {
            "better_score": [better.score.weakest, better.score.total],
            "better_gpus": then,
            "swaps": dict(swaps),
        },
        culprits=tuple(dict.fromkeys((weakest.uuid, weakest.peer_uuid))),
        options=(Option(f"move to {names}", Risk.LOW, target=",".join(then)),),
        savings="shorter links save time, not GPUs",
        instructions=_instructions(case, better),
        affected_gpus=max(traffic or 0.0, settings.on_ratio) * len(case.devices),
    )


def _weakest(case: Case, topology: Topology) -> GpuLink | None:
    """Worst link of any pair; `None` if a pair is unknown."""
    pairs = list(combinations(_uuids(case.devices), 2))
    gpu_links = [topology.link(*pair) for pair in pairs]
    links = [link for link in gpu_links if link is not None and link.kind is not LinkKind.UNKNOWN]
    if len(links) < len(pairs):
        return None
    return min(links, key=lambda link: (link_score(link), sorted((link.uuid, link.peer_uuid))))


def _evidence(uuids: Sequence[str], topology: Topology, weakest: GpuLink) -> dict[str, object]:
    score = score_of(uuids, topology)
    links = (link for link in topology.links if link.uuid in uuids and link.peer_uuid in uuids)
    return {
        "weakest_link": weakest.label,
        "links": dict(sorted(Counter(link.label for link in links).items())),
        "score": [score.weakest, score.total],
    }


def _instructions(case: Case, better: BetterGpus) -> tuple[Instruction, ...]:
    uuids = ",".join(device.uuid for device in better.devices)
    swaps = "\n".join(
        f"# {name} moves first: CUDA_VISIBLE_DEVICES={uuid}" for name, uuid in better.swaps.items()
    )
    start = f"CUDA_VISIBLE_DEVICES={uuids} COMMAND"
    return (
        *shell("Check how the GPUs are connected", "nvidia-smi topo -m"),
        *shell("By hand: start it on the better set", f"{swaps}\n{start}" if swaps else start),
        *owner_of(kind_of(case)).prefer_neighbors(),
    )


def screen(table: SubjectTable, settings: NvlinkAbsentSettings) -> Screen:
    """Settle that single GPUs have nothing to join."""
    yield too_little(table.known_seconds < settings.minimum_known_seconds)
    yield well(table.is_single | ~table.is_held)


RULE: Final = Rule("nvlink_absent", NvlinkAbsentSettings(), judge, screen)
