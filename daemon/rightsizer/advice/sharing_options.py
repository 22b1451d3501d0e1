"""Options to share a GPU: MIG slices and pairs of workloads, with their commands."""

from collections.abc import Callable, Container, Mapping
from functools import cache
from itertools import compress, repeat
from operator import add, ge, gt
from typing import Annotated, Final

from msgspec import Struct

from rightsizer.advice.market import Market
from rightsizer.advice.projection import costing, measured_profile, projected, timed
from rightsizer.advice.risk import ranked, risk_of, risks_beyond, worst
from rightsizer.advice.savings import sharing_savings
from rightsizer.catalogue.board import Board, MigProfile
from rightsizer.model.values import (
    CONSTANT,
    GIB,
    Action,
    Case,
    Device,
    Instruction,
    Measure,
    Option,
    Resource,
    Risk,
    Series,
    Spec,
    WorkloadClass,
)
from rightsizer.owners.owner import shell
from rightsizer.owners.registry import owner_of
from rightsizer.sizing.mig import SliceNeed, fitting_slices
from rightsizer.sizing.place import GpuPlace
from rightsizer.sizing.projection import Sharing, project, shared_time_ratio
from rightsizer.sizing.workload_profile import WorkloadProfile

_MEASURES: Final = {
    Resource.COMPUTE: Measure.COMPUTE,
    Resource.MEMORY_BANDWIDTH: Measure.MEMORY_BANDWIDTH,
}
_SeriesOf = Callable[[Measure], Series]
"""Series of a workload by measure."""
MOVABLE: Final = frozenset({WorkloadClass.SERVING, WorkloadClass.NOTEBOOK})


class ColocationSettings(Struct, frozen=True):
    """Limits for two workloads on one GPU.

    Attributes:
        memory_ratio: Maximum share of the memory that both hold at the same time.
            Source: two contexts, and growth of a tenth
        minimum_aligned_blocks: Minimum five-minute blocks in which both are known.
            Source: a day
        busy_ratio: Utilization over five minutes from which a workload was at work.
            Source: docs/definitions.md, sources: idle below 1%
        alternating_ratio: Maximum share of time that both are active, for time slicing.
            Source: a starting point: a quarter of an hour a day
    """

    memory_ratio: Annotated[float, Spec(within=(0.1, 1)), CONSTANT] = 0.9
    minimum_aligned_blocks: Annotated[int, Spec(within=(20, 8640)), CONSTANT] = 288
    busy_ratio: Annotated[float, CONSTANT] = 0.01
    alternating_ratio: Annotated[float, CONSTANT] = 0.02


class WorkloadPair(Struct, frozen=True):
    """Workload that could share a GPU with another one of the node."""

    partner: Case
    memory_peak_ratio: float
    """Simultaneous peak of both, relative to the GPU's memory."""
    mean_ratios: Mapping[str, float]
    """Mean of the sum, by resource."""
    risks: Mapping[str, Risk]
    """Risk that the sum exceeds the capacity, by resource."""
    overlap_ratio: float
    """Share of the time with both at work."""
    aligned_blocks: int
    is_alternating: bool
    is_same_owner: bool
    """Whether the two need no isolation."""

    @property
    def risk(self) -> Risk:
        """Highest of the risks."""
        return worst(self.risks.values())


def is_movable(case: Case) -> bool:
    """Whether a workload has exactly one GPU and may be moved."""
    return (
        case.workload is not None
        and len(case.devices) == 1
        and case.devices[0].mig is None
        and case.workload.workload_class in MOVABLE
    )


def workload_pairs(
    case: Case, settings: ColocationSettings, *, are_same_owner: bool
) -> tuple[WorkloadPair, ...]:
    """Pairs that fit together in memory, safest first; empty if the node is unknown.

    Either those that need no isolation, or all others.
    """
    if case.node is None or not is_movable(case):
        return ()
    mine = cache(case.windows[0].blocks.series)
    pairs = [
        pair
        for other in case.node.cases
        if other.key != case.key
        and is_movable(other)
        and _is_same_owner(case, other) is are_same_owner
        and other.devices[0].uuid != case.devices[0].uuid
        and other.devices[0].board == case.devices[0].board
        and (pair := _workload_pair(case, other, mine, settings)) is not None
    ]

    def safety(pair: WorkloadPair) -> tuple[int, float, str]:
        return pair.risk.rank, pair.memory_peak_ratio, pair.partner.key

    return tuple(sorted(pairs, key=safety))


def _is_same_owner(case: Case, other: Case) -> bool:
    namespaces = {one.workload and one.workload.namespace for one in (case, other)}
    return len(namespaces) == 1


def _workload_pair(
    case: Case, other: Case, mine: _SeriesOf, settings: ColocationSettings
) -> WorkloadPair | None:
    total = case.devices[0].memory_total_bytes
    theirs = other.windows[0].blocks.series
    memory = _aligned(mine, theirs, Measure.MEMORY_BYTES)
    memory_peaks = list(map(add, memory[0].peaks, memory[1].peaks))
    if not total or len(memory_peaks) < settings.minimum_aligned_blocks:
        return None
    if (memory_ratio := max(memory_peaks) / total) > settings.memory_ratio:
        return None
    busy = _aligned(mine, theirs, Measure.BUSY)
    if (aligned := len(busy[0].numbers)) < settings.minimum_aligned_blocks:
        return None
    risks = {}
    means = {}
    samples = min(case.effective_samples(), other.effective_samples())
    for resource, measure in _MEASURES.items():
        one, two = _aligned(mine, theirs, measure)
        if not (peaks := list(map(add, one.peaks, two.peaks))):
            if resource is Resource.COMPUTE:
                risks[str(resource)] = Risk.UNKNOWN
            continue
        count = len(peaks)
        beyond = sum(map(gt, peaks, repeat(1.0))) / count
        risks[str(resource)] = risk_of(beyond, min(samples, count))
        means[str(resource)] = round(sum(map(add, one.means, two.means)) / count, 4)
    lesser = map(min, busy[0].means, busy[1].means)
    both = sum(map(ge, lesser, repeat(settings.busy_ratio))) / aligned
    return WorkloadPair(
        partner=other,
        memory_peak_ratio=memory_ratio,
        mean_ratios=means,
        risks=risks,
        overlap_ratio=both,
        aligned_blocks=aligned,
        is_alternating=both <= settings.alternating_ratio,
        is_same_owner=_is_same_owner(case, other),
    )


def _aligned(mine: _SeriesOf, theirs: _SeriesOf, measure: Measure) -> tuple[Series, Series]:
    one = mine(measure)
    two = theirs(measure)
    if one.numbers == two.numbers:
        return one, two
    common = set(one.numbers).intersection(two.numbers)
    return _among(one, common), _among(two, common)


def _among(series: Series, numbers: Container[int]) -> Series:
    chosen = [number in numbers for number in series.numbers]
    columns = series.known_seconds, series.means, series.peaks
    numbers = list(compress(series.numbers, chosen))
    return Series(numbers, *(list(compress(column, chosen)) for column in columns))


_NOISE_RATIO: Final = 0.01
_ROUNDING: Final = 0.05
"""One bin of a histogram."""


def slice_options(case: Case, market: Market) -> tuple[Option, ...]:
    """Slices that cover the need of every device, of all whole GPUs or all instances of a profile.

    Those smaller than the devices, safest and smallest first.
    """
    present = {(device.board, device.mig and device.mig.profile) for device in case.devices}
    board = market.board(case.devices[0].board)
    if board is None or len(present) > 1:
        return ()
    whole = _share_of(case.devices[0])
    fits = [fit.resources for fit in case.provisioning]

    def need(resource: Resource, unknown: float = 0.0) -> float:
        needs = (fit[resource].need if resource in fit else unknown for fit in fits)
        return max(ratio or 0.0 for ratio in needs)

    wanted = SliceNeed(
        compute_ratio=need(Resource.COMPUTE, 1.0) * whole[Resource.COMPUTE],
        memory_ratio=need(Resource.MEMORY, 1.0) * whole[Resource.MEMORY],
        memory_bandwidth_ratio=need(Resource.MEMORY_BANDWIDTH) * whole[Resource.MEMORY],
        uses_nvlink=need(Resource.NVLINK) > _NOISE_RATIO,
    )
    count = _count_of(case.devices[0])
    slices = (slice_ for slice_ in fitting_slices(board, wanted) if slice_.maximum_count > count)
    workload_profile = measured_profile(case, 0, market)
    return ranked(_option(case, market, board, slice_, workload_profile) for slice_ in slices)


def _share_of(device: Device) -> dict[Resource, float]:
    """Return what a device has of its GPU."""
    mig = device.mig
    return {
        Resource.COMPUTE: mig.compute_share if mig else 1.0,
        Resource.MEMORY: mig.memory_share if mig else 1.0,
        Resource.MEMORY_BANDWIDTH: mig.memory_share if mig else 1.0,
    }


def _count_of(device: Device) -> int:
    """Return how many such devices a GPU is at most."""
    # Shares of memory that drivers tell are not quite eighths.
    return int(1.0 / max(_share_of(device).values()) + _ROUNDING)


def _option(
    case: Case,
    market: Market,
    board: Board,
    profile: MigProfile,
    workload_profile: WorkloadProfile | None,
) -> Option:
    count = len(case.devices)
    cost = market.cost(board)
    part = 1.0 / profile.maximum_count
    dollars = None if cost is None else cost.dollars_per_hour.scaled(part * count)
    there = {
        Resource.COMPUTE: profile.compute_share,
        Resource.MEMORY: profile.memory_share,
        Resource.MEMORY_BANDWIDTH: profile.memory_share,
    }
    present = _share_of(case.devices[0])
    risks = risks_beyond(
        case, {resource: there[resource] / present[resource] for resource in there}
    )
    option = Option(
        description=(
            f"MIG slice {profile.name}: {profile.compute_share:.0%} of the compute and "
            f"{profile.memory_share:.0%} of the memory"
        ),
        risk=worst(risks.values()),
        risks=risks,
        target=profile.name,
        action=Action.SHARE_MIG,
        savings=sharing_savings(case, market, 1.0 - part * _count_of(case.devices[0])),
    )
    place = GpuPlace(board, profile)
    return costing(
        projected(option, None if workload_profile is None else project(workload_profile, place)),
        dollars,
    )


_HALF: Final = 0.5
"""One of two GPUs is freed; each workload accounts for half of it."""


def shared_option(case: Case, market: Market, pairing: WorkloadPair) -> Option:
    """Option to share the case's GPU with another workload, in turns if they alternate."""
    workload = pairing.partner.workload
    name = workload.name if workload else pairing.partner.key
    partner = pairing.partner.devices[0].title
    how = "taking turns" if pairing.is_alternating else "side by side (MPS)"
    cost = market.cost(market.board(case.devices[0].board))
    dollars = None if cost is None else cost.dollars_per_hour.scaled(_HALF)
    option = Option(
        description=f"one GPU for both this and {name} (now on {partner}), {how}",
        risk=pairing.risk,
        target=pairing.partner.key,
        action=Action.SHARE_TIMESLICE if pairing.is_alternating else Action.SHARE_MPS,
        utilization=pairing.mean_ratios,
        fits=True,
        savings=sharing_savings(case, market, _HALF),
        risks=pairing.risks,
    )
    profile = measured_profile(case, 0, market)
    beside = measured_profile(pairing.partner, 0, market)
    if profile is not None and beside is not None and profile.place == beside.place:
        way = Sharing.TIME_SLICE if pairing.is_alternating else Sharing.MPS
        option = timed(option, shared_time_ratio(profile, beside, way))
    return costing(option, dollars)


def sharing_commands(case: Case, option: Option) -> tuple[Instruction, ...]:
    """Commands to implement a sharing option on the workload's only GPU."""
    workload, (device,) = case.workload, case.devices
    owner = owner_of(workload.kind if workload else None)
    if option.action is Action.SHARE_MIG:
        cut = (
            f"# The GPU must be empty; its workload moves into the slice.\n"
            f"nvidia-smi -i {device.uuid} -mig 1\n"
            f"nvidia-smi mig -i {device.uuid} -cgi {option.target} -C\n"
        )
        title = f"Cut a {option.target} slice off {device.title}"
        return (*shell(title, cut), *owner.request_slice(option.target))
    if option.action not in (Action.SHARE_MPS, Action.SHARE_TIMESLICE):
        return ()
    return owner.share_device(option.action) or _by_hand(device, option)


def _by_hand(device: Device, option: Option) -> tuple[Instruction, ...]:
    partner = option.target
    together = f"export CUDA_VISIBLE_DEVICES={device.uuid}  # in both, {partner} too\n"
    if option.action is Action.SHARE_TIMESLICE:
        return shell("Start both on the same GPU", together)
    limit = (device.memory_total_bytes or 0.0) / 2 / GIB
    text = (
        f"CUDA_VISIBLE_DEVICES={device.uuid} nvidia-cuda-mps-control -d\n"
        + together
        + (f"export CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0={limit:.0f}G\n" if limit else "")
    )
    return shell("Start both under one MPS daemon, half of the memory each", text)
