"""Parser of a board's entry in a catalogue file: figures, efficiencies, MIG, assumptions."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from rightsizer.catalogue.board import (
    AllReduce,
    Board,
    Efficiency,
    FactOrigin,
    MigProfile,
    OriginKind,
    Precision,
)
from rightsizer.config.row import Row, shown

_NEEDED: Final = object()
EFFICIENCIES: Final = ("gemm", "weight_read", "decode_attention")
"""Keys of the efficiency tables."""
_TEXTS: Final = {
    "vendor": "NVIDIA",
    **dict.fromkeys(("form_factor", "memory_type", "source", "notes"), ""),
}
"""Optional texts with their defaults."""
_CAPABILITY: Final = re.compile(r"\d{1,3}\.\d")
_USUAL_PCIE: Final = FactOrigin(OriginKind.ASSUMED, "PCIe 4 with 16 lanes, as most have it")
_NVLINK: Final = frozenset({"nvlink_generation", "nvlink_total_gbs"})
_MEASURED: Final = "kernel-tables"
_OVERHEAD_BYTES: Final = 205 * 2**20
"""Subtracted once per instance and once more by its share. Matches an H100 within 0.3%
(9984, 20096, 40448 and 81152 MiB) and an A100 80 GB within 1.5% (9856 MiB)."""


class Figure(NamedTuple):
    """Number of a board: field, key in a file, and bounds there."""

    field: str
    key: str
    least: Any
    most: Any
    unit: float | None
    """Unit of the number in the file; `None` for an integer."""
    otherwise: Any = None
    """Default if an entry omits it; `_NEEDED` makes that a fault."""


_MEMORY: Final = (
    Figure("nominal_memory_bytes", "memory_gb", 1, 10_000, 1e9),
    Figure("memory_bytes", "memory_mib", 1024, 10_000_000, 2.0**20, _NEEDED),
    Figure("memory_bandwidth_bytes_per_second", "memory_bandwidth_gbs", 10, 100_000, 1e9, _NEEDED),
    Figure("l2_bytes", "l2_mb", 0.1, 10_000, 1e6),
)
FIGURES: Final = (
    *_MEMORY,
    Figure("sm_count", "sm_count", 1, 10_000, None, _NEEDED),
    Figure("power_limit_watts", "power_limit_watts", 1, 10_000, 1.0, _NEEDED),
    Figure("sm_clock_maximum_hertz", "sm_clock_maximum_mhz", 100, 10_000, 1e6),
    Figure("pcie_generation", "pcie_generation", 1, 6, None, 4),
    Figure("pcie_width", "pcie_width", 1, 32, None, 16),
    Figure("nvlink_generation", "nvlink_generation", 1, 20, None),
    # The file has the sum of both directions, a board one direction.
    Figure("nvlink_bytes_per_second", "nvlink_total_gbs", 1, 100_000, 1e9 / 2, 0.0),
    Figure(
        "infinity_fabric_bytes_per_second", "infinity_fabric_total_gbs", 1, 100_000, 1e9 / 2, 0.0
    ),
    Figure("linked_gpu_count", "linked_gpus", 2, 10_000, None),
)
_KNOWN: Final = (
    "names",
    "other_names",
    "architecture",
    "compute_capability",
    "release_year",
    "dense_peak_tera",
    "efficiency",
    "all_reduce",
    "mig_profiles",
    "verified",
    *(figure.key for figure in FIGURES),
    *_TEXTS,
)


def read_board(
    key: str, row: Row, texts: Mapping[str, str], assumptions: Mapping[str, Mapping[str, Any]]
) -> Board:
    """Read a board from its entry; faults go to the row.

    `texts`: sources by the short names used in entries; `assumptions`: the tables of efficiencies
    and of all-reduce costs in the catalogue file.
    """
    row.refuse_unknown(_KNOWN)
    if 0 < sum(row.values.get(name) is not None for name in _NVLINK) < len(_NVLINK):
        row.fault("nvlink_total_gbs", "NVLink needs nvlink_generation and nvlink_total_gbs both")
    bare = Board(
        key=key,
        names=row.texts("names"),
        other_names=row.texts("other_names"),
        architecture=row.needed_text("architecture"),
        compute_capability=_capability(row),
        release_year=row.count("release_year", 2006, 2100),
        **{figure.field: _number(row, figure) for figure in _MEMORY},
        peak_per_second=_peaks(row),
        **{figure.field: _number(row, figure) for figure in FIGURES if figure not in _MEMORY},
        **dict[str, Any]({name: row.text(name) or usual for name, usual in _TEXTS.items()}),
    )
    measured = FactOrigin(OriginKind.MEASURED, texts.get(_MEASURED, ""))
    known, of_efficiency = _with_efficiency(row, bare, assumptions["efficiency"], measured)
    costs, of_all_reduce = _all_reduce(row, bare, assumptions["all_reduce"], measured)
    checked = row.row("verified")
    verified = {
        figure: FactOrigin(OriginKind.VERIFIED, texts.get(source, source))
        for source in checked.values
        for figure in checked.texts(source)
    }
    pcie = ("pcie_generation", "pcie_width")
    usual = {name: _USUAL_PCIE for name in pcie if name not in row.values}
    return replace(
        known,
        mig_profiles=tuple(_mig_profiles(row, bare.memory_bytes)),
        all_reduce=costs,
        origins=usual | of_efficiency | of_all_reduce | verified,
    )


def _number(row: Row, figure: Figure) -> Any:
    is_needed = figure.otherwise is _NEEDED
    read: Callable[[str, Any, Any], float | None]
    if figure.unit is None:
        read = row.needed_count if is_needed else row.count
    else:
        read = row.needed_number if is_needed else row.number
    value = read(figure.key, figure.least, figure.most)
    return figure.otherwise if value is None else value * (figure.unit or 1)


def _capability(row: Row) -> tuple[int, int]:
    value = row.values.get("compute_capability")
    if value is None or not _CAPABILITY.fullmatch(str(value)):
        given = "is required" if value is None else f"must be a text (got {value!r})"
        row.fault("compute_capability", f'{given}; write it like "9.0"')
        return (0, 0)
    major, minor = str(value).split(".")
    return int(major), int(minor)


def _peaks(row: Row) -> dict[Precision, float]:
    peaks = _ratios(row.row("dense_peak_tera"), 1e6)
    if Precision.BF16 not in peaks:
        row.fault("dense_peak_tera", "needs bf16, in dense tera-operations: {bf16: 989.4}")
    return {precision: peak * 1e12 for precision, peak in peaks.items()}


def _ratios(row: Row, most: float) -> dict[Precision, float]:
    row.refuse_unknown(tuple(Precision))
    numbers = {precision: row.number(precision, 1e-3, most) for precision in Precision}
    return {precision: number for precision, number in numbers.items() if number is not None}


def _with_efficiency(
    row: Row, board: Board, tables: Mapping[str, Mapping[str, Any]], measured: FactOrigin
) -> tuple[Board, dict[str, FactOrigin]]:
    """Add the efficiency to a board, with the origin of each figure.

    Among tables of similar boards, the most specific wins, per figure. A power limit lowers the
    clock, which follows its square root, but not the fraction of cycles in which a pipe is busy.
    """
    own = row.row("efficiency")
    own.refuse_unknown(EFFICIENCIES)
    given = {kind: _ratios(own.row(kind), 1.0) for kind in EFFICIENCIES}
    capability = "{}.{}".format(*board.compute_capability)
    names = ("default", board.architecture, f"{board.architecture} {capability}", board.key)
    alike = [tables.get(name, {}) for name in names]
    latest = {key: value for table in alike for key, value in table.items()}
    assumed: dict[str, dict[Precision, float]] = {kind: {} for kind in EFFICIENCIES}
    for table, kind in product(alike, EFFICIENCIES):
        assumed[kind] |= {Precision(each): ratio for each, ratio in table.get(kind, {}).items()}
    is_measured = Precision.BF16 in given["gemm"]
    cap = 1.0
    peak = board.peak_per_second
    watts_per_tera = latest.get("full_speed_watts_per_tera")
    if not is_measured and watts_per_tera is not None and Precision.BF16 in peak:
        needed = watts_per_tera * peak[Precision.BF16] / 1e12
        cap = min(1.0, math.sqrt(board.power_limit_watts / needed))
    gemm = {
        precision: ratio * (1.0 if precision is Precision.FP32 else cap)
        for precision, ratio in assumed["gemm"].items()
        if precision in peak
    }
    usual = {**assumed, "gemm": gemm}
    reached = {kind: usual[kind] | given[kind] for kind in EFFICIENCIES}
    efficiency = Efficiency(**reached, power_cap_ratio=cap)
    origins = {"efficiency": FactOrigin(OriginKind.ASSUMED, latest.get("source", ""))} | {
        f"efficiency.{kind}.{precision}": measured for kind in given for precision in given[kind]
    }
    known = replace(
        board,
        efficiency=efficiency,
        achievable_compute_ratio=(given if is_measured else assumed)["gemm"][Precision.BF16],
        achievable_bandwidth_ratio=efficiency.weight_read[Precision.BF16],
    )
    return known, origins


def _all_reduce(
    row: Row, board: Board, tables: Mapping[str, Mapping[Any, Any]], measured: FactOrigin
) -> tuple[dict[int, AllReduce], dict[str, FactOrigin]]:
    own = row.row("all_reduce")
    counts = (2, 4, 8)
    own.refuse_unknown(tuple(map(str, counts)))
    costs: dict[int, AllReduce] = {}
    origins: dict[str, FactOrigin] = {}
    for count in counts:
        interconnect, bandwidth = _interconnect(board, count)
        table = tables.get(interconnect, {})
        given = _measured_all_reduce(own, count)
        if given is not None:
            costs[count] = given
            origins[f"all_reduce.{count}"] = measured
        elif count in table:
            share, microseconds = table[count]
            costs[count] = AllReduce(share * bandwidth, microseconds / 1e6)
            source = f"{interconnect}: {table.get('source', '')}"
            origins[f"all_reduce.{count}"] = FactOrigin(OriginKind.ASSUMED, source)
    return costs, origins


def _interconnect(board: Board, count: int) -> tuple[str, float]:
    """Name and bandwidth of the interconnect between this number of boards."""
    if count <= (board.linked_gpu_count or 0) and board.link_bytes_per_second:
        generation = board.nvlink_generation
        interconnect = "Infinity Fabric" if generation is None else f"NVLink {generation}"
        return interconnect, board.link_bytes_per_second
    return f"PCIe {board.pcie_generation}", board.pcie_bytes_per_second


def _measured_all_reduce(row: Row, count: int) -> AllReduce | None:
    cells = row.values.get(count)
    key = str(count)
    match cells:
        case None:
            return None
        case [given_bandwidth, given_latency]:
            bandwidth = row.checked_number(key, given_bandwidth, 1e-3, 1e5)
            microseconds = row.checked_number(key, given_latency, 1e-3, 1e6)
            if bandwidth is not None and microseconds is not None:
                return AllReduce(bandwidth * 1e9, microseconds / 1e6)
        case _:
            row.fault(key, "must be [bus bandwidth in GB/s, microseconds of a small message]")
    return None


def _mig_profiles(row: Row, board_bytes: float) -> Iterator[MigProfile]:
    key = "mig_profiles"
    for cells in row.items(key):
        try:
            given = cells if isinstance(cells, list) else []
            name, compute, memory, sm_count, maximum, *visible = given
            share = _share(compute)
            memory_share = _share(memory)
        except (ValueError, ZeroDivisionError):
            wanted = "must be like [1g.10gb, 1/7, 1/8, 16, 7], with SMs or null"
            row.fault(key, f"{wanted} (got {shown(cells)})")
            continue
        if not (0 < share <= 1 and 0 < memory_share <= 1):
            got = f"{shown(compute)}, {shown(memory)}"
            row.fault(key, f"{name}: shares must be above 0 and at most 1 (got {got})")
        mib = row.checked_number(key, visible[0], 1, 10_000_000) if visible else None
        sms = row.checked_number(key, sm_count, 1, 10_000)
        assumed_bytes = max(
            0.0, board_bytes * memory_share - _OVERHEAD_BYTES * (1.0 + memory_share)
        )
        yield MigProfile(
            name=str(name),
            compute_share=share,
            memory_share=memory_share,
            sm_count=None if sms is None else int(sms),
            maximum_count=int(row.checked_number(key, maximum, 1, 100) or 1),
            memory_bytes=assumed_bytes if mib is None else mib * 2.0**20,
            is_memory_assumed=mib is None,
        )


def _share(value: Any) -> float:
    """Parse `1/7` or `0.125`."""
    above, _, below = str(value).partition("/")
    return float(above) / float(below or 1)
