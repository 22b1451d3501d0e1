"""rocprofv3: CSV tables of a process, and its database, tell the same."""

from pathlib import Path

import pytest

from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import CopyKind, Profile, ProfileFormat, SpanKind
from rightsizer.profiler.workload import judged_workloads
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import open_profile, read_all
from rocprof_files import (
    BEGIN,
    KERNEL_TITLES,
    KERNELS,
    database,
    kernel_row,
    write_table,
    write_traces,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The traces of one process."""
    return write_traces(tmp_path)


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
    assert [(span.kind, span.name) for span in profile.host_spans] == [
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
    write_table(folder, "71_kernel_trace.csv", KERNEL_TITLES, rows)
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
    complaints = {finding.rule for finding in workload.findings if finding.is_actionable}
    assert complaints == {"profile_launch_bound"}


def test_kernels_alone_have_no_cause_of_idle_time(tmp_path: Path) -> None:
    """The remedy is a recording with the host's calls."""
    write_table(tmp_path, "kernel_trace.csv", KERNEL_TITLES, [*map(kernel_row, range(KERNELS))])
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
    write_table(tmp_path, "199_kernel_trace.csv", titles, rows)
    profile = open_profile(tmp_path / "199_kernel_trace.csv", ReadLimits())
    (device,) = profile.devices
    assert device.kernels[0].name == "f(int, int)"
    assert sum(profile.unread.values()) == 2


def test_a_trace_without_rows_is_refused(tmp_path: Path) -> None:
    """With how to record."""
    write_table(tmp_path, "1_kernel_trace.csv", KERNEL_TITLES, [])
    with pytest.raises(ProfileError, match="without a row; record with"):
        open_profile(tmp_path / "1_kernel_trace.csv", ReadLimits())
