"""The view of an estate, put together from what its batches contribute."""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.fleet.cases.estate_parts import EstateParts
from rightsizer.fleet.estate import EstateDevice, Waiting
from rightsizer.fleet.kept.grid import COARSE_STEP, DAY
from rightsizer.fleet.pools.figures import Figures
from rightsizer.fleet.pools.pool_sums import Counts
from rightsizer.fleet.pools.waiting import placed_waiting
from rightsizer.fleet.view import EstateView, Hours, PoolView

__all__ = ["view_of"]

_HOURS: Final = DAY // COARSE_STEP


def view_of(
    parts: EstateParts, span: Nanoseconds, now: Nanoseconds, waiting: Sequence[Waiting] = ()
) -> EstateView:
    """The estate over the last span of time.

    Args:
        parts: Of all batches.
        span: One that they were made for.
        now: Where it ends.
        waiting: Work that waits for GPUs.
    """
    start = now - span
    by_pool: dict[str, list[EstateDevice]] = defaultdict(list)
    for device in sorted(parts.present, key=lambda each: each.device.uuid):
        by_pool[device.pool].append(device)
    total = seconds(span) * len(parts.present)
    known = parts.known_seconds.get(span, 0.0)
    pools = tuple(
        _pool(name, devices, parts, start, now) for name, devices in sorted(by_pool.items())
    )
    workloads = tuple(sorted(parts.workloads.get(span, ()), key=lambda each: each.case.key))
    return EstateView(
        start=start,
        end=now,
        pools=pools,
        workloads=workloads,
        waiting=placed_waiting(waiting, pools, workloads),
        coverage_ratio=min(1.0, known / total) if total > 0 else 0.0,
    )


def _pool(
    name: str,
    devices: Sequence[EstateDevice],
    parts: EstateParts,
    start: Nanoseconds,
    end: Nanoseconds,
) -> PoolView:
    boards = {device.device.board for device in devices}
    nodes = parts.sums.days_of(name)
    whole: dict[int, Counts] = {}
    for days in nodes.values():
        for number, counts in days.items():
            whole[number] = _sum(whole.get(number), counts)
    sizes = _gpus(devices)
    return PoolView(
        name=name,
        board=boards.pop() if len(boards) == 1 else None,
        devices=tuple(devices),
        present=_hours((_mean(each, "present") for each in whole.values()), start, end),
        held=_hours((_mean(each, "held") for each in whole.values()), start, end),
        held_peak=_hours((_peak(each) for each in whole.values()), start, end),
        active=_hours((_mean(each, "active") for each in whole.values()), start, end),
        free_by_node=_gpus([each for each in devices if each.device.uuid in parts.free]),
        size_by_node=sizes,
        node_free={
            place.node: _hours(map(_free, days.values()), start, end)
            for place, days in nodes.items()
            if place.node in sizes
        },
    )


_Part = tuple[int, Sequence[float]]
"""The first hour since the epoch, and a day of figures."""


def _hours(days: Iterable[_Part], start: Nanoseconds, end: Nanoseconds) -> Hours:
    first, last = start // COARSE_STEP, end // COARSE_STEP
    values = array("f", [math.nan]) * max(0, last - first)
    for hour, figures in days:
        for place, figure in enumerate(figures, start=hour - first):
            if 0 <= place < len(values):
                values[place] = figure
    return Hours(first * COARSE_STEP, Figures(values))


def _mean(counts: Counts, name: str) -> _Part:
    hourly = counts.by_the_hour()
    return _known(hourly, getattr(hourly, name))


def _peak(counts: Counts) -> _Part:
    return _known(counts.by_the_hour(), counts.held_peaks())


def _free(counts: Counts) -> _Part:
    hourly = counts.by_the_hour()
    free = [max(0.0, there - held) for there, held in zip(hourly.present, hourly.held, strict=True)]
    return _known(hourly, free)


def _known(hourly: Counts, figures: Sequence[float]) -> _Part:
    """Nothing is known of an hour in which no GPU was heard of."""
    known = [
        figure if there > 0 else math.nan
        for there, figure in zip(hourly.present, figures, strict=True)
    ]
    return hourly.grid.day * _HOURS, known


def _sum(one: Counts | None, other: Counts) -> Counts:
    if one is None:
        return other.copy()
    one.add(other)
    return one


def _gpus(devices: Iterable[EstateDevice]) -> dict[str, int]:
    """By node, whole GPUs; one counts as soon as all its parts are among them."""
    found: dict[str, float] = defaultdict(float)
    for device in devices:
        found[device.node] += device.device.capacity_ratio
    return {node: int(gpus + _ROUNDING) for node, gpus in sorted(found.items())}


_ROUNDING: Final = 1e-6
