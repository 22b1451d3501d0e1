"""`*.xplane.pb`: data that is read, and data that is not."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_xplane import (
    GPU,
    WORKED,
    Event,
    Line,
    Plane,
    kernel,
    space,
)
from rightsizer.model.profile import (
    CopyKind,
    CopyUse,
    DeviceProfile,
    HostMemory,
    Profile,
    SpanKind,
    TimeUse,
)
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.reader import Head
from rightsizer.profiles.xplane.reader import XPLANE

NANOSECOND = 1e-9
LIMITS = ReadLimits()


def read_bytes(folder: Path, data: bytes, limits: ReadLimits = LIMITS) -> Profile:
    """The profile in the given bytes."""
    path = folder / "host.xplane.pb"
    path.write_bytes(data)
    return XPLANE.read(path, limits)


def read_planes(folder: Path, *planes: Plane) -> Profile:
    """The profile of the given planes."""
    return read_bytes(folder, space(planes))


def read_streams(folder: Path, *lines: Line, host: Sequence[Event] = ()) -> DeviceProfile:
    """The one device with the given lines."""
    planes = [Plane("/device:GPU:0", lines, GPU), Plane("/host:CPU", [Line("main", host)])]
    (device,) = read_planes(folder, *planes).devices
    return device


def time_of(device: DeviceProfile) -> TimeUse:
    """Use of its time, for a device with kernels."""
    assert device.time is not None
    return device.time


def test_a_gpu_that_waited_for_its_host(tmp_path: Path) -> None:
    """Overlapping kernels of streams count once, derived lines do not count."""
    (device,) = read_planes(tmp_path, *WORKED).devices
    time = time_of(device)
    assert time.span_seconds == pytest.approx(1500 * NANOSECOND)
    assert time.kernel_seconds == pytest.approx(1100 * NANOSECOND)
    assert time.collective_seconds == pytest.approx(500 * NANOSECOND)
    assert time.host_wait_seconds == pytest.approx(400 * NANOSECOND)
    assert time.idle_seconds == pytest.approx(400 * NANOSECOND)
    assert {each.name: each.count for each in device.kernels} == {
        "gemm": 2,
        "add": 1,
        "ncclDevKernel_AllReduce": 1,
    }
    assert device.launches is not None
    assert (device.launches.count, device.launches.matched) == (4, 4)


def test_device_plane_has_memory_size_and_peak(tmp_path: Path) -> None:
    """The peak is the allocator's; the plane has no name of the GPU."""
    (device,) = read_planes(tmp_path, *WORKED).devices
    assert device.device.key == "/device:GPU:3"
    assert device.device.index == 3
    assert device.device.name == ""
    assert device.device.memory_bytes == 16945512448
    assert device.device.multiprocessors == 80
    assert device.memory_peak_bytes == 5000


def test_copies_and_fills_are_no_kernels(tmp_path: Path) -> None:
    """A copy's details have its size and the kind of host memory."""
    (device,) = read_planes(tmp_path, *WORKED).devices
    (copy,) = device.copies
    assert copy == CopyUse(
        CopyKind.HOST_TO_DEVICE, HostMemory.PINNED, 1, 4096, pytest.approx(150 * NANOSECOND)
    )


@pytest.mark.parametrize(
    ("name", "details", "kind", "memory", "size"),
    [
        ("MemcpyH2D", "size:4 dest:4 async:1", CopyKind.HOST_TO_DEVICE, HostMemory.UNKNOWN, 4),
        (
            "MemcpyD2H",
            "kind_src:device kind_dst:pageable size:8 dest:0 async:0",
            CopyKind.DEVICE_TO_HOST,
            HostMemory.PAGEABLE,
            8,
        ),
        ("MemcpyD2D", "size:1", CopyKind.DEVICE_TO_DEVICE, HostMemory.UNKNOWN, 1),
        ("MemcpyP2P", "size:1 dest:1", CopyKind.PEER, HostMemory.UNKNOWN, 1),
        ("MemcpyOther", "kind_src:managed size:2", CopyKind.OTHER, HostMemory.MANAGED, 2),
        ("CopyDeviceToHost", "size:1", CopyKind.OTHER, HostMemory.UNKNOWN, 1),
        ("MemcpyH2D", "size:many", CopyKind.HOST_TO_DEVICE, HostMemory.UNKNOWN, None),
    ],
)
def test_kinds_of_copies(  # noqa: PLR0913, PLR0917 - the table's columns.
    tmp_path: Path, name: str, details: str, kind: CopyKind, memory: HostMemory, size: int | None
) -> None:
    """The event's name decides, or its details where the name is another."""
    line = Line("Stream #1(MemcpyH2D)", [Event(name, 0, 10, {"memcpy_details": details})])
    (copy,) = read_streams(tmp_path, line).copies
    assert (copy.kind, copy.memory, copy.bytes) == (kind, memory, size)


def test_a_graph_is_busy_time_without_kernels(tmp_path: Path) -> None:
    """One event represents all of it."""
    graph = Event("graph", 100, 50, {"cuda_graph_exec_id": 5, "correlation_id": 9})
    device = read_streams(tmp_path, Line("Stream #1", [kernel("a", 0, 10), graph]))
    assert time_of(device).kernel_seconds == pytest.approx(60 * NANOSECOND)
    assert sum(each.count for each in device.kernels) == 1


def test_events_of_memory_on_a_stream_are_not_busy(tmp_path: Path) -> None:
    """They are counted by kind."""
    event = Event("MemoryAlloc", 0, 900, {"memalloc_details": "kind:device num_bytes:4"})
    planes = [Plane("/device:GPU:0", [Line("Stream #1", [event, kernel("a", 10, 5)])], GPU)]
    profile = read_planes(tmp_path, *planes)
    assert time_of(profile.devices[0]).span_seconds == pytest.approx(5 * NANOSECOND)
    assert profile.unread["events of memory"] == 1


@pytest.mark.parametrize(
    ("stats", "ratio"),
    [
        ({"theoretical_occupancy_pct": 62.5}, 0.625),
        ({"kernel_details": " grid:1,1,1 block:2,1,1 group_mem:0 occ_pct:50"}, 0.5),
        ({"kernel_details": " grid:1,1,1 block:2,1,1 group_mem:0 occ_pct:0"}, None),
        ({"theoretical_occupancy_pct": 700.0}, None),
        ({"theoretical_occupancy_pct": float("nan")}, None),
        ({"kernel_details": "occ_pct:high"}, None),
        ({}, None),
    ],
)
def test_the_occupancy_of_a_launch(
    tmp_path: Path, stats: dict[str, float | str], ratio: float | None
) -> None:
    """Covers NVIDIA's and AMD's form; 0 means unknown."""
    device = read_streams(tmp_path, Line("Stream #1", [Event("k", 0, 10, stats)]))
    assert device.kernels[0].occupancy_ratio == (None if ratio is None else pytest.approx(ratio))


def test_steps_of_a_device(tmp_path: Path) -> None:
    """They have a line of their own on the device."""
    (device,) = read_planes(tmp_path, *WORKED).devices
    (step,) = device.steps
    assert step.name == "7"
    assert step.time.kernel_seconds == pytest.approx(1100 * NANOSECOND)


def test_launches_that_their_own_tracer_saw(tmp_path: Path) -> None:
    """They have a plane of their own until a tool merges them."""
    launch = Event("cuLaunchKernel", 0, 5, {"correlation_id": 300})
    planes = [
        Plane("/device:GPU:0", [Line("Stream #1", [kernel("a", 10, 5, correlation_id=300)])]),
        Plane("/host:CUPTI", [Line("1", [launch])]),
    ]
    (device,) = read_planes(tmp_path, *planes).devices
    assert device.launches is not None
    assert device.launches.matched == 1


def test_steps_that_only_the_host_knows(tmp_path: Path) -> None:
    """JAX's annotation has its number."""
    host = [Event("train", 0, 100, {"step_num": 4}), Event("train", 100, 100, {"step_num": 5})]
    line = Line("Stream #1", [kernel("a", 10, 20), kernel("b", 150, 30)])
    device = read_streams(tmp_path, line, host=host)
    assert [step.name for step in device.steps] == ["train 4", "train 5"]


def test_spans_of_the_host(tmp_path: Path) -> None:
    """Loader and waits are recognized by function names, without files."""
    spans = read_planes(tmp_path, *WORKED).host_spans
    assert {(span.kind, span.name, span.count) for span in spans} == {
        (SpanKind.LOADER, "IteratorGetNextOp::DoCompute", 1),
        (SpanKind.SYNCHRONIZATION, "block_until_ready", 1),
    }


@pytest.mark.parametrize(
    ("name", "kind", "shown"),
    [
        ("cuStreamSynchronize", SpanKind.SYNCHRONIZATION, "cuStreamSynchronize"),
        ("hipDeviceSynchronize", SpanKind.SYNCHRONIZATION, "hipDeviceSynchronize"),
        ("save/SaveV2:SaveV2", SpanKind.CHECKPOINT, "SaveV2"),
        ("$orbax.py:7 save_checkpoint", SpanKind.CHECKPOINT, "save_checkpoint"),
        (
            "next:MultiDeviceIteratorGetNextFromShard",
            SpanKind.LOADER,
            "MultiDeviceIteratorGetNextFromShard",
        ),
    ],
)
def test_names_of_spans(tmp_path: Path, name: str, kind: SpanKind, shown: str) -> None:
    """Covers the driver, TensorFlow's operations, and Python functions."""
    profile = read_planes(tmp_path, Plane("/host:CPU", [Line("main", [Event(name, 0, 5)])]))
    assert [(span.kind, span.name) for span in profile.host_spans] == [(kind, shown)]


def test_time_zero_is_when_the_profiler_started(tmp_path: Path) -> None:
    """The profiler's own plane has that time."""
    assert read_planes(tmp_path, *WORKED).start == 1_779_266_702_889_805_563
    assert read_planes(tmp_path, *WORKED[:-1]).start is None


def test_events_with_wall_time_need_no_start(tmp_path: Path) -> None:
    """Time 0 is then the epoch, whatever else the file says."""
    line = Line("Stream #1", [kernel("a", 0, 10)], 1_779_266_702_889_805_563)
    plane = Plane("/device:GPU:0", [line], GPU)
    assert read_planes(tmp_path, plane, WORKED[-1]).start == 0


def test_a_gpu_of_which_two_hosts_wrote_is_two(tmp_path: Path) -> None:
    """Their planes have the same name, but their times are of different devices."""
    planes = [
        Plane("/device:GPU:0", [Line("Stream #1", [kernel("a", start, 10)])], GPU)
        for start in (0, 500)
    ]
    profile = read_planes(tmp_path, *planes)
    assert [device.device.key for device in profile.devices] == [
        "/device:GPU:0",
        "/device:GPU:0 (2)",
    ]
    assert [time_of(device).span_seconds for device in profile.devices] == [pytest.approx(1e-8)] * 2


def test_a_profile_without_kernels_says_so(tmp_path: Path) -> None:
    """A host-only profile is valid, and has no GPU at 0%."""
    profile = read_planes(tmp_path, *WORKED[1:])
    assert all(device.time is None for device in profile.devices)
    assert any("no kernel of a GPU" in note for note in profile.notes)


def test_it_is_recognized_by_its_first_plane() -> None:
    """Its file name does not matter, and no other file is recognized."""
    assert XPLANE.recognizes(Head("a.txt", space(WORKED)))
    for other in (b"", b"{}", b"\x0a\x05hello", b"SQLite format 3\0", b"\x0a\x12\x34"):
        assert not XPLANE.recognizes(Head("host.xplane.pb", other))


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 10_000), st.integers(0, 500)), min_size=1)
)
def test_kernels_and_idle_time_make_up_the_span(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[int, int, int]]
) -> None:
    """This holds for any number of streams in any order."""
    folder = tmp_path_factory.mktemp("sums")
    lines = [
        Line(
            f"Stream #{stream}",
            [kernel("k", start, duration) for at, start, duration in runs if at == stream],
        )
        for stream in range(4)
    ]
    busy = {moment for _, start, duration in runs for moment in range(start, start + duration)}
    time = time_of(read_streams(folder, *lines))
    assert time.kernel_seconds == pytest.approx(len(busy) * NANOSECOND, abs=1e-15)
    assert time.kernel_seconds + time.idle_seconds == pytest.approx(time.span_seconds, abs=1e-15)
