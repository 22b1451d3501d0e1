"""Tables of an answer in JSON: hours and money by team, pool, cluster and kind."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from rightsizer.advice.compatible import savings_of
from rightsizer.fleet.advice_groups import open_recommendations
from rightsizer.fleet.documents import HeldGpuDocument
from rightsizer.fleet.focus import fleet_focus
from rightsizer.fleet.served_blocks import SERVED_COLUMNS, served_rows
from rightsizer.fleet.usage import FREE, FREE_NAME
from rightsizer.model.values import HOUR_SECONDS
from rightsizer.report.focus import FOCUS, FOCUS_COLUMNS
from rightsizer.report.labels import HOURS_A_DAY
from rightsizer.report.table_file import csv_text

JsonRow = dict[str, Any]
HOURS: Final[tuple[str, ...]] = (
    "held_gpu_hours",
    "unknown_gpu_hours",
    "used_gpu_hours",
    "wasted_gpu_hours",
    "headroom_gpu_hours",
    "idle_gpu_hours",
    "stalled_gpu_hours",
    "lost_gpu_hours",
    "free_gpu_hours",
)
_MONEY: Final = ("dollars", "wasted_dollars")
_ENDS: Final = ("value", "low", "high")
_SEPARATOR: Final = "; "


def usage_tables(parts: Sequence[JsonRow]) -> JsonRow:
    """Return `teams` and `usage` of an answer, each of whose tables has all hours of the parts."""
    return {
        "teams": _table(parts, "team", _team, "wasted_gpu_hours"),
        "usage": {
            "total": {"name": "", "cluster": "", **summed(parts)},
            "pools": _table(parts, "name", lambda part: (part["cluster"], part["pool"])),
            "clusters": _table(parts, "name", lambda part: (part["cluster"], part["cluster"])),
            "kinds": _table(parts, "name", lambda part: ("", part["kind"])),
            "parts": [*parts],
        },
    }


def _team(part: JsonRow) -> tuple[str, str]:
    return part["cluster"], FREE_NAME if part["kind"] == FREE else part["team"]


def _table(
    parts: Iterable[JsonRow],
    heading: str,
    group_of: Callable[[JsonRow], tuple[str, str]],
    size: str = "held_gpu_hours",
) -> list[JsonRow]:
    """Sum parts by cluster and name: by cluster, most hours first, what nobody holds last."""
    groups: dict[tuple[str, str], list[JsonRow]] = {}
    for part in parts:
        groups.setdefault(group_of(part), []).append(part)
    rows = [
        {heading: name, "cluster": cluster, **summed(group)}
        for (cluster, name), group in groups.items()
    ]

    def rank(row: JsonRow) -> tuple[str, bool, float, str]:
        return row["cluster"], row[heading] in {FREE, FREE_NAME}, -row[size], row[heading]

    return sorted(rows, key=rank)


def summed(parts: Sequence[Mapping[str, Any]]) -> JsonRow:
    """Sum hours, energy and money; what is unknown of some of the hours is unknown of all.

    A workload of several parts counts once, and one of its name in another cluster is another.
    """
    held = [part for part in parts if part["held_gpu_hours"]]
    energies = [part["kilowatt_hours"] for part in held]
    workloads = {(part["cluster"], key) for part in parts for key in part["workloads"]}
    row_sum: JsonRow = {"workloads": len(workloads)}
    row_sum |= {name: sum(part[name] for part in parts) for name in HOURS}
    row_sum["kilowatt_hours"] = sum(energies) if energies and None not in energies else None
    for name in _MONEY:
        costs = [part[name] for part in held]
        is_known = None not in costs
        row_sum[name] = (
            {end: sum(cost[end] for cost in costs) for end in _ENDS} if is_known else None
        )
    for name in ("price_source", "price_date", "price_basis"):
        words = set(chain.from_iterable(part[name].split(_SEPARATOR) for part in held))
        row_sum[name] = _SEPARATOR.join(sorted(words - {""}))
    return row_sum


def cluster_rows(
    names: Iterable[str],
    pools: Sequence[JsonRow],
    holdings: Iterable[JsonRow],
    waiting: Sequence[JsonRow],
) -> list[JsonRow]:
    """Return clusters with sums over their pools, ignoring unknown means."""
    workloads = {(row["cluster"], row["workload"]) for row in holdings if row["workload"]}
    rows = []
    for name in dict.fromkeys(names):
        mine = [pool for pool in pools if pool["cluster"] == name]
        means = {
            figure: [pool[figure] for pool in mine if pool[figure] is not None]
            for figure in ("held_mean", "active_mean")
        }
        rows.append(
            {
                "name": name,
                "pools": len(mine),
                **{figure: sum(pool[figure] for pool in mine) for figure in ("nodes", "gpus")},
                "workloads": sum(cluster == name for cluster, _ in workloads),
                **{
                    figure: sum(figure_means) if figure_means else None
                    for figure, figure_means in means.items()
                },
                "free_now": sum(pool["free_now"] for pool in mine),
                "waiting_gpus": sum(row["gpus"] for row in waiting if row["cluster"] == name),
            }
        )
    return rows


def pools_of_team(document: Mapping[str, Any], pools: Iterable[JsonRow]) -> list[JsonRow]:
    """Return what a document that is limited to one team has of some pools."""
    hours = document["lookback_seconds"] / HOUR_SECONDS
    holdings = _by_pool(document["holdings"])
    parts = _by_pool(document["usage"]["parts"])
    waiting = _by_pool(document["waiting"])
    team_pools = []
    for pool in pools:
        name = pool["name"]
        if name not in holdings.keys() | parts.keys() | waiting.keys():
            continue
        held = sum(part["held_gpu_hours"] for part in parts[name])
        idle = sum(part["idle_gpu_hours"] for part in parts[name])
        mine = {
            "gpus": sum(row["gpus"] for row in holdings[name]),
            "nodes": len({row["node"] for row in holdings[name]}),
            "held_mean": held / hours,
            "held_peak": None,
            "active_mean": (held - idle) / hours,
            "free_now": 0,
            "waiting_gpus": sum(row["gpus"] for row in waiting[name]) or None,
        }
        team_pools.append(pool | mine)
    return team_pools


def _by_pool(rows: Iterable[JsonRow]) -> defaultdict[str, list[JsonRow]]:
    rows_by_pool = defaultdict[str, list[JsonRow]](list)
    for row in rows:
        rows_by_pool[row["pool"]].append(row)
    return rows_by_pool


_RECOMMENDATION: Final = (
    "id",
    "cluster",
    "team",
    "key",
    "finding",
    "action",
    "severity",
    "confidence",
    "risk",
    "state",
    "summary",
)


_COLUMNS: Final = {
    "recommendations": (*_RECOMMENDATION, "reasons", "gpus", "dollars_per_day", "devices"),
    "teams": ("team", "cluster", *summed(())),
    "gpus": HeldGpuDocument.__struct_fields__,
    "served": SERVED_COLUMNS,
    FOCUS: (*FOCUS_COLUMNS,),
}


def csv_tables(document: Mapping[str, Any]) -> dict[str, str]:
    """Return recommendations, teams, GPUs, served models and the bill in FOCUS as CSV, by name."""
    advice = [
        {
            **{name: piece[name] for name in _RECOMMENDATION},
            "reasons": " ".join(piece["reasons"]),
            "gpus": savings_of(piece).gpus,
            "dollars_per_day": savings_of(piece).dollars_per_hour * HOURS_A_DAY,
            "devices": " ".join(piece["devices"]),
        }
        for piece in open_recommendations(document["advice"])
    ]
    teams = [
        {**row, **{name: (row[name] or {}).get("value") for name in _MONEY}}
        for row in document["teams"]
    ]
    tables = {"recommendations": advice, "teams": teams, "gpus": document["holdings"]}
    tables["served"] = served_rows(document["served_models"])
    tables[FOCUS] = fleet_focus(document)
    return {name: csv_text(columns, tables[name]) for name, columns in _COLUMNS.items()}
