"""GPU usage by holder, with duration and cost: every known hour goes to one holder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from rightsizer.advice.market import Market
from rightsizer.fleet.cache.day_cache import HoldingRow
from rightsizer.fleet.cache.day_frame import IDLE_EMPTY_STATE, UNKNOWN_STATE, ColumnKind
from rightsizer.fleet.cache.grid import DAY, Grid
from rightsizer.fleet.columns.segment import Segment
from rightsizer.fleet.columns.subject import Subject
from rightsizer.fleet.model import FleetDevice
from rightsizer.model.values import (
    HOUR_SECONDS,
    JOULES_PER_KILOWATT_HOUR,
    Cause,
    Nanoseconds,
    seconds,
)
from rightsizer.sizing.estimate import EstimateInterval

FREE: Final = "free"
"""Kind of time without a holder."""
UNKNOWN: Final = "unknown"
"""Kind of time in which a GPU was used by something unknown to schedulers and agents."""
FREE_NAME: Final = f"({FREE})"
"""In place of a team."""


class WorkloadOwner(NamedTuple):
    """Team responsible for a workload, and the source of its identity."""

    team: str
    kind: str


class UseKey(NamedTuple):
    """Key by which hours are summed."""

    cluster: str
    team: str
    """Empty if unknown, and for free time."""
    pool: str
    kind: str
    """Of the workloads, else `FREE` or `UNKNOWN`."""
    board: str | None
    provider: str = ""
    """Cloud that the GPUs are rented from; empty if unknown."""


@dataclass(slots=True)
class UseSum:
    """Usage of some GPUs, in GPU-hours."""

    held: float = 0.0
    """Hours with known state."""
    unknown: float = 0.0
    """Hours in which they were present, with unknown state."""
    used: float = 0.0
    wasted: float = 0.0
    """Excludes headroom: what an active GPU has left is not wasted."""
    idle: float = 0.0
    """Lost while held and idle."""
    stalled: float = 0.0
    lost: float = 0.0
    """Lost to other causes: host, storage, PCIe, launches, throttling."""
    free: float = 0.0
    """Hours without a holder."""
    joules: float = 0.0
    is_measured: bool = True
    """Whether the energy of all hours is known."""
    workloads: set[str] = field(default_factory=set)

    def add(self, other: UseSum) -> None:
        """Add those of other hours."""
        self.held += other.held
        self.unknown += other.unknown
        self.used += other.used
        self.wasted += other.wasted
        self.idle += other.idle
        self.stalled += other.stalled
        self.lost += other.lost
        self.free += other.free
        self.joules += other.joules
        self.is_measured &= other.is_measured or not other.held
        self.workloads |= other.workloads


Uses: TypeAlias = "dict[UseKey, UseSum]"


def add_uses(sums: Uses, more: Mapping[UseKey, UseSum]) -> None:
    """Sum by key."""
    for key, use_sum in more.items():
        sums.setdefault(key, UseSum()).add(use_sum)


UNNAMED: Final = ""
"""In place of a workload that no scheduler or agent names."""
FREE_TIME: Final = " "
"""In place of a workload where there is none."""
_NOBODY: Final = {UNNAMED: WorkloadOwner("", UNKNOWN), FREE_TIME: WorkloadOwner("", FREE)}
"""Owners in place of a workload's."""


class HeldDevice(NamedTuple):
    """A device with its columns and all its holders."""

    device: FleetDevice
    subject: Subject
    rows: Sequence[HoldingRow]


def holder_hours(
    devices: Iterable[HeldDevice], span: tuple[Nanoseconds, Nanoseconds]
) -> dict[str, dict[str, UseSum]]:
    """Return the hours of each device over a span, by workload, `UNNAMED` or `FREE_TIME`.

    Workloads that share an interval divide it. Time in which nothing was exported is unknown time
    of the workload that held the device before and after it.
    """
    use_sums: dict[str, defaultdict[str, UseSum]] = {}
    stretches = defaultdict[Segment, list[_Stretch]](list)
    for device, subject, rows in devices:
        of_device = use_sums[device.device.uuid] = defaultdict(UseSum)
        # The uuids of instances come and go with the division of their GPU.
        is_whole = device.device.mig is None and not device.device.has_mig_instances
        for holder, silent in _silent(subject, rows, span) if is_whole else ():
            of_device[holder].unknown += silent * _hours_per_second(device)
        for segment in subject.segments:
            stretches[segment] += [
                _Stretch(device, (subject.row, first, last), shares)
                for first, last, shares in _stretches(segment.grid, rows, span)
            ]
    for segment, of_segment in stretches.items():
        sums = segment.sums_between((stretch.bounds for stretch in of_segment), _SUMMED)
        for stretch, amounts in zip(of_segment, sums, strict=True):
            of_device = use_sums[stretch.device.device.uuid]
            for holder, use in _divided(stretch, _Amounts(*amounts)).items():
                of_device[holder].add(use)
    return {uuid: dict(by_holder) for uuid, by_holder in use_sums.items()}


def uses_of(
    device: FleetDevice, hours: Mapping[str, UseSum], owners: Mapping[str, WorkloadOwner]
) -> Uses:
    """Return the hours of a device by what they are summed by."""
    by_key: Uses = {}
    for holder, use in hours.items():
        owner = _NOBODY.get(holder) or owners.get(holder, _NOBODY[UNNAMED])
        key = UseKey(
            device.cluster,
            owner.team,
            device.pool,
            owner.kind,
            device.device.board,
            device.provider,
        )
        workloads = set() if holder in _NOBODY else {holder}
        by_key.setdefault(key, UseSum()).add(replace(use, workloads=workloads))
    return by_key


_LONGEST_SILENCE: Final[Nanoseconds] = DAY
"""Beyond a day, the machine may have been off."""


def _silent(
    subject: Subject, rows: Sequence[HoldingRow], span: tuple[Nanoseconds, Nanoseconds]
) -> Iterator[tuple[str, float]]:
    """Yield seconds without any series of a device between two sightings of one holder."""
    start, end = span
    last: dict[str, HoldingRow] = {}
    for row in sorted(rows, key=lambda holding_row: (holding_row.start, holding_row.end)):
        before = last.get(row.workload)
        if before is None or row.end > before.end:
            last[row.workload] = row
        left = start if before is None else max(start, before.end)
        again = min(end, row.start)
        if before is not None and left < again <= left + _LONGEST_SILENCE:
            silent = seconds(again - left) - subject.present_in(left, again)
            others = sum(
                holding_row.start < again and holding_row.end > left for holding_row in rows
            )
            if silent > 0.0 and not others:
                yield row.workload, silent * min(before.share_ratio, row.share_ratio)


def _stretches(
    grid: Grid, rows: Iterable[HoldingRow], span: tuple[Nanoseconds, Nanoseconds]
) -> Iterator[tuple[int, int, dict[str, float]]]:
    """Yield runs of constant shares: first interval, end (exclusive), and shares by workload."""
    low, high = (max(0, min(grid.count, -(-(at - grid.start) // grid.step))) for at in span)
    places = ((*row.places(grid), row) for row in rows)
    held = [(max(low, first), min(high, last), row) for first, last, row in places]
    cuts = {low, high, *(at for first, last, _ in held if first < last for at in (first, last))}
    held = [(begins, ends, row) for begins, ends, row in held if begins < ends]
    for first, last in pairwise(sorted(cuts)):
        shares: dict[str, float] = {}
        for begins, ends, row in held:
            if begins <= first and last <= ends:
                shares[row.workload] = shares.get(row.workload, 0.0) + row.share_ratio
        yield first, last, shares


_USED: Final = ColumnKind.USED.column("seconds")
_ENERGY: Final = ColumnKind.ENERGY.column("joules")
_IDLE: Final = ColumnKind.WASTE.column(Cause.IDLE)
_STALLED: Final = ColumnKind.WASTE.column(Cause.STALLED)
_OTHERS: Final = tuple(
    ColumnKind.WASTE.column(cause)
    for cause in sorted(Cause)
    if cause not in {Cause.HEADROOM, Cause.IDLE, Cause.STALLED}
)


def _hours_per_second(device: FleetDevice) -> float:
    return device.device.capacity_ratio / HOUR_SECONDS


_SUMMED: Final = (
    (UNKNOWN_STATE,),
    (_USED,),
    (_ENERGY,),
    (_IDLE,),
    (_STALLED,),
    _OTHERS,
    (IDLE_EMPTY_STATE,),
)
"""Columns of each of `_Amounts` after the known seconds."""


class _Amounts(NamedTuple):
    """What a device did in a run of intervals, in seconds and joules."""

    known_seconds: float
    silent: float
    used: float
    joules: float
    idle: float
    stalled: float
    lost: float
    empty: float


class _Stretch(NamedTuple):
    """A run of intervals in which a device had the same holders."""

    device: FleetDevice
    bounds: tuple[int, int, int]
    """Row in its segment, first interval, and the one after the last."""
    shares: Mapping[str, float]


def _divided(stretch: _Stretch, amounts: _Amounts) -> dict[str, UseSum]:
    """Divide a run of a device's time by holder."""
    hours = _hours_per_second(stretch.device)
    known_seconds, silent, used, joules, idle, stalled, lost, empty = amounts
    given = sum(stretch.shares.values())
    held = {key: share / max(1.0, given) for key, share in stretch.shares.items()}
    rest = max(0.0, 1.0 - sum(held.values()))
    free = rest * known_seconds
    # Of a GPU that is offered once, something without a label may use what nobody holds.
    if not (held and stretch.device.is_shareable):
        free = min(free, empty)
    times = {key: share * known_seconds for key, share in held.items()}
    times |= {UNNAMED: rest * known_seconds - free, FREE_TIME: free}
    idle = max(0.0, idle - free)
    busy = known_seconds - free
    # Sums of rounded figures may exceed the time by a little.
    fitting = busy / max(busy, used + idle + stalled + lost) if busy > 0 else 0.0
    by_holder = {}
    for key, time in times.items():
        is_free = key == FREE_TIME
        part = fitting * hours * time / busy if busy > 0 and not is_free else 0.0
        free_time = time * hours if is_free else 0.0
        dark = held.get(key, rest if key == UNNAMED else 0.0)
        by_holder[key] = UseSum(
            held=time * hours,
            unknown=silent * dark * hours,
            used=part * used,
            wasted=free_time + part * (idle + stalled + lost),
            idle=part * idle,
            stalled=part * stalled,
            lost=part * lost,
            free=free_time,
            joules=joules * (time + silent * dark) / (known_seconds + silent)
            if known_seconds + silent
            else 0.0,
            is_measured=joules > 0.0 or not time,
        )
    return {key: use for key, use in by_holder.items() if use.held > 0 or use.unknown > 0}


class HeldGpu(Struct, frozen=True):
    """A GPU, or a part of one, with its present holder, and what became of that holder's hours."""

    uuid: str
    workload: str
    """Empty without a known one."""
    team: str
    gpus: float
    """Part of a GPU that the holder has."""
    held: float
    """GPU-hours with known state within the lookback, by this holder on this GPU."""
    unknown: float
    used: float
    idle: float
    stalled: float
    lost: float
    free: float

    @property
    def lost_ratio(self) -> float:
        """Part of the known hours that was not used; all of it as long as nothing is known."""
        return 1.0 - self.used / self.held if self.held else 1.0


def held_gpus(
    device: FleetDevice,
    hours: Mapping[str, UseSum],
    shares: Mapping[str, float],
    owners: Mapping[str, WorkloadOwner],
) -> Iterator[HeldGpu]:
    """Yield what the present holders of a device have of it, and what nobody has."""
    given = sum(shares.values())
    whole = max(1.0, given) if device.is_shareable or not shares else given
    free = UseSum()
    for nobody in _NOBODY:
        free.add(hours.get(nobody, UseSum()))
    parts = [
        (holder, share / whole, hours.get(holder, UseSum())) for holder, share in shares.items()
    ]
    if given < whole:
        parts.append((UNNAMED, 1.0 - given / whole, free))
    for holder, share, use in parts:
        yield HeldGpu(
            uuid=device.device.uuid,
            workload=holder,
            team=owners[holder].team if holder in owners else "",
            gpus=share * device.device.capacity_ratio,
            held=use.held,
            unknown=use.unknown,
            used=use.used,
            idle=use.idle,
            stalled=use.stalled,
            lost=use.lost,
            free=use.free,
        )


class UseRow(Struct, frozen=True):
    """Hours of a team's work of one kind, on boards of one kind in one pool, with their price."""

    cluster: str
    team: str
    """Empty means unknown."""
    pool: str
    kind: str
    """Of workloads, `unknown` or `free`."""
    board: str | None
    provider: str
    workloads: list[str]
    """Keys; one may be in several rows of its team, by pool and board."""
    held_gpu_hours: float
    """Hours with known state."""
    unknown_gpu_hours: float
    """Hours with unknown state."""
    used_gpu_hours: float
    wasted_gpu_hours: float
    headroom_gpu_hours: float
    """Left by active GPUs; with the following and the used hours, these are the hours held."""
    idle_gpu_hours: float
    stalled_gpu_hours: float
    lost_gpu_hours: float
    """To other causes."""
    free_gpu_hours: float
    kilowatt_hours: float | None
    """At the GPUs; `None` if that of some GPU was not measured."""
    dollars: EstimateInterval | None
    """Of the hours held; `None` if the board has no price."""
    wasted_dollars: EstimateInterval | None
    price_source: str
    price_date: str
    price_basis: str
    """List prices, your prices, or assumed costs; empty without a price."""


def usage_of(uses: Mapping[UseKey, UseSum], market: Market) -> tuple[UseRow, ...]:
    """Return the rows of which every table of a fleet's hours is a sum."""
    return tuple(_row(key, uses[key], market) for key in sorted(uses, key=str))


def _row(key: UseKey, use: UseSum, market: Market) -> UseRow:
    cost = market.cost_near(key.provider, key.board)
    is_measured = use.is_measured and use.held
    active = use.held - use.used - use.idle - use.stalled - use.lost - use.free
    return UseRow(
        **key._asdict(),
        workloads=sorted(use.workloads),
        held_gpu_hours=use.held,
        unknown_gpu_hours=use.unknown,
        used_gpu_hours=use.used,
        wasted_gpu_hours=use.wasted,
        headroom_gpu_hours=max(0.0, active),
        idle_gpu_hours=use.idle,
        stalled_gpu_hours=use.stalled,
        lost_gpu_hours=use.lost,
        free_gpu_hours=use.free,
        kilowatt_hours=use.joules / JOULES_PER_KILOWATT_HOUR if is_measured else None,
        dollars=None if cost is None else cost.dollars_per_hour.scaled(use.held),
        wasted_dollars=None if cost is None else cost.dollars_per_hour.scaled(use.wasted),
        price_source="" if cost is None else cost.source,
        price_date="" if cost is None else cost.date,
        price_basis="" if cost is None else cost.basis,
    )
