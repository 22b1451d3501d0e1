"""A plan that puts small workloads of a pool together: side by side, in turns, or in slices."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from rightsizer.advice.risk import risk_of, worst
from rightsizer.catalogue.board import Board
from rightsizer.domain.finding import Action, Risk
from rightsizer.fleet.pools.hourly import independent_hours
from rightsizer.fleet.pools.mig_packing import Tenant, slice_up
from rightsizer.fleet.pools.packing import PackingLimits, pack
from rightsizer.fleet.pools.small_work import Small, slice_need

__all__ = ["SharedGpu", "SharingPlan", "plan_sharing"]

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
    given: Iterable[Small],
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
    alone: Sequence[Small],
    limits: PackingLimits,
    board: Board | None,
    by_key: Mapping[str, Small],
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


def _overlap(members: Sequence[Small], busy_ratio: float) -> float:
    """Part of the hours in which more than one was at work."""
    at_work = [
        sum(busy >= busy_ratio for busy in hour) for hour in zip(*_busy(members), strict=True)
    ]
    return sum(count >= _SEVERAL for count in at_work) / len(at_work) if at_work else 1.0


def _busy(members: Sequence[Small]) -> list[Sequence[float]]:
    return [each.busy for each in members]


def _risk(members: Sequence[Small]) -> Risk:
    """By the hours in which the sum of the peaks is more than a GPU, or than their slice."""
    sums = list(map(sum, zip(*(each.load.compute for each in members), strict=True)))
    beyond = sum(each > _WHOLE for each in sums) / len(sums) if sums else 1.0
    return risk_of(beyond, independent_hours(sums)).risk
