"""A board from its entry in a catalogue file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rightsizer.catalogue.assumptions import Assumptions
from rightsizer.catalogue.board import Board
from rightsizer.catalogue.efficiency_form import read_all_reduce, read_efficiency, read_ratios
from rightsizer.catalogue.mig_form import read_mig_profiles
from rightsizer.catalogue.origin import Origin, OriginKind
from rightsizer.catalogue.precision import Precision
from rightsizer.catalogue.row import Row

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
_USUAL_PCIE: Final = Origin(OriginKind.ASSUMED, "PCIe 4 with 16 lanes, as most have it")
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
    measured = Origin(OriginKind.MEASURED, sources.texts.get(_MEASURED, ""))
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


def _usual(row: Row) -> dict[str, Origin]:
    """Of what an entry need not say."""
    return {
        name: _USUAL_PCIE for name in ("pcie_generation", "pcie_width") if name not in row.values
    }


def _verified(row: Row, texts: Mapping[str, str]) -> dict[str, Origin]:
    """The figures that agree with a public table."""
    checked = row.row("verified")
    return {
        figure: Origin(OriginKind.VERIFIED, texts.get(source, source))
        for source in checked.values
        for figure in checked.texts(source)
    }
