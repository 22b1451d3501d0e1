"""What teams, pools, clusters and kinds of workloads used, and what it cost."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from rightsizer.advice.market import Market
from rightsizer.fleet.cases.usage import FREE, Group, UseKey, UseSum, summed
from rightsizer.model.frozen import dataclass
from rightsizer.model.units import JOULES_PER_KILOWATT_HOUR
from rightsizer.sizing.cost import HourlyCost
from rightsizer.sizing.estimate import EstimateInterval

FREE_NAME = f"({FREE})"
"""In place of a team's."""


@dataclass(frozen=True, slots=True)
class UseRow:
    """A row of a table."""

    name: str
    cluster: str
    workloads: int
    held_gpu_hours: float
    """Whose state is known."""
    unknown_gpu_hours: float
    """That were there, and of which nothing is known."""
    used_gpu_hours: float
    wasted_gpu_hours: float
    kilowatt_hours: float | None
    """At the GPUs; `None` where that of some GPU was not measured."""
    dollars: EstimateInterval | None
    """Of the hours held; `None` where a board has no price."""
    wasted_dollars: EstimateInterval | None
    price_source: str
    price_date: str


@dataclass(frozen=True, slots=True)
class FleetUsage:
    """The same hours in four orders, each of which sums to the total."""

    total: UseRow
    teams: tuple[UseRow, ...] = ()
    """A row for each team of a cluster, the largest holder first; the empty name has what is
    unknown, and `(free)` what nothing held."""
    pools: tuple[UseRow, ...] = ()
    clusters: tuple[UseRow, ...] = ()
    kinds: tuple[UseRow, ...] = ()
    """Of workloads, `unknown` and `free`."""


def usage_of(uses: Mapping[UseKey, UseSum], market: Market) -> FleetUsage:
    """The tables of a fleet's hours."""

    def rows(name: Callable[[UseKey], tuple[str, str]]) -> tuple[UseRow, ...]:
        groups: dict[tuple[str, str], list[tuple[UseKey, UseSum]]] = {}
        for each in sorted(uses.items(), key=lambda use: str(use[0])):
            groups.setdefault(name(each[0]), []).append(each)
        found = [_row(*names, group, market) for names, group in groups.items()]
        return tuple(sorted(found, key=_turn))

    return FleetUsage(
        total=_row("", "", tuple(uses.items()), market),
        teams=rows(lambda key: (key.cluster, FREE_NAME if key.kind == FREE else key.team)),
        pools=rows(lambda key: (key.cluster, key.pool)),
        clusters=rows(lambda key: (key.cluster, key.cluster)),
        kinds=rows(lambda key: ("", key.kind)),
    )


def _turn(row: UseRow) -> tuple[str, bool, float, str]:
    """By cluster, the largest first, and last what nothing held."""
    return row.cluster, row.name in {FREE, FREE_NAME}, -row.held_gpu_hours, row.name


def _row(cluster: str, name: str, group: Group, market: Market) -> UseRow:
    whole = summed(group)
    costs = [market.cost(market.board(key.board)) for key, _ in group]
    return UseRow(
        name=name,
        cluster=cluster,
        workloads=len(whole.workloads),
        held_gpu_hours=whole.held,
        unknown_gpu_hours=whole.unknown,
        used_gpu_hours=whole.used,
        wasted_gpu_hours=whole.wasted,
        kilowatt_hours=whole.joules / JOULES_PER_KILOWATT_HOUR
        if whole.is_measured and whole.held
        else None,
        dollars=_dollars(costs, [use.held for _, use in group]),
        wasted_dollars=_dollars(costs, [use.wasted for _, use in group]),
        price_source=_joined(each.source for each in costs if each),
        price_date=_joined(each.date for each in costs if each),
    )


def _dollars(costs: Sequence[HourlyCost | None], hours: Sequence[float]) -> EstimateInterval | None:
    value = low = high = 0.0
    for cost, time in zip(costs, hours, strict=True):
        if cost is None:
            return None
        hourly = cost.dollars_per_hour
        value += hourly.value * time
        low += hourly.low * time
        high += hourly.high * time
    return EstimateInterval(value, low, high)


def _joined(words: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, words)))
