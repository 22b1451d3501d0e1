"""Boards and their prices as plain data, with the origin of each figure."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from rightsizer.catalogue.board import Board, Efficiency
from rightsizer.catalogue.prices import Price, Prices

_FIGURES: Final[Mapping[str, str]] = {
    "names": "names",
    "sm_count": "sm_count",
    "nominal_memory_bytes": "memory_gb",
    "memory_bytes": "memory_mib",
    "memory_bandwidth_bytes_per_second": "memory_bandwidth_gbs",
    "l2_bytes": "l2_mb",
    "power_limit_watts": "power_limit_watts",
    "sm_clock_maximum_hertz": "sm_clock_maximum_mhz",
    "pcie_generation": "pcie_generation",
    "pcie_width": "pcie_width",
    "nvlink_generation": "nvlink_generation",
    "nvlink_bytes_per_second": "nvlink_total_gbs",
    "infinity_fabric_bytes_per_second": "infinity_fabric_total_gbs",
    "linked_gpu_count": "linked_gpus",
}
"""Figures by their names here, with those of the catalogue's file."""
_IDENTITY: Final = (
    "key",
    "vendor",
    "names",
    "other_names",
    "architecture",
    "form_factor",
    "memory_type",
    "release_year",
)
_TERMS: Final = (1, 3)


def figure_names(board: Board) -> Iterator[tuple[str, str]]:
    """Every figure that is known of a board, by its name here and in the catalogue's file."""
    for name, in_file in _FIGURES.items():
        if getattr(board, name):
            yield name, in_file
    for precision in board.peak_per_second:
        yield f"peak_per_second.{precision}", f"dense_peak_tera.{precision}"
    for kind in ("gemm", "weight_read", "decode_attention"):
        for precision in getattr(board.efficiency, kind):
            yield f"efficiency.{kind}.{precision}", f"efficiency.{kind}.{precision}"
    for count in board.all_reduce:
        yield f"all_reduce.{count}", f"all_reduce.{count}"
    if board.mig_profiles:
        yield "mig_profiles", "mig_profiles"


def encode_board(board: Board, prices: Prices) -> dict[str, Any]:
    """One board; what nobody knows is `None`."""
    return {
        **{name: getattr(board, name) for name in _IDENTITY},
        "compute_capability": "{}.{}".format(*board.compute_capability),
        **{name: getattr(board, name) for name in _FIGURES if name not in _IDENTITY},
        "pcie_bytes_per_second": board.pcie_bytes_per_second,
        "peak_per_second": dict(board.peak_per_second),
        "efficiency": _efficiency_form(board.efficiency),
        "all_reduce": {str(count): asdict(cost) for count, cost in board.all_reduce.items()},
        "mig_profiles": [asdict(profile) for profile in board.mig_profiles],
        "price": _price_form(prices.of(board.key), prices),
        "origins": {
            name: {"kind": board.origin(in_file).kind, "source": board.origin(in_file).source}
            for name, in_file in figure_names(board)
        },
        "source": board.source,
        "notes": board.notes,
    }


def _efficiency_form(efficiency: Efficiency) -> dict[str, Any]:
    return {
        "gemm": dict(efficiency.gemm),
        "weight_read": dict(efficiency.weight_read),
        "decode_attention": dict(efficiency.decode_attention),
        "power_cap_ratio": efficiency.power_cap_ratio,
    }


def _price_form(price: Price | None, prices: Prices) -> dict[str, Any] | None:
    if price is None:
        return None
    reserved = {years: prices.reserved(price.key, years) for years in _TERMS}
    return {
        "dates": price.dates,
        "sources": price.sources,
        "is_stated": price.is_stated,
        "on_demand": None if price.on_demand is None else asdict(price.on_demand),
        "spot_dollars_per_hour": price.spot_dollars_per_hour,
        "reserved": {
            str(years): asdict(offer) for years, offer in reserved.items() if offer is not None
        },
        "clouds": price.clouds,
        "purchases": [asdict(purchase) for purchase in price.purchases],
    }
