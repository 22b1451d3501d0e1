"""`trace.json.gz` of the trace viewer: converted from an `XSpace`."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profile_xplane import WORKED, Event, Line, Plane, kernel, space, viewer_trace
from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import Profile
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.reader import Head
from rightsizer.profiles.trace_viewer import TRACE_VIEWER
from rightsizer.profiles.xplane.reader import XPLANE

LIMITS = ReadLimits()
NAMES: list[dict[str, Any]] = [
    {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:GPU:0"}},
    {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "Stream #1"}},
]
KERNEL: dict[str, Any] = {"ph": "X", "pid": 1, "tid": 2, "ts": 1.5, "dur": 0.25, "name": "gemm"}


def read_bytes(folder: Path, data: bytes) -> Profile:
    """The profile in the given bytes."""
    path = folder / "host.trace.json.gz"
    path.write_bytes(data)
    return TRACE_VIEWER.read(path, LIMITS)


def read_events(folder: Path, *events: Any) -> Profile:
    """The profile of the given events, on one stream."""
    return read_bytes(folder, json.dumps({"traceEvents": [*NAMES, *events, {}]}).encode())


def test_a_profile_of_a_tpu_is_not_called_one_of_the_host(tmp_path: Path) -> None:
    """It is not evaluated, and a note says so."""
    plane = {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "/device:TPU:0"}}
    profile = read_events(tmp_path, plane, KERNEL)
    assert "There is no kernel of a GPU in it: TPUs worked" in profile.notes[0]


def test_it_says_what_its_xspace_says(tmp_path: Path) -> None:
    """Times and kernels agree; it lacks a GPU's memory size, and the wall time of time 0."""
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(space(WORKED))
    (expected,) = XPLANE.read(path, LIMITS).devices
    profile = read_bytes(tmp_path, viewer_trace(WORKED))
    (device,) = profile.devices
    assert device.time == expected.time
    assert device.kernels == expected.kernels
    assert device.copies == expected.copies
    assert device.steps == expected.steps
    assert device.launches == expected.launches
    assert device.device.index == 3
    assert device.device.memory_bytes is None
    assert profile.start is None


@given(
    st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 10**5)), min_size=1, max_size=20),
    st.integers(0, 2 * 10**18),
)
def test_any_times_come_back_to_the_nanosecond(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[int, int]], time: int
) -> None:
    """They are microseconds with three decimals, including epoch times."""
    folder = tmp_path_factory.mktemp("times")
    events = [
        {
            **KERNEL,
            "ts": f"{(time + start) // 1000}.{(time + start) % 1000:03}",
            "dur": f"{duration // 1000}.{duration % 1000:03}",
        }
        for start, duration in runs
    ]
    plane = Plane(
        "/device:GPU:0", [Line("Stream #1", [kernel("gemm", *each) for each in runs], time)]
    )
    path = folder / "host.xplane.pb"
    path.write_bytes(space([plane]))
    (device,) = read_events(folder, *events).devices
    assert device.time == XPLANE.read(path, LIMITS).devices[0].time


def test_the_empty_event_at_the_end_is_none(tmp_path: Path) -> None:
    """It allows all others to end with a comma."""
    profile = read_events(tmp_path, KERNEL)
    assert profile.unread == {}
    assert profile.events == 4


def test_names_that_were_cut_are_reported_in_full(tmp_path: Path) -> None:
    """The full name is then an argument."""
    event = {**KERNEL, "args": {"long_name": "void gemm<half>(int)"}}
    assert read_events(tmp_path, event).devices[0].kernels[0].name == "void gemm<half>(int)"


@pytest.mark.parametrize(
    ("event", "what"),
    [
        ({**KERNEL, "ts": "soon"}, "events without times"),
        ({**KERNEL, "ts": float("nan")}, "events without times"),
        ({**KERNEL, "dur": None}, "events without times"),
        ({**KERNEL, "dur": -1}, "kernel of a negative duration"),
        ({**KERNEL, "ts": 1e300}, "events without times"),
        ({**KERNEL, "tid": 99}, "events of unnamed lines"),
        ({**KERNEL, "pid": 99}, "events of other planes"),
        ({"ph": "i", "pid": 1, "tid": 2, "ts": 1}, "events that are no spans"),
        ({"ph": ["X"]}, "events that are no spans"),
    ],
)
def test_unused_event_is_counted_by_kind(tmp_path: Path, event: dict[str, Any], what: str) -> None:
    """It is counted by its kind, beside the used ones."""
    profile = read_events(tmp_path, event, KERNEL)
    assert profile.unread == {what: 1}
    assert sum(each.count for each in profile.devices[0].kernels) == 1


def test_derived_lines_carry_their_stream_in_their_names(tmp_path: Path) -> None:
    """`XLA Ops - from #2` is no stream, `Steps - from #2` has steps."""
    lines = [
        Line("Stream #2", [kernel("a", 0, 10)]),
        Line("XLA Ops - from #2", [Event("a.1", 0, 500)]),
        Line("Steps - from #2", [Event("4", 0, 20)]),
    ]
    profile = read_bytes(tmp_path, viewer_trace([Plane("/device:GPU:0", lines)]))
    (device,) = profile.devices
    assert device.time is not None
    assert device.time.span_seconds == pytest.approx(10e-9)
    assert [step.name for step in device.steps] == ["4"]
    assert profile.unread == {"events of derived lines": 1}


def test_a_torn_trace_says_how_far_it_goes(tmp_path: Path) -> None:
    """Earlier events are kept."""
    whole = json.dumps({"traceEvents": [*NAMES, KERNEL, KERNEL]}).encode()
    profile = read_bytes(tmp_path, gzip.compress(whole[:-20]))
    assert sum(each.count for each in profile.devices[0].kernels) == 1
    assert any(note.startswith("It is not whole: ") for note in profile.notes)


def test_a_capped_trace_says_that_events_are_missing(tmp_path: Path) -> None:
    """Its writer stops at a million events."""
    fill = b",".join([b"{}"] * 1_000_000)
    profile = read_bytes(tmp_path, b'{"traceEvents":[' + fill + b"]}")
    assert any("million events" in note for note in profile.notes)
    assert profile.events == 1_000_000


def test_a_file_without_events_is_refused(tmp_path: Path) -> None:
    """JSON alone is not a trace."""
    with pytest.raises(ProfileError, match="traceEvents"):
        read_bytes(tmp_path, b'{"metadata": {}}')


def test_it_is_recognized_by_its_processes() -> None:
    """PyTorch's traces have other processes."""
    assert TRACE_VIEWER.recognizes(Head("a", gzip.decompress(viewer_trace(WORKED))))
    torch = json.dumps({"traceEvents": [{**NAMES[0], "args": {"name": "python"}}]})
    assert not TRACE_VIEWER.recognizes(Head("host.trace.json.gz", torch.encode()))


def test_nothing_of_who_recorded_it_comes_out(tmp_path: Path) -> None:
    """Neither its metadata nor unused arguments do."""
    event = {**KERNEL, "args": {"env": "TOKEN=s3cret", "command_line": "/home/s3cret"}}
    document = {"metadata": {"environment": "s3cret"}, "traceEvents": [*NAMES, event, {}]}
    profile = read_bytes(tmp_path, json.dumps(document).encode())
    assert profile.devices
    assert "s3cret" not in repr(profile)
