"""How long a device was at a resource's limit, and short of it, as its agent counted each day."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from rightsizer.domain.state import Resource
from rightsizer.domain.units import Nanoseconds
from rightsizer.fleet.kept.column import Column, Kind
from rightsizer.fleet.kept.grid import DAY, Grid
from rightsizer.fleet.sources.agent.form import FIGURE, Form, Labels
from rightsizer.fleet.sources.labels import word_of
from rightsizer.fleet.sources.placing import placed
from rightsizer.fleet.store import Sampled

__all__ = ["LIMITS", "limits_query", "pressure_columns"]

LIMITS: Final = {
    Kind.SATURATED: "rightsizer_saturated_ratio",
    Kind.PRESSED: "rightsizer_underprovisioned_ratio",
}
_DAY: Final = {"window": "24h"}


def limits_query(names: AbstractSet[str], labels: Labels, span: Nanoseconds) -> str | None:
    """The latest shares of a day within a span; `None` where there are none."""
    parts = []
    for kind, name in LIMITS.items():
        if name in names:
            latest = Form(name, "last_over_time").promql({**labels, **_DAY}, span)
            share = f"max by (uuid, resource) ({latest})"
            parts.append(
                f'label_replace(round({share}, 0.0001), "{FIGURE}", "{kind.value}", "", "")'
            )
    return " or ".join(parts) or None


def pressure_columns(
    limits: Mapping[str, Iterable[Sampled]], known: array[float], grid: Grid
) -> dict[Column, array[float]]:
    """Seconds by resource, each stretch with its part: when in the day it was is not exported."""
    each = grid.count // grid.days
    days = [known[day * each : (day + 1) * each] for day in range(grid.days)]
    are_even = [part.count(part[0]) == each for part in days]
    by_day = grid.by(DAY) if grid.days > 1 else None
    found = {}
    for kind, answers in limits.items():
        for series in answers:
            resource = word_of(Resource, series.labels.get("resource", ""))
            if resource is not None:
                shares = series.values[-1:] if by_day is None else placed(series, by_day)
                column = array("f")
                for share, part, is_even in zip(shares, days, are_even, strict=True):
                    # In this order, what is unknown stays so.
                    ratio = min(share, 1.0)
                    if is_even:
                        column += array("f", [ratio * part[0]]) * each
                    else:
                        column.extend(map(ratio.__mul__, part))
                found[Column(Kind(kind), resource.value)] = column
    return found
