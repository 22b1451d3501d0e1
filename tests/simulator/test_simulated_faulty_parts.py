"""Faults of a GPU's parts: memory, clocks, links, counters, sleep."""

from pathlib import Path

import pynvml
import pytest

from rightsizer.model.driver_codes import ClockEvent
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition, State
from simulated_trouble import driver_with, one_field, snapshots


def test_memory_errors_are_counted_in_all_their_ways(tmp_path: Path) -> None:
    """Covers functions, fields, rows that need a reset, the recovery action, and the Xid."""
    errors = "{kind: ecc, gpus: [0], after: 5, every: 10, for: 2, corrected: 4}"
    rows = "{kind: ecc, gpus: [0], after: 30, uncorrected: 1, rows_uncorrectable: 2, pending: true}"
    with driver_with(tmp_path, errors, rows) as bench:
        bench.pass_seconds(31)
        gpu = bench.gpu(0)
        assert pynvml.nvmlDeviceGetTotalEccErrors(gpu, 0, 0) == 12
        assert pynvml.nvmlDeviceGetTotalEccErrors(gpu, 1, 1) == 1
        assert one_field(gpu, pynvml.NVML_FI_DEV_ECC_SBE_AGG_TOTAL) == 12
        assert one_field(gpu, pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL) == 1
        assert pynvml.nvmlDeviceGetRemappedRows(gpu) == (0, 2, 1, 0)
        assert one_field(gpu, pynvml.NVML_FI_DEV_REMAPPED_UNC) == 2
        assert one_field(gpu, pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION) == 1
        assert one_field(bench.gpu(1), pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION) == 0
    last = snapshots(tmp_path, 32, errors, rows)[-1]
    values = last.readings[last.devices[0].uuid].values
    assert values[Signal.ECC_CORRECTED_ERRORS] == 12
    assert values[Signal.REMAPPED_ROWS_PENDING] == values[Signal.RECOVERY_ACTION] == 1
    assert dict(last.xids[last.devices[0].uuid].counts) == {94: 1}


def test_a_reload_clears_volatile_errors_alone(tmp_path: Path) -> None:
    """A board's aggregate counters outlive the driver."""
    errors = "{kind: ecc, gpus: [0], after: 5, corrected: 4}"
    with driver_with(tmp_path, errors, "{kind: unload, after: 10, for: 5}") as bench:
        bench.pass_seconds(20)
        pynvml.nvmlInit()
        assert pynvml.nvmlDeviceGetTotalEccErrors(bench.gpu(0), 0, 0) == 0
        assert pynvml.nvmlDeviceGetTotalEccErrors(bench.gpu(0), 0, 1) == 4


def test_older_boards_retire_pages(tmp_path: Path) -> None:
    """The same fault on a T4 fills the list of retired pages, and has the Xid of older boards."""
    fault = "{kind: ecc, gpus: [3], after: 5, uncorrected: 1, rows_uncorrectable: 3, pending: true}"
    with driver_with(tmp_path, fault) as bench:
        bench.pass_seconds(6)
        gpu = bench.gpu(3)
        assert len(set(pynvml.nvmlDeviceGetRetiredPages(gpu, 1))) == 3
        assert pynvml.nvmlDeviceGetRetiredPages(gpu, 0) == []
        assert pynvml.nvmlDeviceGetRetiredPagesPendingStatus(gpu) == 1
    last = snapshots(tmp_path, 7, fault)[-1]
    assert last.xids[last.devices[3].uuid].last == 48


@pytest.mark.parametrize(
    ("options", "reason", "condition"),
    [
        ("reason: power_brake, clock_ratio: 0.5", ClockEvent.HW_POWER_BRAKE_SLOWDOWN,
         Condition.HARDWARE_SLOWDOWN),
        ("reason: hardware_thermal, clock_ratio: 0.4", ClockEvent.HW_THERMAL_SLOWDOWN,
         Condition.HARDWARE_SLOWDOWN),
        ("reason: power, power_limit_watts: 300", ClockEvent.SW_POWER_CAP,
         Condition.POWER_THROTTLED),
        ("reason: thermal, ambient_celsius: 60", ClockEvent.SW_THERMAL_SLOWDOWN,
         Condition.THERMAL_THROTTLED),
    ],
)  # fmt: skip
def test_a_throttled_gpu_is_slower_draws_less_and_says_why(
    tmp_path: Path, options: str, reason: ClockEvent, condition: Condition
) -> None:
    """Clock, draw, reason and true state change together, on that GPU alone."""
    fault = f"{{kind: throttle, gpus: [0], after: 10, for: 20, {options}}}"
    with driver_with(tmp_path, fault) as bench:
        node = bench.node
        uuid = bench.node.units[0].device.uuid
        before = pynvml.nvmlDeviceGetPowerUsage(bench.gpu(0))
        bench.pass_seconds(20)
        gpu = bench.gpu(0)
        other = bench.gpu(1)
        assert pynvml.nvmlDeviceGetCurrentClocksEventReasons(gpu) & reason
        assert pynvml.nvmlDeviceGetCurrentClocksEventReasons(other) == 0
        assert pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM) < 0.9 * 1980
        assert pynvml.nvmlDeviceGetPowerUsage(gpu) < 0.95 * before
        assert node.truth(uuid, bench.time) == (State.COMPUTE_BOUND, {condition})


def test_time_under_a_cap_is_counted(tmp_path: Path) -> None:
    """The violation time grows while the cap applies, as function and as field, in nanoseconds."""
    fault = "{kind: throttle, gpus: [0], after: 20, for: 60, reason: power, power_limit_watts: 300}"
    with driver_with(tmp_path, fault) as bench:
        bench.pass_seconds(60)
        held = pynvml.nvmlDeviceGetViolationStatus(bench.gpu(0), pynvml.NVML_PERF_POLICY_POWER)
        assert held.violationTime == pytest.approx(40e9, abs=6e9)
        assert one_field(bench.gpu(0), pynvml.NVML_FI_DEV_PERF_POLICY_POWER) == held.violationTime
        heat = pynvml.nvmlDeviceGetViolationStatus(bench.gpu(0), pynvml.NVML_PERF_POLICY_THERMAL)
        assert heat.violationTime == 0
        assert pynvml.nvmlDeviceGetEnforcedPowerLimit(bench.gpu(0)) == 300_000


def test_a_link_degrades_under_load(tmp_path: Path) -> None:
    """Generation, width and traffic fall, and replays grow."""
    fault = "{kind: pcie, gpus: [0], after: 10, for: 20, generation: 3, width: 8, replays: 12}"
    with driver_with(tmp_path, fault) as bench:
        gpu = bench.gpu(0)
        uuid = bench.node.units[0].device.uuid
        read = (
            pynvml.nvmlDeviceGetCurrPcieLinkGeneration,
            pynvml.nvmlDeviceGetCurrPcieLinkWidth,
            pynvml.nvmlDeviceGetPcieReplayCounter,
        )
        assert [call(gpu) for call in read] == [5, 16, 0]
        moved = pynvml.nvmlDeviceGetPcieThroughput(gpu, 1)
        bench.pass_seconds(15)
        assert [call(gpu) for call in read] == [3, 8, 12]
        assert pynvml.nvmlDeviceGetPcieThroughput(gpu, 1) < moved / 4
        assert bench.node.truth(uuid, bench.time)[1] == {Condition.PCIE_LINK_DEGRADED}


def test_a_link_that_rests_is_no_degradation(tmp_path: Path) -> None:
    """An idle GPU trains its link down and up again; the true state does not change."""
    fault = "{kind: pcie, gpus: [0, 2], after: 10, for: 10, idle_generation: 1}"
    with driver_with(tmp_path, fault) as bench:
        bench.pass_seconds(15)
        generations = [pynvml.nvmlDeviceGetCurrPcieLinkGeneration(bench.gpu(gpu)) for gpu in (0, 2)]
        assert generations == [5, 1]
        assert bench.node.truth(bench.node.units[2].device.uuid, bench.time)[1] == frozenset()


def test_links_fail_and_err(tmp_path: Path) -> None:
    """A link that is down carries nothing; others carry what they can; errors are counted."""
    fault = (
        "{kind: nvlink, gpus: [0], after: 10, for: 30, links: [3, 4], down: true, crc_errors: 7}"
    )
    whole = 0xFFFFFFFF
    tx = pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX
    with driver_with(tmp_path, fault) as bench:
        gpu = bench.gpu(0)
        bench.pass_seconds(12)
        assert [pynvml.nvmlDeviceGetNvLinkState(gpu, link) for link in (2, 3, 4)] == [1, 0, 0]
        assert one_field(gpu, pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC, 3) == 7
        assert one_field(gpu, pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC, whole) == 14
        before = {link: one_field(gpu, tx, link) for link in (2, 3, whole)}
        bench.pass_seconds(10)
        after = {link: one_field(gpu, tx, link) for link in (2, 3, whole)}
        assert after[3] == before[3]
        assert after[2] > before[2]
        rate = (after[whole] - before[whole]) * 1024 / 10
        assert rate == pytest.approx(0.30 * 450e9 * 16 / 18, rel=0.1)
    last = snapshots(tmp_path, 13, fault)[-1]
    reading = last.readings[last.devices[0].uuid]
    assert reading.values[Signal.NVLINK_LINKS_UP] == 16
    assert reading.values[Signal.NVLINK_ERRORS] == 14
    assert [link.number for link in reading.nvlinks if not link.is_up] == [3, 4]
    assert last.xids[reading.uuid].last == 74


def test_dead_profiling_counters_read_zero(tmp_path: Path) -> None:
    """The driver's own utilization stays correct."""
    fault = "{kind: dead_counters, gpus: [0], after: 5}"
    reading = (last := snapshots(tmp_path, 7, fault)[-1]).readings[last.devices[0].uuid]
    assert reading.values[Signal.TENSOR_ACTIVE] == reading.values[Signal.SM_ACTIVE] == 0.0
    assert reading.values[Signal.GPU_BUSY] > 0.9
    with driver_with(tmp_path, fault) as bench:
        samples = [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]
        for sample in samples:
            bench.pass_seconds(10)
            pynvml.nvmlGpmSampleGet(bench.gpu(0), sample)
        request = pynvml.c_nvmlGpmMetricsGet_t(version=1, numMetrics=1)
        request.sample1, request.sample2 = samples
        request.metrics[0].metricId = pynvml.NVML_GPM_METRIC_SM_UTIL
        pynvml.nvmlGpmMetricsGet(request)
        assert request.metrics[0].value == 0.0
        assert pynvml.nvmlDeviceGetUtilizationRates(bench.gpu(0)).gpu > 90


def test_a_gpu_that_was_just_woken_looks_busy(tmp_path: Path) -> None:
    """Without persistence mode the first reading shows 100% and a high draw, the next ones 0."""
    with driver_with(tmp_path) as bench:
        gpu = bench.gpu(3)
        assert pynvml.nvmlDeviceGetPersistenceMode(gpu) == 0
        assert pynvml.nvmlDeviceGetPersistenceMode(bench.gpu(0)) == 1
        assert pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu == 100
        first = pynvml.nvmlDeviceGetPowerUsage(gpu)
        bench.pass_seconds(6)
        assert pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu == 0
        assert first > 2 * pynvml.nvmlDeviceGetPowerUsage(gpu)
        assert pynvml.nvmlDeviceGetComputeRunningProcesses(gpu) == []
