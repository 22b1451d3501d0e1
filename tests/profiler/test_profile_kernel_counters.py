"""Nsight Compute's counters of a kernel: limits of occupancy, waves, access, divergence."""

from pathlib import Path

import pytest
from msgspec.structs import asdict

from profile_nsight import details_page, raw_page
from rightsizer.model.profile import KernelCounters
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.nsight_compute.reader import read

SPEED = "GPU Speed Of Light Throughput"
DURATION = (SPEED, "Duration", "us", "12.50")
LOADS = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"


def _counters(text: str, tmp_path: Path) -> KernelCounters | None:
    path = tmp_path / "kernels.csv"
    path.write_text(text, encoding="utf-8")
    (device,) = read(path, ReadLimits()).devices
    return device.kernels[0].counters


def _of_raw(metrics: dict[str, str], tmp_path: Path) -> KernelCounters | None:
    cells = {"gpu__time_duration.sum": "1000", **metrics}
    return _counters(raw_page(dict.fromkeys(cells, "") | UNITS, [("kernel", cells)]), tmp_path)


UNITS = {"gpu__time_duration.sum": "ns"}


def test_details_tell_what_limits_a_kernel(tmp_path: Path) -> None:
    """The sections are those of `--set full`."""
    rows = [
        DURATION,
        (SPEED, "Memory Throughput", "%", "61.84"),
        ("Occupancy", "Theoretical Occupancy", "%", "18.75"),
        ("Occupancy", "Block Limit Registers", "block", "1"),
        ("Occupancy", "Block Limit Shared Mem", "block", "2"),
        ("Occupancy", "Block Limit Warps", "block", "5"),
        ("Launch Statistics", "Waves Per SM", "", "1.89"),
        ("Warp State Statistics", "Avg. Active Threads Per Warp", "", "31.5"),
    ]
    found = _counters(details_page(rows), tmp_path)
    assert found is not None
    figures = asdict(found)
    assert not figures.pop("stall")
    assert figures == pytest.approx(
        {
            "memory_ratio": 0.6184,
            "theoretical_occupancy_ratio": 0.1875,
            "register_blocks": 1,
            "shared_memory_blocks": 2,
            "warp_blocks": 5,
            "waves": 1.89,
            "spill_requests": None,
            "excess_sectors_ratio": None,
            "active_threads": 31.5,
            "stall_ratio": None,
        }
    )


def test_hardware_names_tell_the_same(tmp_path: Path) -> None:
    """Covers the raw page, and individually requested metrics."""
    found = _of_raw(
        {
            "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "50",
            "sm__maximum_warps_per_active_cycle_pct": "75",
            "launch__occupancy_limit_registers": "6",
            "launch__waves_per_multiprocessor": "0.5",
            "smsp__thread_inst_executed_per_inst_executed.ratio": "16",
            "derived__memory_l2_theoretical_sectors_global_excessive": "300",
            "memory_l2_theoretical_sectors_global": "400",
        },
        tmp_path,
    )
    assert found is not None
    assert (found.memory_ratio, found.theoretical_occupancy_ratio) == (0.5, 0.75)
    assert (found.register_blocks, found.waves, found.active_threads) == (6, 0.5, 16)
    assert found.excess_sectors_ratio == 0.75


@pytest.mark.parametrize(
    ("sectors", "requests", "excess"),
    [("400", "100", 0.0), ("1,600", "100", 0.0), ("3,200", "100", 0.5)],
)
def test_sectors_of_a_request_tell_what_no_width_explains(
    sectors: str, requests: str, excess: float, tmp_path: Path
) -> None:
    """Up to 16 may be wide loads side by side; beyond that, threads are spread."""
    metrics = {LOADS.format("sectors"): sectors, LOADS.format("requests"): requests}
    found = _of_raw(metrics, tmp_path)
    assert found is not None
    assert found.excess_sectors_ratio == pytest.approx(excess)


def test_bytes_used_of_a_sector_are_recognized_by_what_is_worse(tmp_path: Path) -> None:
    """Loads use a quarter; a kernel without stores has no such value for them."""
    name = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.pct"
    found = _of_raw({name.format("ld"): "25", name.format("st"): "0"}, tmp_path)
    assert found is not None
    assert found.excess_sectors_ratio == 0.75


def test_a_raw_page_without_throughput_has_that_of_its_busiest_parts(tmp_path: Path) -> None:
    """As of Blackwell: issue slots, pipes, and what memory moved in its cycles."""
    cells = {
        "gpu__time_duration.sum": "1000",
        "sm__inst_executed.avg.pct_of_peak_sustained_elapsed": "12",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active": "31",
        "dram__bytes.sum.per_second": "200",
        "dram__bytes.sum.peak_sustained": "1000",
        "dram__cycles_elapsed.avg.per_second": "2",
        "sass__inst_executed_register_spilling": "640",
    }
    units = {
        "dram__bytes.sum.per_second": "Gbyte/s",
        "dram__bytes.sum.peak_sustained": "byte/cycle",
        "dram__cycles_elapsed.avg.per_second": "Ghz",
    }
    path = tmp_path / "raw.csv"
    path.write_text(raw_page(dict.fromkeys(cells, "") | UNITS | units, [("kernel", cells)]))
    (kernel,) = read(path, ReadLimits()).devices[0].kernels
    assert kernel.compute_ratio == pytest.approx(0.31)
    assert kernel.dram_ratio == pytest.approx(0.1)
    assert kernel.counters is not None
    assert kernel.counters.spill_requests == 640


def test_issue_slots_alone_are_no_throughput(tmp_path: Path) -> None:
    """The tensor pipe may be at its peak beside them."""
    found = _of_raw({"sm__inst_executed.avg.pct_of_peak_sustained_elapsed": "12"}, tmp_path)
    assert found is None


def test_nothing_counted_is_nothing(tmp_path: Path) -> None:
    """Only the duration is known."""
    assert _of_raw({}, tmp_path) is None


def test_what_warps_wait_for_is_recognized_by_metrics_and_rules(tmp_path: Path) -> None:
    """The longest reason is given as a share of the cycles between two instructions."""
    stalled = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    values = {"long_scoreboard": "6", "barrier": "3", "selected": "1"}
    units = {"gpu__time_duration.sum": "us", **dict.fromkeys(map(stalled.format, values), "inst")}
    row = {stalled.format(name): value for name, value in values.items()}
    raw = _counters(raw_page(units, [("gemm", {"gpu__time_duration.sum": "5", **row})]), tmp_path)
    assert raw is not None
    assert raw.stall == "waiting for global or local memory"
    assert raw.stall_ratio == pytest.approx(0.6)

    text = (
        "On average, each warp of this kernel spends 12.8 cycles being stalled waiting for sibling "
        "warps at a CTA barrier. This stall type represents about 60.3% of the total average of "
        "21.3 cycles between issuing two instructions."
    )
    page = details_page([(SPEED, "Duration", "us", "12.50")], rules=[("CPIStall", text, "20")])
    told = _counters(page, tmp_path)
    assert told is not None
    assert told.stall == "waiting for sibling warps at a CTA barrier"
    assert told.stall_ratio == pytest.approx(0.603)
