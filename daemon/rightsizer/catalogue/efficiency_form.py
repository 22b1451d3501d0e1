"""Efficiencies and sums over GPUs from a board's entry, completed by what is assumed."""

from collections.abc import Mapping
from typing import Final

from rightsizer.catalogue.assumptions import KINDS, Assumed, Assumptions
from rightsizer.catalogue.board import Board
from rightsizer.catalogue.efficiency import AllReduce, Efficiency
from rightsizer.catalogue.origin import Origin, OriginKind
from rightsizer.catalogue.precision import Precision
from rightsizer.catalogue.row import Row

_COUNTS: Final = (2, 4, 8)


def read_ratios(row: Row, most: float) -> dict[Precision, float]:
    """Positive numbers by number format."""
    row.refuse_unknown(tuple(Precision))
    numbers = {
        precision: row.number(precision, 1e-3, most)
        for precision in Precision
        if precision in row.values
    }
    return {precision: number for precision, number in numbers.items() if number is not None}


def read_efficiency(
    row: Row,
    assumed: Assumed,
    peaks: Mapping[Precision, float],
    power_watts: float,
    measured: Origin,
) -> tuple[Efficiency, dict[str, Origin]]:
    """What a board achieves, and where each figure comes from."""
    row.refuse_unknown(KINDS)
    given = {kind: read_ratios(row.row(kind), 1.0) for kind in KINDS}
    cap = 1.0
    if Precision.BF16 not in given["gemm"]:
        cap = assumed.power_cap_ratio(power_watts, peaks.get(Precision.BF16))
    gemm = {
        precision: ratio * (1.0 if precision is Precision.FP32 else cap)
        for precision, ratio in assumed.ratios["gemm"].items()
        if precision in peaks
    }
    efficiency = Efficiency(
        gemm | given["gemm"],
        {**assumed.ratios["weight_read"], **given["weight_read"]},
        {**assumed.ratios["decode_attention"], **given["decode_attention"]},
        cap,
    )
    origins = {"efficiency": Origin(OriginKind.ASSUMED, assumed.source)} | {
        f"efficiency.{kind}.{precision}": measured for kind in KINDS for precision in given[kind]
    }
    return efficiency, origins


def read_all_reduce(
    row: Row, board: Board, assumptions: Assumptions, measured: Origin
) -> tuple[dict[int, AllReduce], dict[str, Origin]]:
    """What sums over 2, 4 and 8 GPUs cost, and where each figure comes from."""
    row.refuse_unknown(tuple(map(str, _COUNTS)))
    costs: dict[int, AllReduce] = {}
    origins: dict[str, Origin] = {}
    for count in _COUNTS:
        name = f"all_reduce.{count}"
        given = _given(row, count)
        if given is not None:
            costs[count], origins[name] = given, measured
            continue
        way, bandwidth = _way(board, count)
        assumed = dict(assumptions.all_reduce_of(way, bandwidth)).get(count)
        if assumed is not None:
            source = f"{way}: {assumptions.all_reduce_source(way)}"
            costs[count], origins[name] = assumed, Origin(OriginKind.ASSUMED, source)
    return costs, origins


def _way(board: Board, count: int) -> tuple[str, float]:
    """What so many boards talk over, and how much one of them can send."""
    if count <= (board.linked_gpu_count or 0) and board.link_bytes_per_second:
        generation = board.nvlink_generation
        way = "Infinity Fabric" if generation is None else f"NVLink {generation}"
        return way, board.link_bytes_per_second
    return f"PCIe {board.pcie_generation}", board.pcie_bytes_per_second


def _given(row: Row, count: int) -> AllReduce | None:
    cells = row.values.get(count)
    if cells is None:
        return None
    key = str(count)
    if not isinstance(cells, list) or len(cells) != len(("bandwidth", "latency")):
        row.fault(key, "must be [bus bandwidth in GB/s, microseconds of a small message]")
        return None
    bandwidth = row.checked_number(key, cells[0], 1e-3, 1e5)
    microseconds = row.checked_number(key, cells[1], 1e-3, 1e6)
    if bandwidth is None or microseconds is None:
        return None
    return AllReduce(bandwidth * 1e9, microseconds / 1e6)
