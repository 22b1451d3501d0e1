"""Sharing plan of a pool: which small workloads share GPUs, and by what means."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from msgspec import Struct

from rightsizer.advice.board_status import works_on_media
from rightsizer.advice.risk import risk_of, worst
from rightsizer.catalogue.board import Board, MigProfile
from rightsizer.fleet.model import MOVABLE_CLASSES, FleetWorkload
from rightsizer.fleet.pools.hourly import filled, independent_hours, known_ratio
from rightsizer.fleet.pools.pool_room import HourlyLoad, PackingLimits, pack
from rightsizer.model.values import Action, Allocator, Case, Resource, Risk
from rightsizer.sizing.mig import SliceNeed, fitting_slices

_ROUNDING: Final = 0.01
"""Shares in the catalogue are rounded; real excess is at least an eighth."""


def slice_up(
    needs: Mapping[str, SliceNeed], board: Board
) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Cut GPUs for at least two workloads each, as keys and profiles; others keep their own."""
    chosen = [
        (key, profile) for key, need in needs.items() for profile in fitting_slices(board, need)[:1]
    ]
    chosen.sort(key=lambda choice: (-choice[1].compute_share, -choice[1].memory_share, choice[0]))
    cuts: list[list[tuple[str, MigProfile]]] = []
    for key, profile in chosen:
        cut = next(
            (members for members in cuts if _admits([share for _, share in members], profile)),
            None,
        )
        if cut is None:
            cuts.append(cut := [])
        cut.append((key, profile))
    return tuple(tuple((key, profile.name) for key, profile in cut) for cut in cuts if len(cut) > 1)


def _admits(taken: Sequence[MigProfile], profile: MigProfile) -> bool:
    compute = sum(mig_profile.compute_share for mig_profile in (*taken, profile))
    memory = sum(mig_profile.memory_share for mig_profile in (*taken, profile))
    return max(compute, memory) <= 1 + _ROUNDING and taken.count(profile) < profile.maximum_count


_NOISE_RATIO: Final = 0.01


class SmallWorkload(Struct, frozen=True):
    """Workload with one whole GPU that may receive a part of another."""

    view: FleetWorkload
    load: HourlyLoad
    busy: Sequence[float]

    @property
    def span(self) -> tuple[int, int]:
        """Start and number of its hours."""
        series = (self.view.compute, self.view.memory_bytes, self.view.busy)
        lengths = {len(hourly_series.values) for hourly_series in series}
        return series[0].start, lengths.pop() if len(lengths) == 1 else 0


def small_work(
    views: Iterable[FleetWorkload], minimum_coverage_ratio: float, busy_ratio: float
) -> tuple[SmallWorkload, ...]:
    """Return the workloads of a pool that may share, by key, limited to the most common hours.

    Enough of their hours must be known; one that was never busier than `busy_ratio` is idle, and
    excluded.
    """
    given = sorted(views, key=lambda view: view.case.key)
    tenants = Counter(device.uuid for workload in given for device in workload.case.devices)
    workloads = [
        small
        for workload in given
        if all(tenants[device.uuid] <= 1 for device in workload.case.devices)
        and (small := _small(workload, minimum_coverage_ratio)) is not None
        and max(small.busy, default=0.0) > busy_ratio
    ]
    spans = Counter(workload.span for workload in workloads)
    span = max(spans, key=lambda candidate: (spans[candidate], candidate), default=None)
    return tuple(workload for workload in workloads if workload.span == span)


def has_room(case: Case) -> bool:
    """Whether others may share its GPU; preallocated memory hides the real need."""
    return (
        case.workload is not None
        and case.workload.allocator is not Allocator.PREALLOCATING
        and bool(case.devices)
        and not works_on_media(case)
        and not any(
            fit.is_underprovisioned or fit.memory_is_preallocated for fit in case.provisioning
        )
    )


def _small(view: FleetWorkload, minimum_coverage_ratio: float) -> SmallWorkload | None:
    case = view.case
    is_small = view.gpus == 1 and not any(device.mig for device in case.devices)
    if not (is_small and case.workload_class in MOVABLE_CLASSES and has_room(case)):
        return None
    totals = [device.memory_total_bytes or 0.0 for device in case.devices]
    columns = (view.compute, view.memory_bytes, view.busy)
    if not all(totals) or any(known_ratio(column) < minimum_coverage_ratio for column in columns):
        return None
    compute, memory, busy = map(filled, columns)
    if compute is None or memory is None or busy is None:
        return None
    load = HourlyLoad(case.key, compute, [value / min(totals) for value in memory])
    return SmallWorkload(view, load, busy)


class SharedGpu(Struct, frozen=True):
    """GPU, and the workloads that would share it."""

    action: Action
    members: tuple[str, ...]
    """Keys of at least two workloads."""
    slices: tuple[str, ...] = ()
    """MIG profile of each, in the same order."""
    risk: Risk = Risk.UNKNOWN
    """Risk that together they need more than is available."""

    @property
    def freed(self) -> int:
        """Number of GPUs that this frees."""
        return len(self.members) - 1


class SharingPlan(Struct, frozen=True):
    """All shared GPUs of a pool; other workloads keep their own."""

    gpus: tuple[SharedGpu, ...]
    given: int
    """Number of workloads considered."""
    at_least: int
    """Lower bound of GPUs without isolation, namespace by namespace."""

    @property
    def freed(self) -> int:
        """Number of GPUs that this frees."""
        return sum(gpu.freed for gpu in self.gpus)


def plan_sharing(
    given: Iterable[SmallWorkload],
    limits: PackingLimits,
    board: Board | None,
    busy_ratio: float,
    alternating_ratio: float,
) -> SharingPlan:
    """Share GPUs within namespaces; across namespaces, and for the rest, use MIG slices.

    Without a board nothing is cut. Workloads alternate if more than one was active, by
    `busy_ratio`, in at most `alternating_ratio` of the hours.
    """
    by_key = {workload.load.key: workload for workload in given}
    gpus = []
    at_least = 0
    alone = []
    # Workloads of one namespace need no isolation.
    named = sorted(
        by_key.values(), key=lambda workload: (workload.view.namespace, workload.load.key)
    )
    for _, group in groupby(named, lambda workload: workload.view.namespace):
        packed = pack((workload.load for workload in group), limits)
        at_least += packed.at_least
        for keys in packed.bins:
            members = [by_key[key] for key in keys]
            if len(members) <= 1:
                alone.extend(members)
                continue
            hours = zip(*(member.busy for member in members), strict=True)
            several = [sum(busy >= busy_ratio for busy in hour) > 1 for hour in hours]
            overlap = sum(several) / len(several) if several else 1.0
            takes_turns = overlap <= alternating_ratio
            action = Action.SHARE_TIMESLICE if takes_turns else Action.SHARE_MPS
            gpus.append(SharedGpu(action, tuple(keys), risk=_risk(members)))
    gpus.extend(_sliced(alone, limits, board, by_key))
    ordered = sorted(gpus, key=lambda gpu: (-gpu.freed, gpu.members))
    return SharingPlan(tuple(ordered), len(by_key), at_least)


def _sliced(
    alone: Sequence[SmallWorkload],
    limits: PackingLimits,
    board: Board | None,
    by_key: Mapping[str, SmallWorkload],
) -> list[SharedGpu]:
    if board is None:
        return []
    needs = {}
    for workload in alone:
        bandwidth, nvlink = (
            max((need or 0.0 for need in workload.view.needs(of)), default=0.0)
            for of in (Resource.MEMORY_BANDWIDTH, Resource.NVLINK)
        )
        # What a slice needs to have to be filled no further than the limits.
        needs[workload.load.key] = SliceNeed(
            compute_ratio=max(workload.load.compute) / limits.compute_ratio,
            memory_ratio=max(workload.load.memory) / limits.memory_ratio,
            memory_bandwidth_ratio=bandwidth,
            uses_nvlink=nvlink > _NOISE_RATIO,
        )
    shared_gpus = []
    for gpu in slice_up(needs, board):
        keys, profiles = zip(*gpu, strict=True)
        risk = worst(_risk([by_key[key]]) for key in keys)
        shared_gpus.append(SharedGpu(Action.SHARE_MIG, keys, profiles, risk))
    return shared_gpus


def _risk(members: Sequence[SmallWorkload]) -> Risk:
    """Return the risk by the hours in which summed peaks exceed a GPU, or their slice."""
    sums = list(map(sum, zip(*(member.load.compute for member in members), strict=True)))
    beyond = sum(total > 1 for total in sums) / len(sums) if sums else 1.0
    return risk_of(beyond, independent_hours(sums))
