"""How much faster one place is than another, a whole GPU or a MIG slice, without a profile."""

import math

from rightsizer.catalogue.precision import Precision
from rightsizer.catalogue.ratio_table import RatioTable
from rightsizer.sizing.estimate import Interval
from rightsizer.sizing.mig import BusyShares, slice_rate
from rightsizer.sizing.place import Place
from rightsizer.sizing.ratio import throughput_ratio
from rightsizer.sizing.workload_family import Scenario, Workload

__all__ = ["place_ratio"]


def place_ratio(
    workload: Workload,
    place: Place,
    other: Place,
    table: RatioTable,
    precision: Precision | None = None,
) -> Interval:
    """The throughput of the other place over that of the first, neighbors of slices idle.

    Each runs in its best usable format, or in the one given where it can.
    """
    boards = throughput_ratio(
        workload,
        place.board,
        other.board,
        table,
        precision,
        memory_settings=place.memory_settings,
    )
    if place.name == other.name or (place.slice is None and other.slice is None):
        return boards
    rate, other_rate = _rate(workload, place), _rate(workload, other)
    ratio = boards.value * other_rate.value / rate.value
    # The three are wrong for reasons of their own.
    logs = [math.log(each.high / each.value) for each in (boards, rate, other_rate)]
    return Interval.around(ratio, math.exp(math.hypot(*logs)))


def _rate(workload: Workload, place: Place) -> Interval:
    if place.slice is None:
        return Interval(1.0, 1.0, 1.0)
    shares = BusyShares(
        matrix_ratio=workload.compute_share,
        is_latency_bound=workload.scenario is Scenario.SERVER,
    )
    return slice_rate(place.board, place.slice, shares)
