"""Parser of a board's entry in a catalogue file.

Facts, efficiencies, MIG profiles, what is assumed.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

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
from rightsizer.model.frozen import dataclass, field, replace

KINDS: Final = ("gemm", "weight_read", "decode_attention")
"""The parts of an efficiency."""


@dataclass(frozen=True, slots=True)
class Assumed:
    """Efficiencies of boards alike."""

    ratios: Mapping[str, Mapping[Precision, float]]
    full_speed_watts_per_tera: float | None
    source: str

    def power_cap_ratio(self, power_watts: float, peak_per_second: float | None) -> float:
        """What a power limit leaves of the dense 16-bit peak: clocks go with its root."""
        if self.full_speed_watts_per_tera is None or peak_per_second is None:
            return 1.0
        needed = self.full_speed_watts_per_tera * peak_per_second / 1e12
        return min(1.0, math.sqrt(power_watts / needed))


@dataclass(frozen=True, slots=True)
class Assumptions:
    """The tables of the catalogue's file."""

    efficiency: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    all_reduce: Mapping[str, Mapping[Any, Any]] = field(default_factory=dict)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """The tables under `assumptions`."""
        return cls(data["efficiency"], data["all_reduce"])

    def efficiency_of(self, key: str, architecture: str, capability: str) -> Assumed:
        """What is taken for a board; the most particular table wins, figure by figure."""
        ratios: dict[str, dict[Precision, float]] = {kind: {} for kind in KINDS}
        watts, source = None, ""
        for name in ("default", architecture, f"{architecture} {capability}", key):
            table = self.efficiency.get(name, {})
            for kind in KINDS:
                for precision, ratio in table.get(kind, {}).items():
                    ratios[kind][Precision(precision)] = ratio
            watts = table.get("full_speed_watts_per_tera", watts)
            source = table.get("source", source)
        return Assumed(ratios, watts, source)

    def all_reduce_of(self, way: str, bytes_per_second: float) -> Iterator[tuple[int, AllReduce]]:
        """What sums over a way between GPUs cost, by the number of GPUs."""
        for count, cell in self.all_reduce.get(way, {}).items():
            if isinstance(count, int):
                share, microseconds = cell
                yield count, AllReduce(share * bytes_per_second, microseconds / 1e6)

    def all_reduce_source(self, way: str) -> str:
        """Where those figures come from."""
        return str(self.all_reduce.get(way, {}).get("source", ""))


_KEY: Final = "mig_profiles"
_OVERHEAD_BYTES: Final = 205 * 2**20
"""Taken once from each slice, and once more by its share: so what an H100 shows is met within 0.3 %
(9984, 20096, 40448 and 81152 MiB), what an A100 of 80 GB does within 1.5 % (9856 MiB)."""


def read_mig_profiles(row: Row, board_bytes: float) -> tuple[MigProfile, ...]:
    """The profiles of a board of so much memory."""
    profiles = (_profile(row, cells, board_bytes) for cells in row.items(_KEY))
    return tuple(profile for profile in profiles if profile is not None)


def _profile(row: Row, cells: Any, board_bytes: float) -> MigProfile | None:
    try:
        name, compute, memory, sm_count, maximum, *visible = (
            cells if isinstance(cells, list) else []
        )
        compute_share, memory_share = _share(compute), _share(memory)
    except (ValueError, ZeroDivisionError):
        row.fault(
            _KEY,
            f"must be like [1g.10gb, 1/7, 1/8, 16, 7], with SMs or null (got {shown(cells)})",
        )
        return None
    if not (0 < compute_share <= 1 and 0 < memory_share <= 1):
        row.fault(
            _KEY,
            f"{name}: shares must be above 0 and at most 1 (got {shown(compute)}, {shown(memory)})",
        )
    mib = row.checked_number(_KEY, visible[0], 1, 10_000_000) if visible else None
    sms = row.checked_number(_KEY, sm_count, 1, 10_000)
    most = row.checked_number(_KEY, maximum, 1, 100)
    return MigProfile(
        name=str(name),
        compute_share=compute_share,
        memory_share=memory_share,
        sm_count=None if sms is None else int(sms),
        maximum_count=int(most or 1),
        memory_bytes=_visible(board_bytes, memory_share) if mib is None else mib * 2.0**20,
        is_memory_assumed=mib is None,
    )


def _share(value: Any) -> float:
    """`1/7` or `0.125`."""
    above, _, below = str(value).partition("/")
    return float(above) / float(below or 1)


def _visible(board_bytes: float, share: float) -> float:
    return max(0.0, board_bytes * share - _OVERHEAD_BYTES * (1.0 + share))


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
    measured: FactOrigin,
) -> tuple[Efficiency, dict[str, FactOrigin]]:
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
    origins = {"efficiency": FactOrigin(OriginKind.ASSUMED, assumed.source)} | {
        f"efficiency.{kind}.{precision}": measured for kind in KINDS for precision in given[kind]
    }
    return efficiency, origins


def read_all_reduce(
    row: Row, board: Board, assumptions: Assumptions, measured: FactOrigin
) -> tuple[dict[int, AllReduce], dict[str, FactOrigin]]:
    """What sums over 2, 4 and 8 GPUs cost, and where each figure comes from."""
    row.refuse_unknown(tuple(map(str, _COUNTS)))
    costs: dict[int, AllReduce] = {}
    origins: dict[str, FactOrigin] = {}
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
            costs[count], origins[name] = assumed, FactOrigin(OriginKind.ASSUMED, source)
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


_KNOWN: Final = (
    "vendor",
    "names",
    "other_names",
    "architecture",
    "compute_capability",
    "sm_count",
    "memory_gb",
    "memory_mib",
    "memory_bandwidth_gbs",
    "power_limit_watts",
    "sm_clock_maximum_mhz",
    "pcie_generation",
    "pcie_width",
    "nvlink_generation",
    "nvlink_total_gbs",
    "infinity_fabric_total_gbs",
    "linked_gpus",
    "l2_mb",
    "dense_peak_tera",
    "efficiency",
    "all_reduce",
    "mig_profiles",
    "form_factor",
    "memory_type",
    "release_year",
    "verified",
    "source",
    "notes",
)
_CAPABILITY: Final = re.compile(r"\d{1,3}\.\d")
_USUAL_PCIE: Final = FactOrigin(OriginKind.ASSUMED, "PCIe 4 with 16 lanes, as most have it")
_NVLINK: Final = frozenset({"nvlink_generation", "nvlink_total_gbs"})
_MEASURED: Final = "kernel-tables"


@dataclass(frozen=True, slots=True)
class BoardSources:
    """What a reader of entries goes by beside them."""

    texts: Mapping[str, str] = field(default_factory=dict)
    """Sources by the short names that entries use."""
    assumptions: Assumptions = field(default_factory=Assumptions)


def read_board(key: str, row: Row, sources: BoardSources) -> Board:
    """The board that an entry describes; what is wrong with it goes to the row's faults."""
    row.refuse_unknown(_KNOWN)
    bare = Board(key=key, **_identity(row), **_memory(row), **_compute(row), **_links(row))
    capability = "{}.{}".format(*bare.compute_capability)
    assumed = sources.assumptions.efficiency_of(key, bare.architecture, capability)
    measured = FactOrigin(OriginKind.MEASURED, sources.texts.get(_MEASURED, ""))
    efficiency, efficiency_origins = read_efficiency(
        row.row("efficiency"), assumed, bare.peak_per_second, bare.power_limit_watts, measured
    )
    all_reduce, all_reduce_origins = read_all_reduce(
        row.row("all_reduce"), bare, sources.assumptions, measured
    )
    verified = _verified(row, sources.texts)
    is_measured = f"efficiency.gemm.{Precision.BF16}" in efficiency_origins
    return replace(
        bare,
        mig_profiles=read_mig_profiles(row, bare.memory_bytes),
        efficiency=efficiency,
        all_reduce=all_reduce,
        # A low power limit lowers the clock, not the part of its cycles that a pipe is busy.
        achievable_compute_ratio=efficiency.gemm_ratio(Precision.BF16)
        if is_measured
        else assumed.ratios["gemm"][Precision.BF16],
        achievable_bandwidth_ratio=efficiency.weight_read_ratio(Precision.BF16),
        verified=frozenset(verified),
        origins=_usual(row) | efficiency_origins | all_reduce_origins | verified,
    )


def _identity(row: Row) -> dict[str, Any]:
    year = row.count("release_year", 2006, 2100)
    return {
        "vendor": row.text("vendor") or "NVIDIA",
        "names": row.texts("names"),
        "other_names": row.texts("other_names"),
        "architecture": row.needed_text("architecture"),
        "compute_capability": _capability(row),
        "form_factor": row.text("form_factor") or "",
        "release_year": year,
        "source": row.text("source") or "",
        "notes": row.text("notes") or "",
    }


def _capability(row: Row) -> tuple[int, int]:
    value = row.values.get("compute_capability")
    if value is None or not _CAPABILITY.fullmatch(str(value)):
        given = "is required" if value is None else f"must be a text (got {value!r})"
        row.fault("compute_capability", f'{given}; write it like "9.0"')
        return (0, 0)
    major, minor = str(value).split(".")
    return int(major), int(minor)


def _memory(row: Row) -> dict[str, Any]:
    nominal = row.number("memory_gb", 1, 10_000)
    l2 = row.number("l2_mb", 0.1, 10_000)
    return {
        "memory_bytes": row.needed_number("memory_mib", 1024, 10_000_000) * 2.0**20,
        "memory_bandwidth_bytes_per_second": row.needed_number("memory_bandwidth_gbs", 10, 100_000)
        * 1e9,
        "nominal_memory_bytes": None if nominal is None else nominal * 1e9,
        "l2_bytes": None if l2 is None else l2 * 1e6,
        "memory_type": row.text("memory_type") or "",
    }


def _compute(row: Row) -> dict[str, Any]:
    clock = row.number("sm_clock_maximum_mhz", 100, 10_000)
    peaks = read_ratios(row.row("dense_peak_tera"), 1e6)
    if Precision.BF16 not in peaks:
        row.fault("dense_peak_tera", "needs bf16, in dense tera-operations: {bf16: 989.4}")
    return {
        "sm_count": row.needed_count("sm_count", 1, 10_000),
        "power_limit_watts": row.needed_number("power_limit_watts", 1, 10_000),
        "sm_clock_maximum_hertz": None if clock is None else clock * 1e6,
        "peak_per_second": {precision: peak * 1e12 for precision, peak in peaks.items()},
    }


def _links(row: Row) -> dict[str, Any]:
    nvlink = row.number("nvlink_total_gbs", 1, 100_000) or 0.0
    fabric = row.number("infinity_fabric_total_gbs", 1, 100_000) or 0.0
    generation = row.count("nvlink_generation", 1, 20)
    given = {name for name in _NVLINK if row.values.get(name) is not None}
    if given and given != _NVLINK:
        row.fault("nvlink_total_gbs", "NVLink needs nvlink_generation and nvlink_total_gbs both")
    return {
        "pcie_generation": row.count("pcie_generation", 1, 6) or 4,
        "pcie_width": row.count("pcie_width", 1, 32) or 16,
        "nvlink_generation": generation,
        "nvlink_bytes_per_second": nvlink * 1e9 / 2,
        "infinity_fabric_bytes_per_second": fabric * 1e9 / 2,
        "linked_gpu_count": row.count("linked_gpus", 2, 10_000),
    }


def _usual(row: Row) -> dict[str, FactOrigin]:
    """Of what an entry need not say."""
    return {
        name: _USUAL_PCIE for name in ("pcie_generation", "pcie_width") if name not in row.values
    }


def _verified(row: Row, texts: Mapping[str, str]) -> dict[str, FactOrigin]:
    """The figures that agree with a public table."""
    checked = row.row("verified")
    return {
        figure: FactOrigin(OriginKind.VERIFIED, texts.get(source, source))
        for source in checked.values
        for figure in checked.texts(source)
    }
