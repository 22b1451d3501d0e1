"""Rule: GPUs of one workload that talk over the host while better joined ones are to be had.

And which.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rightsizer.advice.market import Market
from rightsizer.advice.observation import minimum_known, on_ratio
from rightsizer.advice.operator_commands import kind_of
from rightsizer.advice.rules.rule import OpeningPolicy, Rule
from rightsizer.advice.verdict import (
    abstain,
    abstain_early,
    complain,
    direct_factors,
    find_nothing,
    holder_of,
    names_of,
)
from rightsizer.model.device import Device
from rightsizer.model.finding import (
    Action,
    Case,
    Finding,
    FindingKind,
    Instruction,
    Option,
    Reason,
    Risk,
    Savings,
)
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.node import Node
from rightsizer.model.settings import setting
from rightsizer.model.state import Resource
from rightsizer.model.topology import GpuLink, LinkKind, Topology
from rightsizer.model.workload import WorkloadClass
from rightsizer.owners.owner import shell
from rightsizer.owners.registry import owner_of
from rightsizer.sizing.gpu_sets import MOST_CANDIDATES, SetScore, best_set, pair_score, score_of


@dataclass(frozen=True, slots=True)
class BetterGpus:
    """A better set of as many GPUs."""

    devices: tuple[Device, ...]
    score: SetScore
    swaps: Mapping[str, str]
    """Workloads that must make room, by name, with the uuid of the GPU that they get instead."""


def better_gpus(
    devices: Sequence[Device], node: Node, topology: Topology, gain_ratio: float
) -> BetterGpus | None:
    """The best set of GPUs that is worth moving to; `None` where there is none.

    By `gain_ratio` the sum over the pairs must grow where the weakest stays as weak.
    """
    now = score_of([device.uuid for device in devices], topology)
    same = [each for each in node.devices if _is_alike(each, devices[0])]
    free = [each for each in same if _is_free(each, node)]
    movable = [each for each in same if _sole_holder(each, node) is not None]
    found = _best(devices, free, topology, now, gain_ratio)
    if found is not None:
        return BetterGpus(*found, swaps={})
    found = _best(devices, [*free, *movable], topology, now, gain_ratio)
    return None if found is None else BetterGpus(*found, swaps=_swaps(devices, found[0], node))


def _best(
    devices: Sequence[Device],
    others: Iterable[Device],
    topology: Topology,
    now: SetScore,
    gain_ratio: float,
) -> tuple[tuple[Device, ...], SetScore] | None:
    held = {device.uuid for device in devices}
    known = {each.uuid: each for each in (*devices, *others)}
    candidates = sorted(known, key=lambda uuid: (known[uuid].index, uuid))
    if len(candidates) > MOST_CANDIDATES:
        return None
    found = best_set(candidates, len(devices), topology, held)
    if found is None or set(found.uuids) == held or not _is_worth_it(found.score, now, gain_ratio):
        return None
    return tuple(known[uuid] for uuid in found.uuids), found.score


def _is_worth_it(then: SetScore, now: SetScore, gain_ratio: float) -> bool:
    if then.weakest > now.weakest:
        return True
    return then.weakest == now.weakest and then.total >= now.total * (1.0 + gain_ratio)


def _is_alike(device: Device, model: Device) -> bool:
    return (
        device.mig is None
        and device.is_given_out
        and (device.board, device.name) == (model.board, model.name)
    )


def _is_free(device: Device, node: Node) -> bool:
    """Without a holder, and without any process."""
    reading = node.readings.get(device.uuid)
    return not node.holdings.get(device.uuid) and reading is not None and reading.processes == ()


def _sole_holder(device: Device, node: Node) -> str | None:
    """The name of the only holder, where it holds no other GPU."""
    holders = node.holdings.get(device.uuid, ())
    if len(holders) != 1:
        return None
    workload = holders[0].workload
    held = sum(
        any(each.workload.key == workload.key for each in others)
        for others in node.holdings.values()
    )
    return workload.name if held == 1 else None


def _swaps(devices: Sequence[Device], then: Sequence[Device], node: Node) -> Mapping[str, str]:
    wanted = {device.uuid for device in then}
    held = {device.uuid for device in devices}
    given = sorted((each for each in devices if each.uuid not in wanted), key=_by_index)
    taken = sorted((each for each in then if each.uuid not in held), key=_by_index)
    pairs = zip(taken, given, strict=True)
    names = ((_sole_holder(one, node), other.uuid) for one, other in pairs)
    return {name: uuid for name, uuid in names if name is not None}


def _by_index(device: Device) -> tuple[int, str]:
    return device.index, device.uuid


NAME: Final = "nvlink_absent"
_FAR: Final = frozenset({LinkKind.PHB, LinkKind.NODE, LinkKind.SYSTEM})


@dataclass(frozen=True, slots=True)
class NvlinkAbsentSettings:
    """From when on the way between GPUs is a finding."""

    on_ratio: float = on_ratio(
        0.1,
        "Need of the PCIe link on some GPU from which on the way between them matters.",
        "assumed; KempnerPulse calls 1 GB/s input and output, collectives are well above that",
    )
    minimum_known_seconds: float = minimum_known()
    gain_ratio: float = setting(
        0.5,
        help="How much the sum of the pairs' scores must grow where the weakest stays as weak.",
        within=(0.01, 100),
        source="assumed; a move restarts the workload",
    )
    attribution_ratio: float = setting(
        0.8,
        help="Confidence that PCIe traffic of a job of several GPUs is traffic between them.",
        source="assumed; some of it feeds the GPUs",
    )
    class_only_ratio: float = setting(
        0.65,
        help="Confidence that GPUs of one batch job exchange data where nobody measures it.",
        source="assumed; most jobs of several GPUs train one model",
    )
    conduct: OpeningPolicy = field(default_factory=OpeningPolicy)


def judge(case: Case, settings: NvlinkAbsentSettings, market: Market) -> Finding:
    """Whether the workload's GPUs are poorly joined, and which ones would be better."""
    del market
    too_little = abstain_early(NAME, case, settings.minimum_known_seconds)
    if too_little is not None:
        return too_little
    if len(case.devices) == 1 or case.workload is None or any(each.mig for each in case.devices):
        return find_nothing(NAME, case, f"{names_of(case.devices)}: nothing to join.")
    node, topology = case.node, None if case.node is None else case.node.topology
    if node is None or topology is None:
        why = "how the GPUs are joined is not known"
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, why)
    weakest = _weakest(case, topology)
    if weakest is None:
        why = "the way between some of the GPUs is not known"
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, why)
    now = score_of([device.uuid for device in case.devices], topology)
    ways: dict[str, object] = {
        "weakest_link": weakest.label,
        "links": _links(case, topology),
        "score": [now.weakest, now.total],
    }
    if weakest.kind not in _FAR:
        summary = f"{names_of(case.devices)}: joined by {weakest.label} at the weakest."
        return find_nothing(NAME, case, summary, direct_factors(case, 1.0, 0.5), ways)
    return _far_apart(case, settings, (node, topology, weakest), ways)


def _far_apart(
    case: Case,
    settings: NvlinkAbsentSettings,
    around: tuple[Node, Topology, GpuLink],
    ways: Mapping[str, object],
) -> Finding:
    """GPUs that talk over the host: does it matter, and is there anything better?"""
    node, topology, weakest = around
    traffic = _traffic(case)
    is_batch = case.workload_class is WorkloadClass.BATCH
    if traffic is None and not is_batch:
        why = "nobody measures what the GPUs exchange, and only of batch jobs can it be assumed"
        return abstain(NAME, case, Reason.UNSUPPORTED_TELEMETRY, why)
    evidence = {**ways, "traffic_ratio": traffic, "threshold_ratio": settings.on_ratio}
    factors = direct_factors(case, 1.0, 0.5)
    way = f"{names_of(case.devices)}: joined by {weakest.label} at the weakest"
    if traffic is not None and traffic < settings.on_ratio:
        summary = f"{way}, yet they exchange little."
        return find_nothing(NAME, case, summary, factors, evidence)
    better = better_gpus(case.devices, node, topology, settings.gain_ratio)
    if better is None:
        summary = f"{way}; no other GPUs that are to be had are better joined."
        return find_nothing(NAME, case, summary, factors, evidence)
    exchange = settings.class_only_ratio if traffic is None else settings.attribution_ratio
    return _complaint(case, better, weakest, factors | {"exchange": exchange}, evidence)


def _weakest(case: Case, topology: Topology) -> GpuLink | None:
    """The worst pair; `None` where one of them is not known."""
    uuids = [device.uuid for device in case.devices]
    pairs = [(one, other) for at, one in enumerate(uuids) for other in uuids[at + 1 :]]
    found = [topology.link(*pair) for pair in pairs]
    links = [link for link in found if link is not None and link.kind is not LinkKind.UNKNOWN]
    if len(links) < len(pairs):
        return None
    return min(links, key=lambda link: (pair_score(link), sorted((link.uuid, link.peer_uuid))))


def _links(case: Case, topology: Topology) -> dict[str, int]:
    uuids = {device.uuid for device in case.devices}
    found: dict[str, int] = {}
    for link in topology.links:
        if link.uuid in uuids and link.peer_uuid in uuids:
            found[link.label] = found.get(link.label, 0) + 1
    return dict(sorted(found.items()))


def _traffic(case: Case) -> float | None:
    """The largest need of a PCIe link; `None` where it is not measured."""
    fits = (each.resources.get(Resource.PCIE) for each in case.provisioning)
    known = [fit.demand for fit in fits if fit is not None and fit.demand is not None]
    return max(known, default=None)


def _complaint(
    case: Case,
    better: BetterGpus,
    weakest: GpuLink,
    factors: Mapping[str, float],
    evidence: Mapping[str, object],
) -> Finding:
    then = ",".join(device.uuid for device in better.devices)
    traffic, least = _traffic(case), evidence["threshold_ratio"]
    lost = max(traffic or 0.0, least if isinstance(least, float) else 0.0)
    others = f", if {' and '.join(better.swaps)} made room" if better.swaps else ", which are free"
    return complain(
        NAME,
        case,
        kind=FindingKind.MISPLACED,
        reasons=(Reason.NVLINK_ABSENT,),
        action=Action.MOVE_GPUS,
        summary=(
            f"{names_of(case.devices)}{holder_of(case)}: joined by {weakest.label} at the weakest; "
            f"{names_of(better.devices)} would be better joined{others}."
        ),
        factors=factors,
        risk=Risk.MEDIUM if better.swaps else Risk.LOW,
        evidence={
            **evidence,
            "better_score": [better.score.weakest, better.score.total],
            "better_gpus": [device.uuid for device in better.devices],
            "swaps": dict(better.swaps),
        },
        culprits=tuple(dict.fromkeys((weakest.uuid, weakest.peer_uuid))),
        options=(Option(f"move to {names_of(better.devices)}", Risk.LOW, target=then),),
        savings=Savings(reason="a shorter way saves time, not GPUs"),
        instructions=_instructions(case, better),
        affected_gpus=lost * len(case.devices),
    )


def _instructions(case: Case, better: BetterGpus) -> tuple[Instruction, ...]:
    uuids = ",".join(device.uuid for device in better.devices)
    swaps = "\n".join(
        f"# {name} moves first: CUDA_VISIBLE_DEVICES={uuid}" for name, uuid in better.swaps.items()
    )
    start = f"CUDA_VISIBLE_DEVICES={uuids} COMMAND"
    return (
        *shell("See how the GPUs are joined", "nvidia-smi topo -m"),
        *shell("By hand: start it on the better set", f"{swaps}\n{start}" if swaps else start),
        *owner_of(kind_of(case)).prefer_neighbors(),
    )


RULE: Final = Rule(NAME, NvlinkAbsentSettings(), judge)
