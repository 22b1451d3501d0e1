"""Who used which GPUs for how long: every known hour of every device goes to one holder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from rightsizer.fleet.cache.day_cache import HoldingRow
from rightsizer.fleet.cache.subject_days import SubjectDays, SummedDay
from rightsizer.fleet.model import FleetDevice
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.state import Cause, State
from rightsizer.model.units import HOUR_SECONDS, Nanoseconds

FREE: Final = "free"
"""The kind of time in which nothing held a GPU."""
UNKNOWN: Final = "unknown"
"""The kind of time in which a GPU was in use by what no scheduler and no agent names."""


class WorkloadOwner(NamedTuple):
    """Who answers for a workload, and where its identity comes from."""

    team: str
    kind: str


class UseKey(NamedTuple):
    """What hours are summed by."""

    cluster: str
    team: str
    """Empty where unknown, and of free time."""
    pool: str
    kind: str
    """Of the workloads, else `FREE` or `UNKNOWN`."""
    board: str | None


@dataclass(slots=True)
class UseSum:
    """What some GPUs came to, in GPU-hours."""

    held: float = 0.0
    """Whose state is known."""
    unknown: float = 0.0
    """That they were there, and nothing is known of them."""
    used: float = 0.0
    wasted: float = 0.0
    """All but the headroom: what a GPU at work has left is not wasted."""
    joules: float = 0.0
    is_measured: bool = True
    """Whether the energy of all of it is known."""
    workloads: set[str] = field(default_factory=set)

    def add(self, other: UseSum) -> None:
        """Add those of other hours."""
        self.held += other.held
        self.unknown += other.unknown
        self.used += other.used
        self.wasted += other.wasted
        self.joules += other.joules
        self.is_measured &= other.is_measured or not other.held
        self.workloads |= other.workloads


Uses: TypeAlias = "dict[UseKey, UseSum]"


def add_uses(found: Uses, more: Mapping[UseKey, UseSum]) -> None:
    """Add up by key."""
    for key, each in more.items():
        found.setdefault(key, UseSum()).add(each)


def uses_of(
    device: FleetDevice,
    days: SubjectDays,
    rows: Iterable[HoldingRow],
    span: tuple[Nanoseconds, Nanoseconds],
    owners: Mapping[str, WorkloadOwner],
) -> Uses:
    """The hours of a device over a span of time, by who held it.

    Of workloads that share an interval each has its part.
    """
    by_day: dict[int, list[HoldingRow]] = {}
    for row in rows:
        by_day.setdefault(row.grid.day, []).append(row)
    place, board = (device.cluster, device.pool), device.device.board
    found: Uses = {}
    for day in days.days:
        for first, last, shares in _stretches(day, by_day.get(day.frame.grid.day, ()), span):
            for holder, use in _divided(day, first, last, shares).items():
                owner = owners.get(holder, WorkloadOwner("", UNKNOWN))
                if holder in _NOBODY:
                    owner = WorkloadOwner("", _NOBODY[holder])
                elif use.held or use.unknown:
                    use.workloads = {holder}
                key = UseKey(place[0], owner.team, place[1], owner.kind, board)
                found.setdefault(key, UseSum()).add(_scaled(use, device.device.capacity_ratio))
    return found


_NOBODY: Final = {"": UNKNOWN, " ": FREE}
"""Kinds by what stands in place of a workload's key."""
_UNNAMED, _FREE_TIME = _NOBODY


def _stretches(
    day: SummedDay, rows: Iterable[HoldingRow], span: tuple[Nanoseconds, Nanoseconds]
) -> Iterator[tuple[int, int, dict[str, float]]]:
    """First interval, the one after the last, and shares by workload that stay the same."""
    grid = day.frame.grid
    low, high = (max(0, min(grid.count, -(-(at - grid.start) // grid.step))) for at in span)
    held = [
        (
            max(low, (row.start - grid.start) // grid.step),
            min(high, -(-(row.end - grid.start) // grid.step)),
            row,
        )
        for row in rows
    ]
    cuts = {low, high, *(at for first, last, _ in held if first < last for at in (first, last))}
    for first, last in pairwise(sorted(cuts)):
        shares: dict[str, float] = {}
        for begins, ends, row in held:
            if begins <= first and last <= ends:
                shares[row.workload] = shares.get(row.workload, 0.0) + row.share_ratio
        yield first, last, shares


def _divided(
    day: SummedDay, first: int, last: int, shares: Mapping[str, float]
) -> dict[str, UseSum]:
    """A stretch of a device's day by holder; what was used is theirs who held it."""
    known = sum(day.known[first:last])
    silent = max(0.0, sum(day.present_seconds[first:last]) - known)
    amounts = day.amounts_over(first, last)
    given = sum(shares.values())
    held = {key: share / max(1.0, given) for key, share in shares.items()}
    rest = max(0.0, 1.0 - sum(held.values()))
    free = min(rest * known, amounts.states.get(State.IDLE_EMPTY, 0.0))
    seconds = {key: share * known for key, share in held.items()}
    seconds |= {_UNNAMED: rest * known - free, _FREE_TIME: free}
    wasted = sum(time for cause, time in amounts.waste.items() if cause is not Cause.HEADROOM)
    busy = known - free
    found = {}
    for key, time in seconds.items():
        part = time / busy if busy > 0 and key != _FREE_TIME else 0.0
        lost = min(wasted, free) if key == _FREE_TIME else part * max(0.0, wasted - free)
        found[key] = UseSum(
            held=time,
            unknown=silent * (held.get(key, 0.0) if key in held else rest * (key == _UNNAMED)),
            used=part * amounts.used_seconds,
            wasted=lost,
            joules=amounts.joules * time / known if known > 0 else 0.0,
            is_measured=amounts.joules > 0.0 or not time,
        )
    return {key: use for key, use in found.items() if use.held > 0 or use.unknown > 0}


def _scaled(use: UseSum, capacity_ratio: float) -> UseSum:
    """Seconds of a device as hours of whole GPUs."""
    hours = capacity_ratio / HOUR_SECONDS
    return UseSum(
        use.held * hours,
        use.unknown * hours,
        use.used * hours,
        use.wasted * hours,
        use.joules,
        use.is_measured,
        use.workloads,
    )


def summed(uses: Iterable[tuple[UseKey, UseSum]]) -> UseSum:
    """All together."""
    whole = UseSum()
    for _, each in uses:
        whole.add(each)
    return whole


Group: TypeAlias = "Sequence[tuple[UseKey, UseSum]]"
