"""Real files of Nsight Systems and Nsight Compute against values computed from raw rows."""

import os
import sqlite3
from pathlib import Path

import pytest

from rightsizer.model.profile import (
    CopyKind,
    DeviceProfile,
    HostMemory,
    KernelUse,
    Profile,
    SpanKind,
)
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.nsight_compute.reader import NSIGHT_COMPUTE
from rightsizer.profiles.nsight_systems.reader import NSIGHT_SYSTEMS
from rightsizer.profiles.reader import Head

FLAMEOX = "nsys/flameox_2025.5.2.sqlite"
POWER = "nsys/nsightful_power_iteration.sqlite"
VIDEO = "nsys/nsysai_mfu_2gpu_before.sqlite"
HEAD_BYTES = 65536


def real_file(name: str) -> Path:
    """A file in the folder named by RIGHTSIZER_TRUTH."""
    folder = os.environ.get("RIGHTSIZER_TRUTH", "")
    path = Path(folder) / "profiles" / name
    if not folder or not path.is_file():
        pytest.skip(f"RIGHTSIZER_TRUTH does not name a folder with profiles/{name}")
    return path


def profile_of(name: str) -> Profile:
    """Result of the one reader that recognizes the file."""
    path = real_file(name)
    with path.open("rb") as file:
        head = Head(path.name, file.read(HEAD_BYTES))
    (reader,) = (each for each in (NSIGHT_SYSTEMS, NSIGHT_COMPUTE) if each.recognizes(head))
    return reader.read(path, ReadLimits())


def kernel_of(name: str) -> KernelUse:
    """The only kernel of a file."""
    (device,) = profile_of(name).devices
    (kernel,) = device.kernels
    assert device.time is None
    return kernel


def busy_percent(device: DeviceProfile) -> float:
    """Kernel time divided by span; the rest is idle."""
    assert device.time
    parts = device.time.kernel_seconds + device.time.idle_seconds
    assert parts == pytest.approx(device.time.span_seconds, abs=1e-12)
    return 100 * device.time.kernel_seconds / device.time.span_seconds


def collective_percent(device: DeviceProfile) -> float:
    """Share of the summed time of all kernels."""
    summed = sum(kernel.seconds for kernel in device.kernels)
    return 100 * sum(k.seconds for k in device.kernels if k.is_collective) / summed


@pytest.mark.parametrize("name", [FLAMEOX, POWER, VIDEO])
def test_kernel_sums_equal_those_of_the_vendors_own_query(name: str) -> None:
    """Name, count and nanoseconds agree over all devices."""
    connection = sqlite3.connect(f"{real_file(name).as_uri()}?immutable=1", uri=True)
    rows = connection.execute(
        'SELECT s.value, count(*), sum(k."end" - k.start) FROM CUPTI_ACTIVITY_KIND_KERNEL k '
        "JOIN StringIds s ON s.id = k.demangledName GROUP BY 1"
    )
    raw = {value: (count, total) for value, count, total in rows}
    connection.close()
    read: dict[str, tuple[int, int]] = {}
    for device in profile_of(name).devices:
        for kernel in device.kernels:
            count, total = read.get(kernel.name, (0, 0))
            read[kernel.name] = (count + kernel.count, total + round(kernel.seconds * 1e9))

    assert read == raw


@pytest.mark.parametrize("name", [FLAMEOX, POWER, VIDEO])
def test_busy_time_equals_the_union_of_the_raw_rows(name: str) -> None:
    """Covers kernels and graphs of each device, in nanoseconds."""
    connection = sqlite3.connect(f"{real_file(name).as_uri()}?immutable=1", uri=True)
    tables = ["KERNEL", "GRAPH_TRACE"] if name == FLAMEOX else ["KERNEL"]
    rows = [
        row
        for table in tables
        for row in connection.execute(
            f'SELECT deviceId, start, "end" FROM CUPTI_ACTIVITY_KIND_{table}'
        )
    ]
    connection.close()
    for device in profile_of(name).devices:
        lines = sorted((start, end) for number, start, end in rows if number == device.device.index)
        until = lines[0][0]
        busy = 0
        for start, end in lines:
            busy += max(0, end - max(start, until))
            until = max(until, end)
        assert device.time
        assert round(device.time.kernel_seconds * 1e9) == busy
        assert round(device.time.span_seconds * 1e9) == until - lines[0][0]


@pytest.mark.parametrize("name", [FLAMEOX, POWER, VIDEO])
def test_every_row_of_every_table_of_events_is_accounted_for(name: str) -> None:
    """A row is used, or counted by its kind; a step that is also a span counts once."""
    connection = sqlite3.connect(f"{real_file(name).as_uri()}?immutable=1", uri=True)
    tables = [
        row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
    ]
    rows = 0
    for table in tables:
        columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        if {"start", "timestamp", "startedAt"} & columns and table != "DIAGNOSTIC_EVENT":
            rows += connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    connection.close()
    profile = profile_of(name)

    assert profile.events == rows


def test_graph_launches_are_busy_time() -> None:
    """Three kernel rows, two graphs recorded nowhere else, one copy, 33 calls."""
    profile = profile_of(FLAMEOX)

    assert profile.version == "2025.5.2.266, schema 3.24.0"
    (device,) = profile.devices
    assert device.device.name == "NVIDIA GeForce RTX 3060"
    assert [(kernel.name.split("(")[0], kernel.count) for kernel in device.kernels] == [
        ("add_one", 3)
    ]
    assert device.launches
    assert device.launches.matched == 5
    (copy,) = device.copies
    assert (copy.kind, copy.memory, copy.bytes) == (
        CopyKind.HOST_TO_DEVICE,
        HostMemory.PAGEABLE,
        4096,
    )


def test_the_power_iteration_waits_for_its_own_copies() -> None:
    """3689 kernels, 63.2% busy; one kernel takes 95%; copies to the host take a second."""
    profile = profile_of(POWER)

    (device,) = profile.devices
    assert (profile.version, device.device.name) == ("2025.3.1.90, schema 3.20.2", "Tesla T4")
    assert device.time
    assert round(1000 * device.time.span_seconds, 1) == 1790.6
    assert round(busy_percent(device), 1) == 63.2
    assert sum(kernel.count for kernel in device.kernels) == 3689
    first = device.kernels[0]
    assert first.name.startswith("void gemv2T_kernel_val")
    assert (first.count, round(first.seconds * 1e9)) == (432, 1_074_732_935)
    assert round(100 * first.seconds / sum(kernel.seconds for kernel in device.kernels)) == 95
    waits = {
        span.name: span.seconds
        for span in profile.host_spans
        if span.kind is SpanKind.SYNCHRONIZATION
    }
    copies = [waits["cudaMemcpyAsync in Copy"], waits["cudaMemcpyAsync"]]
    assert round(sum(copies), 3) == 1.034
    assert [step.name for step in device.steps][:2] == ["Step 0 to 10", "Step 10 to 20"]
    ranges = sum(
        span.count
        for span in profile.host_spans
        if span.kind not in {SpanKind.SYNCHRONIZATION, SpanKind.PAUSE}
    )
    assert ranges + profile.unread["NVTX event that is no range"] == 787


def test_two_ranks_of_video_training() -> None:
    """Two processes with a GPU each; only the GPUs' number is known."""
    profile = profile_of(VIDEO)

    first, second = profile.devices
    assert profile.version == "2026.2.1.210, schema 3.25.0"
    assert [device.device.key for device in profile.devices] == ["0", "1"]
    counts = [sum(kernel.count for kernel in device.kernels) for device in (first, second)]
    assert counts == [1993, 2017]
    assert [round(busy_percent(device), 1) for device in (first, second)] == [90.3, 88.5]
    assert [round(collective_percent(device)) for device in (first, second)] == [6, 3]
    for device in (first, second):
        assert sum(kernel.count for kernel in device.kernels if kernel.is_collective) == 33
    flash = [
        kernel
        for device in (first, second)
        for kernel in device.kernels
        if "flash_fwd_kernel" in kernel.name
    ]
    assert sum(kernel.count for kernel in flash) == 68
    assert sum(round(kernel.seconds * 1e9) for kernel in flash) == 272_317_378
    within = [
        copy
        for device in (first, second)
        for copy in device.copies
        if copy.kind is CopyKind.DEVICE_TO_DEVICE
    ]
    assert sum(copy.count for copy in within) == 986
    assert round(sum(copy.bytes for copy in within) / 1e9, 2) == 8.05


def test_a_copy_kernel_of_julia_is_bound_by_memory() -> None:
    """Numbers have thousands separators; one name occurs in two sections."""
    kernel = kernel_of("ncu/nsightful_copy_blocked.csv")

    assert round(kernel.seconds * 1e9) == 21_058_944
    assert kernel.compute_ratio == pytest.approx(0.0130)
    assert kernel.dram_ratio == pytest.approx(0.6184)
    assert kernel.occupancy_ratio == pytest.approx(0.9626)
    assert kernel.dram_bytes_per_second == pytest.approx(196_456_177_859.63)


def test_a_tiled_product_of_chosen_metrics() -> None:
    """The file has a byte order mark, Windows line ends, and eight lines before the table."""
    kernel = kernel_of("ncu/rtx5070_gemm_tiled.csv")

    assert round(kernel.seconds * 1e9) == 10_195_552
    assert kernel.compute_ratio == pytest.approx(0.8890)
    assert kernel.occupancy_ratio == pytest.approx(0.6665)


def test_a_vector_sum_of_chosen_metrics() -> None:
    """607 GB/s are computed from the bytes that were read and written."""
    kernel = kernel_of("ncu/rtx5070_saxpy.csv")

    assert round(kernel.seconds * 1e9) == 292_928
    assert kernel.compute_ratio == pytest.approx(0.2230)
    assert kernel.occupancy_ratio == pytest.approx(0.8382)
    assert kernel.dram_bytes_per_second
    assert round(kernel.dram_bytes_per_second / 1e9) == 607


def test_a_product_of_eight_bit_numbers_with_rules() -> None:
    """A log of the program contains the page; the GPU has 152 multiprocessors."""
    name = "ncu/superbench_cublaslt_sm100.log"
    kernel = kernel_of(name)
    profile = profile_of(name)

    assert round(kernel.seconds * 1e9) == 406_240
    assert kernel.compute_ratio == pytest.approx(0.2359)
    assert kernel.dram_ratio == pytest.approx(0.0074)
    assert kernel.occupancy_ratio == pytest.approx(0.1553)
    assert profile.devices[0].device.multiprocessors == 152
    assert any("theoretical occupancy (18.8%) is limited" in note for note in profile.notes)
