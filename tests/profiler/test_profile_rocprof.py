"""rocprofv3: CSV tables of a process, and its database, tell the same."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import CopyKind, Profile, ProfileFormat, SpanKind
from rightsizer.profiler.workload import judged_workloads
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import open_profile, read_all

KERNELS = 60
STEP = 100_000
"""Nanoseconds from one kernel to the next, of which each runs a fifth."""
BEGIN = 172_352_210_000_000

KERNEL_TITLES = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name",'
    '"Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size"'
)
CALL_TITLES = (
    '"Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp",'
    '"End_Timestamp"'
)
COPY_TITLES = (
    '"Kind","Direction","Source_Agent_Id","Destination_Agent_Id","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp"'
)


def _write(folder: Path, name: str, titles: str, rows: Sequence[str]) -> None:
    (folder / name).write_text("\n".join([titles, *rows]) + "\n", encoding="utf-8")


def kernel_row(number: int, name: str = "gemm(float*, int)") -> str:
    """A dispatch, as rocprofv3 of ROCm 7 writes it."""
    start = BEGIN + number * STEP + 80_000
    ids = f'"Agent 4",1,0,70,{number},16,"{name}",{number}'
    return f'"KERNEL_DISPATCH",{ids},{start},{start + 20_000},0,0'


def launch_row(number: int) -> str:
    """The call that launched it, shortly before it ran."""
    start = BEGIN + number * STEP + 70_000
    return f'"HIP_RUNTIME_API","hipLaunchKernel",70,70,{number},{start},{start + 5_000}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The traces of one process, with a table of agents beside them."""
    _write(tmp_path, "70_kernel_trace.csv", KERNEL_TITLES, [*map(kernel_row, range(KERNELS))])
    _write(tmp_path, "70_hip_api_trace.csv", CALL_TITLES, [*map(launch_row, range(KERNELS))])
    copied = (
        f'"MEMORY_COPY","MEMORY_COPY_HOST_TO_DEVICE","Agent 0","Agent 4",99,{BEGIN},{BEGIN + 9}'
    )
    _write(tmp_path, "70_memory_copy_trace.csv", COPY_TITLES, [copied])
    marker = f'"MARKER_CORE_API","load_batch",70,70,3,{BEGIN},{BEGIN + 50_000}'
    _write(tmp_path, "70_marker_api_trace.csv", CALL_TITLES, [marker])
    return tmp_path


def database(path: Path, suffix: str = "_0000_70") -> Path:
    """The same as rocpd writes it, in tables with a suffix."""
    made = sqlite3.connect(path)
    tables = {
        "rocpd_string": "id INTEGER PRIMARY KEY, guid TEXT, string TEXT",
        "rocpd_info_agent": "id INTEGER PRIMARY KEY, type TEXT, absolute_index INTEGER,"
        " name TEXT, product_name TEXT",
        "rocpd_info_kernel_symbol": "id INTEGER PRIMARY KEY, kernel_name TEXT, display_name TEXT",
        "rocpd_event": "id INTEGER PRIMARY KEY, category_id INTEGER, stack_id INTEGER",
        "rocpd_region": "id INTEGER PRIMARY KEY, pid INTEGER, tid INTEGER, start BIGINT,"
        ' "end" BIGINT, name_id INTEGER, event_id INTEGER',
        "rocpd_kernel_dispatch": "id INTEGER PRIMARY KEY, agent_id INTEGER, kernel_id INTEGER,"
        ' queue_id INTEGER, stream_id INTEGER, start BIGINT, "end" BIGINT, event_id INTEGER',
        "rocpd_memory_copy": 'id INTEGER PRIMARY KEY, start BIGINT, "end" BIGINT,'
        " name_id INTEGER, src_agent_id INTEGER, dst_agent_id INTEGER, size INTEGER",
    }
    for name, columns in tables.items():
        made.execute(f'CREATE TABLE "{name}{suffix}" ({columns})')
    texts = ("hipLaunchKernel", "load_batch", "MEMORY_COPY_HOST_TO_DEVICE", "HIP_RUNTIME_API",
             "MARKER_CORE_API")  # fmt: skip
    rows: dict[str, list[tuple[object, ...]]] = {
        "rocpd_string": [(at + 1, "g", text) for at, text in enumerate(texts)],
        "rocpd_info_agent": [(1, "CPU", 0, "cpu", ""), (2, "GPU", 4, "gfx942", "MI300X")],
        "rocpd_info_kernel_symbol": [(16, "_Z4gemmPfi", "gemm(float*, int)")],
        "rocpd_memory_copy": [(1, BEGIN, BEGIN + 9, 3, 1, 2, 4096)],
        "rocpd_region": [(1000, 1, 1, BEGIN, BEGIN + 50_000, 2, 999)],
        "rocpd_event": [(999, 5, 999)],
        "rocpd_kernel_dispatch": [],
    }
    for number in range(KERNELS):
        start = BEGIN + number * STEP
        of_call = 2 * number
        rows["rocpd_event"] += [(of_call, 4, number), (of_call + 1, None, number)]
        call = (number, 1, 1, start + 70_000, start + 75_000, 1, of_call)
        rows["rocpd_region"].append(call)
        dispatch = (number, 2, 16, 1, 0, start + 80_000, start + 100_000, of_call + 1)
        rows["rocpd_kernel_dispatch"].append(dispatch)
    for name, found in rows.items():
        marks = ", ".join("?" * len(found[0]))
        made.executemany(f'INSERT INTO "{name}{suffix}" VALUES ({marks})', found)
    made.commit()
    made.close()
    return path


def check(profile: Profile) -> None:
    """Sixty kernels, each launched as the one before had ended."""
    (device,) = profile.devices
    assert device.device.key == "Agent 4"
    assert device.device.index == 4
    assert device.time is not None
    assert device.time.kernel_seconds == pytest.approx(KERNELS * 20e-6)
    assert device.time.host_wait_seconds == pytest.approx((KERNELS - 1) * 80e-6)
    assert device.launches is not None
    assert device.launches.matched == KERNELS
    (copy,) = device.copies
    assert copy.kind is CopyKind.HOST_TO_DEVICE
    assert [(each.kind, each.name) for each in profile.host_spans] == [
        (SpanKind.LOADER, "load_batch")
    ]


@pytest.mark.parametrize("name", ["70_kernel_trace.csv", "70_hip_api_trace.csv"])
def test_traces_of_a_process_are_one_profile(folder: Path, name: str) -> None:
    """Whichever of them is named."""
    profile = open_profile(folder / name, ReadLimits())
    assert profile.format is ProfileFormat.ROCPROF
    check(profile)


def test_a_folder_has_them_once(folder: Path) -> None:
    """Beside the traces of another process."""
    rows = [*map(kernel_row, range(3))]
    _write(folder, "71_kernel_trace.csv", KERNEL_TITLES, rows)
    read = read_all([folder], ReadLimits())
    assert len(read) == 2


def test_a_database_tells_the_same(tmp_path: Path) -> None:
    """With the board's name."""
    profile = open_profile(database(tmp_path / "70_results.db"), ReadLimits())
    assert profile.format is ProfileFormat.ROCPD
    check(profile)
    assert profile.devices[0].device.name == "MI300X"
    assert profile.devices[0].copies[0].bytes == 4096


def test_several_processes_in_a_database_are_refused(tmp_path: Path) -> None:
    """Their correlations would clash."""
    path = database(tmp_path / "results.db")
    database(path, "_0000_71")
    with pytest.raises(ProfileError, match="2 processes in one database"):
        open_profile(path, ReadLimits())


def test_kernels_launched_one_by_one_are_told(folder: Path) -> None:
    """Of each tenth of a millisecond they run for a fifth."""
    (workload,) = judged_workloads(read_all([folder / "70_kernel_trace.csv"], ReadLimits()))
    complaints = {each.rule for each in workload.findings if each.is_actionable}
    assert complaints == {"profile_launch_bound"}


def test_kernels_alone_have_no_cause_of_idle_time(tmp_path: Path) -> None:
    """The remedy is a recording with the host's calls."""
    _write(tmp_path, "kernel_trace.csv", KERNEL_TITLES, [*map(kernel_row, range(KERNELS))])
    profile = open_profile(tmp_path / "kernel_trace.csv", ReadLimits())
    assert any("--hip-trace" in note for note in profile.notes)


def test_older_tables_are_read_and_broken_rows_counted(tmp_path: Path) -> None:
    """ROCm 6 has fewer columns, and agents are numbers."""
    titles = (
        '"Kind","Agent_Id","Queue_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
        '"Start_Timestamp","End_Timestamp"'
    )
    rows = [f'"KERNEL_DISPATCH",1,7,15,"f(int, int)",0,{BEGIN},{BEGIN + 5}',
            '"KERNEL_DISPATCH",1,7,15,"g",0,,', '"KERNEL_DISPATCH",1']  # fmt: skip
    _write(tmp_path, "199_kernel_trace.csv", titles, rows)
    profile = open_profile(tmp_path / "199_kernel_trace.csv", ReadLimits())
    (device,) = profile.devices
    assert device.kernels[0].name == "f(int, int)"
    assert sum(profile.unread.values()) == 2


def test_a_trace_without_rows_is_refused(tmp_path: Path) -> None:
    """With how to record."""
    _write(tmp_path, "1_kernel_trace.csv", KERNEL_TITLES, [])
    with pytest.raises(ProfileError, match="without a row; record with"):
        open_profile(tmp_path / "1_kernel_trace.csv", ReadLimits())
