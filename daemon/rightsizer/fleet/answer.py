"""FleetAnswer: result of one run, with what each team's GPUs came to."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from rightsizer.advice.judgement import Judgement
from rightsizer.advice.market import Market
from rightsizer.fleet.cases.evaluation import VerdictKind
from rightsizer.fleet.model import (
    FleetPool,
    FleetView,
    FleetWorkload,
    HourlySeries,
    NodeAdvice,
    WaitingWork,
)
from rightsizer.fleet.pools.placement import WaitingOutcome
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.store import StoreUse
from rightsizer.model.advice import Advice
from rightsizer.model.finding import Case, Finding
from rightsizer.model.state import Cause
from rightsizer.model.units import Nanoseconds
from rightsizer.model.window import Window
from rightsizer.sizing.estimate import EstimateInterval

_HOUR_SECONDS: Final = 3600.0
_JOULES_PER_KILOWATT_HOUR: Final = 3.6e6
_NOTHING: Final = EstimateInterval(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class TeamUse:
    """A row of the table."""

    team: str
    workloads: int
    held_gpu_hours: float
    """Whose state is known."""
    used_gpu_hours: float
    wasted_gpu_hours: float
    kilowatt_hours: float | None
    """At the GPUs; `None` where those of some workload were not measured."""
    dollars: EstimateInterval | None
    """Of the hours held; `None` where nobody states the price of a board."""
    wasted_dollars: EstimateInterval | None
    price_source: str
    price_date: str


@dataclass(frozen=True, slots=True)
class _TeamPart:
    """One device of one workload."""

    held_hours: float
    used_hours: float
    wasted_hours: float
    joules: float | None
    dollars_per_hour: EstimateInterval | None
    price_source: str
    price_date: str


def team_uses(views: Iterable[FleetWorkload], market: Market) -> tuple[TeamUse, ...]:
    """A row a team, whoever held most first."""
    parts: dict[str, list[_TeamPart]] = defaultdict(list)
    counts: dict[str, int] = defaultdict(int)
    for view in sorted(views, key=lambda view: view.case.key):
        counts[view.team] += 1
        parts[view.team].extend(_parts(view.case, market))
    rows = (_row(team, counts[team], parts[team]) for team in counts)
    return tuple(sorted(rows, key=lambda row: (-row.held_gpu_hours, row.team)))


def _parts(case: Case, market: Market) -> Iterator[_TeamPart]:
    for device, window in zip(case.devices, case.windows, strict=True):
        cost = market.cost(market.board(device.board))
        part = device.capacity_ratio
        yield _TeamPart(
            held_hours=part * window.known_seconds / _HOUR_SECONDS,
            used_hours=part * window.used_seconds / _HOUR_SECONDS,
            wasted_hours=part * _wasted_seconds(window) / _HOUR_SECONDS,
            joules=window.energy_joules if window.energy_joules > 0.0 else None,
            dollars_per_hour=cost.dollars_per_hour if cost else None,
            price_source=cost.source if cost else "",
            price_date=cost.date if cost else "",
        )


def _wasted_seconds(window: Window) -> float:
    """All but the headroom: room that a GPU at work has left wastes nobody's time."""
    return sum(lost for cause, lost in window.waste_seconds.items() if cause is not Cause.HEADROOM)


def _row(team: str, workloads: int, parts: list[_TeamPart]) -> TeamUse:
    known = [each for each in parts if each.held_hours > 0.0]
    joules = [each.joules for each in known]
    measured = [each for each in joules if each is not None]
    is_measured = bool(measured) and len(measured) == len(joules)
    return TeamUse(
        team=team,
        workloads=workloads,
        held_gpu_hours=sum(each.held_hours for each in known),
        used_gpu_hours=sum(each.used_hours for each in known),
        wasted_gpu_hours=sum(each.wasted_hours for each in known),
        kilowatt_hours=sum(measured) / _JOULES_PER_KILOWATT_HOUR if is_measured else None,
        dollars=_dollars((each, each.held_hours) for each in known),
        wasted_dollars=_dollars((each, each.wasted_hours) for each in known),
        price_source=_joined(each.price_source for each in known),
        price_date=_joined(each.price_date for each in known),
    )


def _dollars(hours: Iterable[tuple[_TeamPart, float]]) -> EstimateInterval | None:
    total = _NOTHING
    for part, time in hours:
        if part.dollars_per_hour is None:
            return None
        hour = part.dollars_per_hour.scaled(time)
        total = EstimateInterval(
            total.value + hour.value, total.low + hour.low, total.high + hour.high
        )
    return total


def _joined(words: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, words)))


def gpus_of(pool: FleetPool) -> float:
    """Whole GPUs, however divided."""
    return sum(each.device.capacity_ratio for each in pool.devices)


def mean_of(hours: HourlySeries) -> float | None:
    """Over the hours that are known, `None` where none is."""
    known = [value for value in hours.values if value is not None]
    return sum(known) / len(known) if known else None


def peak_of(hours: HourlySeries) -> float | None:
    """The highest of the hours that are known, `None` where none is."""
    return max((value for value in hours.values if value is not None), default=None)


def waiting_by_pool(waiting: Iterable[WaitingWork]) -> dict[str, float]:
    """GPUs that work waits for, by the pool that it waits for."""
    found: dict[str, float] = {}
    for each in waiting:
        found[each.pool] = found.get(each.pool, 0.0) + each.gpus
    return found


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    """One look at an estate."""

    time: Nanoseconds
    """Wall time that is looked back from."""
    lookback_seconds: float
    sources: tuple[SourceReport, ...]
    view: FleetView
    judgements: tuple[Judgement, ...] = ()
    """Those that complain, and those on what is open; all where that was asked for."""
    tallies: Mapping[VerdictKind, int] = field(default_factory=dict)
    """How many verdicts there were of each kind."""
    node_advice: tuple[NodeAdvice, ...] = ()
    """What the nodes' own agents advise beside; the fleet neither repeats nor annotates it."""
    waiting: tuple[WaitingWork, ...] = ()
    served: tuple[WaitingOutcome, ...] = ()
    """What each of those could get, the longest waiting first."""
    advice: tuple[Advice, ...] = ()
    """The ledger's, open first."""
    teams: tuple[TeamUse, ...] = ()
    use: StoreUse = field(default_factory=StoreUse)
    """What it cost the store."""
    notes: tuple[str, ...] = ()
    """What limits the answer, a sentence each."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The verdicts of the judgements."""
        return tuple(each.finding for each in self.judgements)
