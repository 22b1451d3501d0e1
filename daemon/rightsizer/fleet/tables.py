"""Tables of an answer in JSON: hours and money by team, pool, cluster and kind."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from rightsizer.fleet.usage import FREE, FREE_NAME

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
    """Sum hours, energy and money; what is unknown of some of the hours is unknown of all."""
    held = [part for part in parts if part["held_gpu_hours"]]
    energies = [part["kilowatt_hours"] for part in held]
    found: JsonRow = {name: sum(part[name] for part in parts) for name in ("workloads", *HOURS)}
    found["kilowatt_hours"] = sum(energies) if energies and None not in energies else None
    for name in _MONEY:
        costs = [part[name] for part in held]
        is_known = None not in costs
        found[name] = {end: sum(cost[end] for cost in costs) for end in _ENDS} if is_known else None
    for name in ("price_source", "price_date"):
        words = set(chain.from_iterable(part[name].split(_SEPARATOR) for part in held))
        found[name] = _SEPARATOR.join(sorted(words - {""}))
    return found


def cluster_rows(
    names: Iterable[str],
    pools: Sequence[JsonRow],
    holdings: Iterable[JsonRow],
    waiting: Sequence[JsonRow],
) -> list[JsonRow]:
    """Return clusters with sums over their pools, ignoring unknown means."""
    workloads = {(row["cluster"], row["workload"]) for row in holdings if row["workload"]}
    found = []
    for name in dict.fromkeys(names):
        mine = [pool for pool in pools if pool["cluster"] == name]
        means = {
            figure: [pool[figure] for pool in mine if pool[figure] is not None]
            for figure in ("held_mean", "active_mean")
        }
        found.append(
            {
                "name": name,
                "pools": len(mine),
                **{figure: sum(pool[figure] for pool in mine) for figure in ("nodes", "gpus")},
                "workloads": sum(cluster == name for cluster, _ in workloads),
                **{figure: sum(known) if known else None for figure, known in means.items()},
                "free_now": sum(pool["free_now"] for pool in mine),
                "waiting_gpus": sum(row["gpus"] for row in waiting if row["cluster"] == name),
            }
        )
    return found


def pools_of_team(document: Mapping[str, Any], pools: Iterable[JsonRow]) -> list[JsonRow]:
    """Return what a document that is limited to one team has of some pools."""
    hours = document["lookback_seconds"] / 3600.0
    found = []
    for pool in pools:

        def mine(rows: Iterable[JsonRow], name: str = pool["name"]) -> list[JsonRow]:
            return [row for row in rows if row["pool"] == name]

        holdings = mine(document["holdings"])
        parts = mine(document["usage"]["parts"])
        waiting = [row["gpus"] for row in mine(document["waiting"])]
        if not (holdings or parts or waiting):
            continue
        held = sum(part["held_gpu_hours"] for part in parts)
        idle = sum(part["idle_gpu_hours"] for part in parts)
        found.append(
            pool
            | {
                "gpus": sum(row["gpus"] for row in holdings),
                "nodes": len({row["node"] for row in holdings}),
                "held_mean": held / hours,
                "held_peak": None,
                "active_mean": (held - idle) / hours,
                "free_now": 0,
                "waiting_gpus": sum(waiting) if waiting else None,
            }
        )
    return found
