"""The packaged values against the tables that they come from, if available."""

import csv
import os
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from rightsizer.catalogue.board import Board, MigProfile, OriginKind, Precision
from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices

PEAKS = {
    "fp32_tflops": Precision.FP32,
    "tf32_dense_tflops": Precision.TF32,
    "fp16_bf16_dense_tflops": Precision.BF16,
    "fp16_acc16_dense_tflops": Precision.FP16_ACC16,
    "fp8_dense_tflops": Precision.FP8,
    "int8_dense_tops": Precision.INT8,
    "fp4_dense_tflops": Precision.FP4,
}
TARGETS = {"gfx942": "9.4", "gfx950": "9.5"}
EFFICIENCIES = {
    "eta_gemm": "gemm",
    "eta_bw_gemv": "weight_read",
    "eta_bw_decode_attn": "decode_attention",
}

Row = dict[str, str]


def rows_of(name: str) -> list[Row]:
    """The rows of a table in the folder named by RIGHTSIZER_TRUTH."""
    folder = os.environ.get("RIGHTSIZER_TRUTH", "")
    file = Path(folder) / name
    if not folder or not file.is_file():
        pytest.skip(f"RIGHTSIZER_TRUTH does not name a folder with {name}")
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def figures_of(board: Board) -> Iterator[tuple[str, float | None]]:
    """A board's values by the names and units of the table."""
    yield "sm_count", board.sm_count
    yield (
        "memory_gb",
        None if board.nominal_memory_bytes is None else board.nominal_memory_bytes / 1e9,
    )
    yield "nvml_total_mib", board.memory_bytes / 2**20
    yield "mem_bw_gbs", board.memory_bandwidth_bytes_per_second / 1e9
    yield "tdp_w", board.power_limit_watts
    yield "pcie_gen", board.pcie_generation
    yield "pcie_width", board.pcie_width
    yield "nvlink_total_gbs", 2 * board.link_bytes_per_second / 1e9
    yield "release_year", board.release_year
    yield "l2_mb", None if board.l2_bytes is None else board.l2_bytes / 1e6
    for column, precision in PEAKS.items():
        peak = board.peak(precision)
        yield column, None if peak is None else peak / 1e12


def cell_of(profile: MigProfile, row: Row, slices: tuple[int, int]) -> str:
    """A profile as written in the table."""
    compute = f"{round(profile.compute_share * slices[0])}/{slices[0]}"
    memory = f"{round(profile.memory_share * slices[1])}/{slices[1]}mem"
    sms = profile.sm_count
    if row["key"] == "H100-PCIE-80GB" and profile.compute_share == 1.0:
        # The table has the H100 SXM's 132 here, and says so in its notes.
        assert sms == 114
        sms = 132
    middle = [] if sms is None else [f"{sms}SM"]
    return ":".join([profile.name, compute, memory, *middle, f"x{profile.maximum_count}"])


def test_every_board_of_the_table_is_there_with_its_figures() -> None:
    """In the table's order, with its values; the catalogue may have more boards."""
    rows = rows_of("gpus.csv")

    keys = [row["key"] for row in rows]
    assert keys == [key for key in built_in().boards if key in set(keys)]
    for row in rows:
        board = built_in().boards[row["key"]]
        for column, figure in figures_of(board):
            if column == "fp16_acc16_dense_tflops" and not row[column]:
                continue
            expected = float(row[column]) if row[column] else None
            assert figure == pytest.approx(expected), (board.key, column)
        assert board.pcie_bytes_per_second / 1e9 == pytest.approx(
            float(row["pcie_gbs_per_dir"]), rel=0.005
        )


def test_every_board_is_called_and_cut_as_the_table_says() -> None:
    """Names, architecture, form, and MIG profiles."""
    for row in rows_of("gpus.csv"):
        board = built_in().boards[row["key"]]
        capability = TARGETS.get(row["compute_capability"], row["compute_capability"])
        name = row["nvml_name"].removeprefix("(amdsmi) ")
        assert (*board.names, *board.other_names)[:1] == ((name,) if name else ())
        assert "{}.{}".format(*board.compute_capability) == capability
        assert (board.architecture, board.form_factor, board.memory_type) == (
            row["architecture"],
            row["form_factor"],
            row["mem_type"],
        )
        assert str(board.nvlink_generation or "") == row["nvlink_gen"].replace("IF", "")
        slices = (4, 4) if "1/4" in row["mig_profiles"] else (7, 8)
        cells = [cell_of(profile, row, slices) for profile in board.mig_profiles]
        assert "|".join(cells) == row["mig_profiles"]


def test_figures_called_verified_are_verified() -> None:
    """Names that were seen; peaks, bandwidth and power that were compared."""
    for row in rows_of("gpus.csv"):
        board = built_in().boards[row["key"]]
        verified = {
            name for name, origin in board.origins.items() if origin.kind is OriginKind.VERIFIED
        }
        assert ("names" in verified) == row["nvml_name_status"].startswith("verified")
        if "bandwidth, tensor peaks and TDP verified" in row["source"]:
            assert {"memory_bandwidth_gbs", "power_limit_watts", "dense_peak_tera.bf16"} <= verified
        assert not {"l2_mb", "pcie_generation", "nvlink_total_gbs"} & verified


def test_every_measured_efficiency_is_there_and_no_other() -> None:
    """With the table's value; a missing one is marked as assumed."""
    measured = {row["gpu_key"]: row for row in rows_of("efficiency.csv")}
    for key, board in built_in().boards.items():
        row: Row = measured.get(key, {})
        for prefix, kind in EFFICIENCIES.items():
            ratios = getattr(board.efficiency, kind)
            for precision in (Precision.BF16, Precision.FP8, Precision.FP4):
                figure = f"efficiency.{kind}.{precision}"
                cell = row.get(f"{prefix}_{precision}")
                assert (board.origin(figure).kind is OriginKind.MEASURED) == bool(cell), figure
                assert not cell or ratios[precision] == float(cell)
        for count, cost in board.all_reduce.items():
            cell = row.get(f"allreduce_{count}_busbw_gbs")
            assert (board.origin(f"all_reduce.{count}").kind is OriginKind.MEASURED) == bool(cell)
            if cell:
                delay = float(row[f"allreduce_{count}_small_us"])
                assert cost.bytes_per_second == pytest.approx(float(cell) * 1e9)
                assert cost.small_message_seconds == pytest.approx(delay / 1e6)


def test_assumed_efficiency_agrees_with_similar_measured_boards() -> None:
    """Leave-one-out: bf16 of each measured board is predicted within a factor of 1.41.

    GeForce boards have figures of their own, as they boost.
    """
    errors = {}
    for row in rows_of("efficiency.csv"):
        board = built_in().boards[row["gpu_key"]]
        others = [
            other.achievable_compute_ratio
            for other in built_in().boards.values()
            if other.architecture == board.architecture
            and "GeForce" not in str(other.names)
            and other.origin("efficiency.gemm.bf16").kind is OriginKind.ASSUMED
        ]
        if others:
            measured = float(row["eta_gemm_bf16"])
            errors[board.key] = max(measured, statistics.median(others)) / min(
                measured, statistics.median(others)
            )

    assert max(errors.values()) < 1.41, errors


def test_every_price_is_there_with_its_date() -> None:
    """Spread, spot and purchase as in the table; a missing one is `None`."""
    rows = rows_of("prices.csv")

    assert {row["gpu_key"] for row in rows} == built_in_prices().by_board.keys()
    for row in rows:
        price = built_in_prices().by_board[row["gpu_key"]]
        spread = price.on_demand
        cells = ("usd_hr_min", "usd_hr_median", "usd_hr_max", "hyperscaler_median")
        expected = [float(row[cell]) if row[cell] else None for cell in cells]
        assert expected == (
            [None] * 4
            if spread is None
            else [
                spread.low_dollars_per_hour,
                spread.median_dollars_per_hour,
                spread.high_dollars_per_hour,
                spread.hyperscaler_dollars_per_hour,
            ]
        )
        assert price.spot_dollars_per_hour == (
            float(row["spot_median"]) if row["spot_median"] else None
        )
        assert list(price.clouds) == [name for name in row["clouds"].split("; ") if name]
        bought = [float(row[cell]) for cell in ("purchase_usd", "purchase_usd_2") if row[cell]]
        assert [purchase.dollars for purchase in price.purchases] == bought
        assert len(price.dates) == len([date for date in row["price_dates"].split("; ") if date])


def test_every_price_is_one_that_was_observed() -> None:
    """Lowest and highest are single observations, with their median."""
    observed: dict[str, list[float]] = defaultdict(list)
    for row in rows_of("price_observations.csv"):
        if row["usd_per_gpu_hour"]:
            observed[row["gpu_key"]].append(float(row["usd_per_gpu_hour"]))
    for key, price in built_in_prices().by_board.items():
        if price.on_demand is not None:
            assert price.on_demand.low_dollars_per_hour == min(observed[key])
            assert price.on_demand.high_dollars_per_hour == max(observed[key])
            assert price.dollars_per_hour == pytest.approx(
                statistics.median(observed[key]), abs=0.001
            )
