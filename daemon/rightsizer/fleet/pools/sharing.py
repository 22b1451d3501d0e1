"""Sharing plan of a pool.

Which small workloads share GPUs, side by side, in turns, or in MIG slices.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from rightsizer.advice.risk import risk_of, worst
from rightsizer.catalogue.board import Board, MigProfile
from rightsizer.fleet.model import FleetWorkload
from rightsizer.fleet.pools.hourly import filled, independent_hours, known_ratio
from rightsizer.fleet.pools.pool_room import HourlyLoad, PackingLimits, pack
from rightsizer.model.finding import Action, Risk
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.state import Resource
from rightsizer.model.workload import Allocator, WorkloadClass
from rightsizer.sizing.mig import SliceNeed, fitting_slices

_ROUNDING: Final = 0.01
"""The catalogue rounds shares; what is too much is so by an eighth at least."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A workload, and what it needs of a whole board."""

    key: str
    need: SliceNeed


@dataclass(frozen=True, slots=True)
class SlicedGpu:
    """One GPU cut for some workloads."""

    slices: tuple[tuple[str, str], ...]
    """Key and profile of each, the largest first."""


@dataclass(slots=True)
class _Cut:
    taken: list[tuple[str, MigProfile]] = field(default_factory=list)

    def admits(self, profile: MigProfile) -> bool:
        profiles = [each for _, each in self.taken]
        return (
            sum(each.compute_share for each in profiles) + profile.compute_share <= 1 + _ROUNDING
            and sum(each.memory_share for each in profiles) + profile.memory_share <= 1 + _ROUNDING
            and profiles.count(profile) < profile.maximum_count
        )


def slice_up(tenants: Iterable[Tenant], board: Board) -> tuple[SlicedGpu, ...]:
    """The GPUs that hold at least two of the workloads each; the others keep their own."""
    chosen = [
        (each.key, profile) for each in tenants for profile in fitting_slices(board, each.need)[:1]
    ]
    chosen.sort(key=lambda each: (-each[1].compute_share, -each[1].memory_share, each[0]))
    cuts: list[_Cut] = []
    for key, profile in chosen:
        cut = next((each for each in cuts if each.admits(profile)), None)
        if cut is None:
            cut = _Cut()
            cuts.append(cut)
        cut.taken.append((key, profile))
    return tuple(
        SlicedGpu(tuple((key, profile.name) for key, profile in cut.taken))
        for cut in cuts
        if len(cut.taken) > 1
    )


_MOVABLE: Final = frozenset({WorkloadClass.SERVING, WorkloadClass.NOTEBOOK})
_NOISE_RATIO: Final = 0.01


@dataclass(frozen=True, slots=True)
class SmallWorkload:
    """A workload with one GPU of its own that may be given a part of another."""

    view: FleetWorkload
    load: HourlyLoad
    busy: Sequence[float]

    @property
    def namespace(self) -> str:
        """Within it nothing has to keep workloads apart."""
        workload = self.view.case.workload
        return workload.namespace if workload else ""


def small_work(
    views: Iterable[FleetWorkload], minimum_coverage_ratio: float, busy_ratio: float
) -> tuple[SmallWorkload, ...]:
    """Those of some workloads of one pool that may share, by their keys.

    Args:
        views: Workloads of one pool.
        minimum_coverage_ratio: Hours that must be known of each.
        busy_ratio: Busy share up to which a workload never worked; who is idle shares nothing.
    """
    given = sorted(views, key=lambda each: each.case.key)
    tenants = Counter(device.uuid for each in given for device in each.case.devices)
    found = []
    for each in given:
        if why_not(each) is not None or any(
            tenants[device.uuid] > 1 for device in each.case.devices
        ):
            continue
        small = _small(each, minimum_coverage_ratio)
        if small is not None and max(small.busy, default=0.0) > busy_ratio:
            found.append(small)
    return _aligned(found)


def why_not(view: FleetWorkload) -> str | None:
    """Why a workload keeps its GPU to itself, by what it is; `None` where it need not."""
    case = view.case
    if case.workload is None or case.workload.workload_class is WorkloadClass.UNKNOWN:
        return "its class is unknown; state it in a policy"
    if case.workload.workload_class not in _MOVABLE:
        return f"a {case.workload.workload_class} workload keeps its GPU to itself"
    if sum(view.nodes.values()) != 1 or not case.devices or any(each.mig for each in case.devices):
        return "it does not have one whole GPU"
    if any(each.is_underprovisioned for each in case.provisioning):
        return "it is under pressure"
    if case.workload.allocator is Allocator.PREALLOCATING or any(
        each.memory_is_preallocated for each in case.provisioning
    ):
        return "its memory looks preallocated, so the memory needed is not known"
    return None


def slice_need(small: SmallWorkload, compute_ratio: float, memory_ratio: float) -> SliceNeed:
    """What a slice of its own must have, that it fills no further than some ratios."""
    fits = [fit.resources for fit in small.view.case.provisioning]
    needs = {
        resource: max((each[resource].need or 0.0 for each in fits if resource in each), default=0)
        for resource in (Resource.MEMORY_BANDWIDTH, Resource.NVLINK)
    }
    return SliceNeed(
        compute_ratio=max(small.load.compute) / compute_ratio,
        memory_ratio=max(small.load.memory) / memory_ratio,
        memory_bandwidth_ratio=needs[Resource.MEMORY_BANDWIDTH],
        uses_nvlink=needs[Resource.NVLINK] > _NOISE_RATIO,
    )


def board_bytes(view: FleetWorkload) -> float | None:
    """Memory of the smallest of its boards; `None` where one is unknown."""
    totals = [each.memory_total_bytes for each in view.case.devices]
    known = [each for each in totals if each]
    return min(known) if known and len(known) == len(totals) else None


def _small(view: FleetWorkload, minimum_coverage_ratio: float) -> SmallWorkload | None:
    total = board_bytes(view)
    columns = (view.compute, view.memory_bytes, view.busy)
    if not total or any(known_ratio(each) < minimum_coverage_ratio for each in columns):
        return None
    compute, memory, busy = map(filled, columns)
    if compute is None or memory is None or busy is None:
        return None
    load = HourlyLoad(view.case.key, compute, [each / total for each in memory])
    return SmallWorkload(view, load, busy)


def _aligned(found: list[SmallWorkload]) -> tuple[SmallWorkload, ...]:
    """Those whose hours are those of most."""
    spans = Counter(map(_span, found))
    if not spans:
        return ()
    span = max(spans, key=lambda each: (spans[each], each))
    return tuple(each for each in found if _span(each) == span)


def _span(small: SmallWorkload) -> tuple[int, int]:
    view = small.view
    lengths = {len(view.compute.values), len(view.memory_bytes.values), len(view.busy.values)}
    return view.compute.start, lengths.pop() if len(lengths) == 1 else 0


_SEVERAL: Final = 2
_WHOLE: Final = 1.0


@dataclass(frozen=True, slots=True)
class SharedGpu:
    """One GPU, and who would be on it."""

    action: Action
    members: tuple[str, ...]
    """Keys of at least two workloads."""
    slices: tuple[str, ...] = ()
    """The MIG profile of each, in the same order."""
    risk: Risk = Risk.UNKNOWN
    """That together they need more than there is."""

    @property
    def freed(self) -> int:
        """GPUs that are free then."""
        return len(self.members) - 1


@dataclass(frozen=True, slots=True)
class SharingPlan:
    """All shared GPUs of a pool; who is on none of them keeps its own."""

    gpus: tuple[SharedGpu, ...]
    given: int
    """Workloads that were looked at."""
    at_least: int
    """GPUs that no arrangement without walls could go below, namespace by namespace."""

    @property
    def freed(self) -> int:
        """GPUs that are free then."""
        return sum(each.freed for each in self.gpus)


def plan_sharing(
    given: Iterable[SmallWorkload],
    limits: PackingLimits,
    board: Board | None,
    busy_ratio: float,
    alternating_ratio: float,
) -> SharingPlan:
    """Workloads of one namespace together; strangers, and who is left over, in slices.

    Args:
        given: Workloads that may share.
        limits: What a GPU holds.
        board: The pool's, where all are alike and known; without, nothing is cut.
        busy_ratio: Busy share of an hour from which on a workload was at work.
        alternating_ratio: Part of the hours in which two may be at work, for them to take turns.
    """
    by_key = {each.load.key: each for each in given}
    gpus, at_least, alone = [], 0, []
    named = sorted(by_key.values(), key=lambda each: (each.namespace, each.load.key))
    for _, group in groupby(named, lambda each: each.namespace):
        packed = pack((each.load for each in group), limits)
        at_least += packed.at_least
        for keys in packed.bins:
            members = [by_key[key] for key in keys]
            if len(members) < _SEVERAL:
                alone.extend(members)
            else:
                is_alternating = _overlap(members, busy_ratio) <= alternating_ratio
                action = Action.SHARE_TIMESLICE if is_alternating else Action.SHARE_MPS
                gpus.append(SharedGpu(action, tuple(keys), risk=_risk(members)))
    gpus.extend(_sliced(alone, limits, board, by_key))
    ordered = sorted(gpus, key=lambda each: (-each.freed, each.members))
    return SharingPlan(tuple(ordered), len(by_key), at_least)


def _sliced(
    alone: Sequence[SmallWorkload],
    limits: PackingLimits,
    board: Board | None,
    by_key: Mapping[str, SmallWorkload],
) -> list[SharedGpu]:
    if board is None:
        return []
    tenants = [
        Tenant(each.load.key, slice_need(each, limits.compute_ratio, limits.memory_ratio))
        for each in alone
    ]
    found = []
    for gpu in slice_up(tenants, board):
        members = tuple(key for key, _ in gpu.slices)
        risk = worst(_risk([by_key[key]]) for key in members)
        names = tuple(profile for _, profile in gpu.slices)
        found.append(SharedGpu(Action.SHARE_MIG, members, names, risk))
    return found


def _overlap(members: Sequence[SmallWorkload], busy_ratio: float) -> float:
    """Part of the hours in which more than one was at work."""
    at_work = [
        sum(busy >= busy_ratio for busy in hour) for hour in zip(*_busy(members), strict=True)
    ]
    return sum(count >= _SEVERAL for count in at_work) / len(at_work) if at_work else 1.0


def _busy(members: Sequence[SmallWorkload]) -> list[Sequence[float]]:
    return [each.busy for each in members]


def _risk(members: Sequence[SmallWorkload]) -> Risk:
    """By the hours in which the sum of the peaks is more than a GPU, or than their slice."""
    sums = list(map(sum, zip(*(each.load.compute for each in members), strict=True)))
    beyond = sum(each > _WHOLE for each in sums) / len(sums) if sums else 1.0
    return risk_of(beyond, independent_hours(sums)).risk
