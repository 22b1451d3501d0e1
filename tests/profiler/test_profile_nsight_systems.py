"""Nsight Systems exports: device and host activity, and notes on both."""

from collections import Counter
from pathlib import Path

import pytest

from profile_nsight import NsightExport
from rightsizer.model.profile import CopyKind, HostMemory, Profile, ProfiledDevice, SpanKind
from rightsizer.profiler.member import no_timeline
from rightsizer.profiler.workload import judged_workloads
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.nsight_systems.reader import NSIGHT_SYSTEMS, read
from rightsizer.profiles.reader import Head

LIMITS = ReadLimits()
US = 1000


def profile_of(export: NsightExport, tmp_path: Path) -> Profile:
    """Result of the reader on an export."""
    return read(export.write(tmp_path / "export.sqlite"), LIMITS)


def spans_of(profile: Profile, kind: SpanKind) -> dict[str, int]:
    """Names and counts of the host's spans of one kind."""
    return {span.name: span.count for span in profile.host_spans if span.kind is kind}


def test_graphs_are_busy_time_beside_kernels(tmp_path: Path) -> None:
    """A launched graph is one row, and overlapping rows count once."""
    export = NsightExport()
    export.kernel(0, 10 * US)
    export.kernel(5 * US, 20 * US, stream=9)
    export.graph(40 * US, 60 * US)
    profile = profile_of(export, tmp_path)

    (device,) = profile.devices
    assert device.time
    assert device.time.span_seconds == pytest.approx(60e-6)
    assert device.time.kernel_seconds == pytest.approx(40e-6)
    assert [kernel.count for kernel in device.kernels] == [2]
    assert any("--cuda-graph-trace=node" in note for note in profile.notes)


def test_idle_time_is_distinguished_by_when_kernels_were_launched(tmp_path: Path) -> None:
    """The host was late for the second kernel, and early for the third."""
    export = NsightExport()
    for number, (called, start, end) in enumerate([(0, 5, 10), (30, 40, 50), (20, 52, 60)]):
        export.call(called * US, (called + 1) * US, "cudaLaunchKernel_v7000", number)
        export.kernel(start * US, end * US, correlation=number)
    (device,) = profile_of(export, tmp_path).devices

    assert device.time
    assert device.time.host_wait_seconds == pytest.approx(30e-6)
    assert device.time.other_idle_seconds == pytest.approx(2e-6)
    parts = device.time.kernel_seconds + device.time.idle_seconds
    assert parts == pytest.approx(device.time.span_seconds)
    assert device.launches
    assert (device.launches.count, device.launches.matched) == (3, 3)


def test_kernels_that_the_profiler_dropped_are_no_waits_for_the_host(tmp_path: Path) -> None:
    """Half of the launched kernels are not in the export, whose gaps are not judged."""
    export = NsightExport()
    for number in range(200):
        at = number * 100 * US
        export.call(at, at + 5 * US, "cudaLaunchKernel_v7000", number)
        if number % 40 < 20:
            export.kernel(at + 8 * US, at + 98 * US, correlation=number)
    profile = profile_of(export, tmp_path)

    assert profile.notes[0].startswith("Not whole: 80 of 200 launched kernels are not in it")
    assert profile.notes[1].startswith("The last 20 launched kernels are not in it")
    assert not profile.is_whole
    (workload,) = judged_workloads([profile])
    assert all(finding.abstained is not None for finding in workload.findings)


def test_launches_without_any_kernel_are_not_said_to_be_of_the_cpu_alone(tmp_path: Path) -> None:
    """A GPU worked, whose activities the profiler did not get."""
    export = NsightExport()
    for number in range(9):
        export.call(number * US, (number + 1) * US, "cudaLaunchKernel", number)
    profile = profile_of(export, tmp_path)

    assert "9 launches of kernels were recorded, but no run" in " ".join(profile.notes)
    assert "without the GPU's activities" in no_timeline([profile])


def test_processes_count_their_calls_each_for_itself(tmp_path: Path) -> None:
    """Equal correlation numbers in two processes link two pairs."""
    export = NsightExport()
    for process, device in ((11, 0), (12, 1)):
        late = device * 1000 * US
        export.kernel(late, late + 5 * US, device=device, correlation=1, process=process)
        export.kernel(late + 9 * US, late + 15 * US, device=device, correlation=2, process=process)
        export.call(late + 7 * US, late + 8 * US, "cuLaunchKernel", 2, process)
    profile = profile_of(export, tmp_path)

    assert [device.device.key for device in profile.devices] == ["0", "1"]
    for device in profile.devices:
        assert device.time
        assert device.time.host_wait_seconds == pytest.approx(4e-6)


def test_devices_of_processes_are_looked_up(tmp_path: Path) -> None:
    """Both processes call their GPU 0; the export resolves it."""
    export = NsightExport()
    for gpu, process in ((4, 11), (5, 12)):
        export.kernel(0, 5 * US, process=process)
        export.row("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=0, pid=process)
        export.row(
            "TARGET_INFO_GPU",
            id=gpu,
            name="NVIDIA H100",
            uuid=f"{gpu}a6b-1",
            totalMemory=85_000_000_000,
            smCount=132,
        )
    profile = profile_of(export, tmp_path)

    assert [device.device.uuid for device in profile.devices] == ["GPU-4a6b-1", "GPU-5a6b-1"]
    first = profile.devices[0].device
    assert (first.index, first.name) == (4, "NVIDIA H100")
    assert (first.memory_bytes, first.multiprocessors) == (85_000_000_000, 132)


def test_kernels_whose_times_were_lost_stretch_nothing(tmp_path: Path) -> None:
    """CUPTI leaves 0."""
    export = NsightExport()
    export.kernel(0, 0)
    export.kernel(900 * US, 905 * US)
    profile = profile_of(export, tmp_path)

    time = profile.devices[0].time
    assert time is not None
    assert time.span_seconds == pytest.approx(5e-6)
    assert profile.unread == {"CUPTI_ACTIVITY_KIND_KERNEL row without a time": 1}


def test_gpus_had_another_table_until_2021(tmp_path: Path) -> None:
    """There they have CUDA's numbers."""
    export = NsightExport()
    for device in (0, 1):
        export.kernel(0, 5 * US, device=device)
        export.row(
            "TARGET_INFO_CUDA_GPU",
            deviceId=device,
            name="Tesla V100-SXM2-32GB",
            numMultiprocessors=80,
            globalMemorySize=34_089_730_048,
        )
    profile = profile_of(export, tmp_path)

    assert [device.device for device in profile.devices] == [
        ProfiledDevice(str(index), index, "Tesla V100-SXM2-32GB", "", 34_089_730_048, 80)
        for index in (0, 1)
    ]


def test_a_device_that_no_table_names_is_no_other_devices(tmp_path: Path) -> None:
    """One process has its GPUs listed, another has not; a single GPU is not assumed for all."""
    export = NsightExport()
    export.row("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=1, pid=11)
    export.row("TARGET_INFO_GPU", id=0, name="NVIDIA L4", uuid="7", totalMemory=1, smCount=58)
    export.kernel(0, US, process=11, device=1)
    export.kernel(0, US, process=12, device=3)
    export.kernel(0, US, process=12, device=0)
    profile = profile_of(export, tmp_path)

    assert [device.device.key for device in profile.devices] == ["0", "3 of process 12"]
    assert [device.kernels[0].count for device in profile.devices] == [2, 1]
    assert [device.device.name for device in profile.devices] == ["NVIDIA L4", ""]


def test_devices_that_nothing_tells_apart_are_kept_apart(tmp_path: Path) -> None:
    """Two processes with a GPU 0 each may use one or two; a note says so."""
    export = NsightExport()
    export.kernel(0, 5 * US, process=11)
    export.kernel(0, 5 * US, process=12)
    profile = profile_of(export, tmp_path)

    assert [device.device.key for device in profile.devices] == ["0", "0 of process 12"]
    assert any("same device number" in note for note in profile.notes)


@pytest.mark.parametrize(
    ("code", "source", "target", "kind", "memory"),
    [
        (1, 0, 2, CopyKind.HOST_TO_DEVICE, HostMemory.PAGEABLE),
        (1, 1, 2, CopyKind.HOST_TO_DEVICE, HostMemory.PINNED),
        (2, 2, 1, CopyKind.DEVICE_TO_HOST, HostMemory.PINNED),
        (2, 2, 4, CopyKind.DEVICE_TO_HOST, HostMemory.MANAGED),
        (3, 0, 3, CopyKind.HOST_TO_DEVICE, HostMemory.PAGEABLE),
        (8, 2, 2, CopyKind.DEVICE_TO_DEVICE, HostMemory.UNKNOWN),
        (10, 2, 2, CopyKind.PEER, HostMemory.UNKNOWN),
        (11, 0, 2, CopyKind.HOST_TO_DEVICE, HostMemory.MANAGED),
        (99, None, None, CopyKind.OTHER, HostMemory.UNKNOWN),
        (1, None, None, CopyKind.HOST_TO_DEVICE, HostMemory.UNKNOWN),
    ],
)
def test_copies_tell_where_they_went(  # noqa: PLR0913, PLR0917 - a table of codes.
    code: int,
    source: int | None,
    target: int | None,
    kind: CopyKind,
    memory: HostMemory,
    tmp_path: Path,
) -> None:
    """Covers the format's codes, including those of host memory."""
    export = NsightExport()
    export.copy(0, 4 * US, code, source, target, 1 << 20)
    (device,) = profile_of(export, tmp_path).devices

    (copy,) = device.copies
    assert (copy.kind, copy.memory, copy.count, copy.bytes) == (kind, memory, 1, 1 << 20)
    assert copy.seconds == pytest.approx(4e-6)
    assert device.time is None


def test_a_copy_within_a_process_to_another_device_is_a_peer_copy(tmp_path: Path) -> None:
    """Its code is that of device to device."""
    export = NsightExport()
    export.copy(0, US, 8, 2, 2, target_device=1)
    (device,) = profile_of(export, tmp_path).devices

    assert device.copies[0].kind is CopyKind.PEER


def test_calls_in_which_the_host_waited_are_spans(tmp_path: Path) -> None:
    """A copy into pageable memory waits, whatever its call's name; allocation does too."""
    export = NsightExport()
    export.call(0, 9, "cudaStreamSynchronize_v3020", 1)
    export.copy(0, 5, 2, 2, 0, correlation=2)
    export.call(0, 8, "cudaMemcpyAsync_v3020", 2)
    export.copy(0, 5, 2, 2, 1, correlation=3)
    export.call(0, 7, "cudaMemcpyAsync_v3020", 3)
    export.call(0, 6, "cudaMemcpy_v3020", 4)
    export.call(0, 5, "cudaMalloc_v3020", 5)
    export.row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", start=0, end=9, syncType=3)
    profile = profile_of(export, tmp_path)

    waits = {"cudaStreamSynchronize": 1, "cudaMemcpyAsync": 1, "cudaMemcpy": 1, "cudaMalloc": 1}
    assert spans_of(profile, SpanKind.SYNCHRONIZATION) == waits
    assert profile.unread["CUDA call that neither launches nor waits"] == 1
    assert profile.unread["CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"] == 1


def test_a_wait_is_reported_with_the_range_that_issued_it(tmp_path: Path) -> None:
    """The innermost range of its thread counts; a step's number would make each wait unique."""
    export = NsightExport()
    export.kernel(0, US)
    export.range(0, 100, "Step 3")
    export.range(5, 90, "loss logging #12")
    export.call(10, 60, "cudaStreamSynchronize_v3020", 1)
    export.call(92, 95, "cudaStreamSynchronize_v3020", 2)

    assert spans_of(profile_of(export, tmp_path), SpanKind.SYNCHRONIZATION) == {
        "cudaStreamSynchronize in loss logging": 1,
        "cudaStreamSynchronize": 1,
    }


def test_waits_stand_in_for_calls_that_were_not_recorded(tmp_path: Path) -> None:
    """Waits between streams are no waits of the host."""
    export = NsightExport()
    export.kernel(0, US)
    for code in (1, 2, 3, 4):
        export.row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", start=0, end=9, syncType=code)
    profile = profile_of(export, tmp_path)

    waits = {"event wait": 1, "stream wait": 1, "context wait": 1}
    assert spans_of(profile, SpanKind.SYNCHRONIZATION) == waits
    assert profile.unread["wait of a stream, not of the host"] == 1
    assert any("calls of the host are not in it" in note for note in profile.notes)


def test_ranges_are_spans_and_steps(tmp_path: Path) -> None:
    """Covers common names, inline or interned text, and both kinds of range."""
    export = NsightExport()
    export.kernel(0, 90 * US)
    export.range(0, 50 * US, "step 1")
    export.range(50 * US, 100 * US, "step 2", is_registered=True)
    export.range(0, 20 * US, "next(dataloader)", kind=60)
    export.range(0, 5 * US, "save checkpoint")
    export.range(0, 5 * US, "aten::mm, seq = 7, op_id = 8")
    export.range(0, 5 * US, "aten::mm, seq = 9, op_id = 10")
    export.range(0, None, "open")
    export.range(0, 0, "a mark", kind=34)
    profile = profile_of(export, tmp_path)

    assert spans_of(profile, SpanKind.LOADER) == {"next(dataloader)": 1}
    assert spans_of(profile, SpanKind.CHECKPOINT) == {"save checkpoint": 1}
    assert spans_of(profile, SpanKind.ANNOTATION)["aten::mm"] == 2
    steps = profile.devices[0].steps
    assert [step.name for step in steps] == ["step 1", "step 2"]
    assert [step.loader_seconds for step in steps] == [pytest.approx(20e-6), 0]
    assert profile.unread["NVTX range that never ends"] == 1
    assert profile.unread["NVTX event that is no range"] == 1


def test_steps_belong_to_the_devices_of_their_process(tmp_path: Path) -> None:
    """A rank's steps do not apply to another rank's GPU."""
    export = NsightExport()
    for process, device in ((11, 0), (12, 1)):
        export.kernel(0, 90 * US, device=device, process=process)
        export.range(0, 50 * US, f"iteration {process}", process=process)
    profile = profile_of(export, tmp_path)

    assert [[step.name for step in each.steps] for each in profile.devices] == [
        ["iteration 11"],
        ["iteration 12"],
    ]


def test_the_session_gives_wall_time_and_version(tmp_path: Path) -> None:
    """The version is that of the profiler and of the tables."""
    export = NsightExport()
    export.row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_754_324_972_242_076_786)
    profile = profile_of(export, tmp_path)

    assert profile.start == 1_754_324_972_242_076_786
    assert profile.version == "2025.5.2.266, schema 3.24.0"
    assert profile.source == "export.sqlite"
    assert profile.notes == ("No kernel is in it: where the time of a GPU went is not known.",)


def test_errors_of_the_profiler_are_notes_without_paths(tmp_path: Path) -> None:
    """So is the one warning about lost events."""
    export = NsightExport()
    for severity, text in [
        (1, "Profiling has started."),
        (2, "No NVTX events collected."),
        (2, "Not all CUDA events might have been collected."),
        (3, "Event buffer of /home/alice/run overflowed."),
    ]:
        export.row("DIAGNOSTIC_EVENT", timestamp=0, severity=severity, text=text)
    notes = " ".join(profile_of(export, tmp_path).notes)

    assert "Not all CUDA events" in notes
    assert "overflowed" in notes
    assert "alice" not in notes
    assert "started" not in notes
    assert "NVTX" not in notes


def test_unused_table_is_counted(tmp_path: Path) -> None:
    """GPU metrics are counted; tables without events are not."""
    export = NsightExport()
    export.kernel(0, US)
    for moment in range(5):
        export.row("GPU_METRICS", timestamp=moment, typeId=1, metricId=2, value=3)
    export.row("OSRT_API", start=0, end=1, nameId=1)
    export.row("PROCESSES", globalPid=1, pid=1, name="init")
    profile = profile_of(export, tmp_path)

    assert Counter(profile.unread) == Counter({"GPU_METRICS": 5, "OSRT_API": 1})
    assert profile.events == 7


def test_a_table_without_a_needed_column_is_counted_whole(tmp_path: Path) -> None:
    """It is from an unknown version."""
    export = NsightExport()
    export.row("CUPTI_ACTIVITY_KIND_KERNEL", begin=1, end=2, deviceId=0)
    profile = profile_of(export, tmp_path)

    assert profile.unread == {"CUPTI_ACTIVITY_KIND_KERNEL without start": 1}


def test_the_peak_of_allocations_is_the_memory_peak(tmp_path: Path) -> None:
    """Events are sorted by time, unlike the rows; host memory does not count."""
    export = NsightExport()
    export.kernel(0, US)
    for start, size, operation, kind in [
        (10, 100, 0, 2),
        (30, 100, 1, 2),
        (20, 50, 0, 2),
        (40, 60, 0, 2),
        (15, 9999, 0, 1),
    ]:
        export.row(
            "CUDA_GPU_MEMORY_USAGE_EVENTS",
            start=start,
            deviceId=0,
            bytes=size,
            memoryOperationType=operation,
            memKind=kind,
            globalPid=export.owner(),
        )
    profile = profile_of(export, tmp_path)

    assert profile.devices[0].memory_peak_bytes == 150
    assert profile.unread["allocation that is not of device memory"] == 1


def test_nothing_of_the_environment_comes_out(tmp_path: Path) -> None:
    """This covers variables, user, folder, host and arguments."""
    export = NsightExport()
    export.kernel(0, US)
    export.range(0, US, "load /home/SECRET/data/batch.bin")
    for table in ("TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE", "META_DATA_EXPORT"):
        for name in ("DeviceEnvironment", "EXPORT_USER", "EXPORT_HOST", "COMMAND_LINE"):
            export.row(table, name=name, value="HF_TOKEN=SECRET")
    export.row("PROCESSES", globalPid=1, pid=1, name="SECRET")
    export.row("DIAGNOSTIC_EVENT", timestamp=0, severity=3, text="in /tmp/SECRET with hf_SECRET9")
    export.row("ProcessStreams", globalPid=1, filenameId=export.text("/home/SECRET/out.log"))

    assert "SECRET" not in repr(profile_of(export, tmp_path))


@pytest.mark.parametrize(
    ("name", "data", "is_one"),
    [
        ("anything", b"SQLite format 3\0" + bytes(84), True),
        ("run.nsys-rep", b"\x08\0\0\0", True),
        ("run.nsys-rep", b"words", False),
        ("run.sqlite", b"words", False),
    ],
)
def test_files_are_recognized_by_how_they_begin(name: str, data: bytes, *, is_one: bool) -> None:
    """Reports are an exception: only their program knows the format."""
    assert NSIGHT_SYSTEMS.recognizes(Head(name, data)) is is_one
