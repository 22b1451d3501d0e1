"""What the GPUs of each team came to: hours held, used and wasted, energy and money."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from rightsizer.advice.market import Market
from rightsizer.domain.finding import Case
from rightsizer.domain.state import Cause
from rightsizer.domain.window import Window
from rightsizer.fleet.view import WorkloadView
from rightsizer.sizing.estimate import Interval

__all__ = ["TeamUse", "team_uses"]

_HOUR_SECONDS: Final = 3600.0
_JOULES_PER_KILOWATT_HOUR: Final = 3.6e6
_NOTHING: Final = Interval(0.0, 0.0, 0.0)


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
    dollars: Interval | None
    """Of the hours held; `None` where nobody states the price of a board."""
    wasted_dollars: Interval | None
    price_source: str
    price_date: str


@dataclass(frozen=True, slots=True)
class _Part:
    """One device of one workload."""

    held_hours: float
    used_hours: float
    wasted_hours: float
    joules: float | None
    dollars_per_hour: Interval | None
    price_source: str
    price_date: str


def team_uses(views: Iterable[WorkloadView], market: Market) -> tuple[TeamUse, ...]:
    """A row a team, whoever held most first."""
    parts: dict[str, list[_Part]] = defaultdict(list)
    counts: dict[str, int] = defaultdict(int)
    for view in sorted(views, key=lambda view: view.case.key):
        counts[view.team] += 1
        parts[view.team].extend(_parts(view.case, market))
    rows = (_row(team, counts[team], parts[team]) for team in counts)
    return tuple(sorted(rows, key=lambda row: (-row.held_gpu_hours, row.team)))


def _parts(case: Case, market: Market) -> Iterator[_Part]:
    for device, window in zip(case.devices, case.windows, strict=True):
        cost = market.cost(market.board(device.board))
        part = device.capacity_ratio
        yield _Part(
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


def _row(team: str, workloads: int, parts: list[_Part]) -> TeamUse:
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


def _dollars(hours: Iterable[tuple[_Part, float]]) -> Interval | None:
    total = _NOTHING
    for part, time in hours:
        if part.dollars_per_hour is None:
            return None
        hour = part.dollars_per_hour.scaled(time)
        total = Interval(total.value + hour.value, total.low + hour.low, total.high + hour.high)
    return total


def _joined(words: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, words)))
