"""`*.xplane.pb` that are unusual, truncated, large or full of secrets."""

import gzip
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from profile_xplane import (
    GPU,
    WORKED,
    Event,
    Line,
    Plane,
    kernel,
    length_field,
    number_field,
    space,
)
from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import Profile
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.xplane.reader import XPLANE

LIMITS = ReadLimits()


def read_bytes(folder: Path, data: bytes, limits: ReadLimits = LIMITS) -> Profile:
    """The profile in the given bytes."""
    path = folder / "host.xplane.pb"
    path.write_bytes(data)
    return XPLANE.read(path, limits)


def read_planes(folder: Path, *planes: Plane) -> Profile:
    """The profile of the given planes."""
    return read_bytes(folder, space(planes))


def test_unread_planes_are_counted_and_named(tmp_path: Path) -> None:
    """Covers TPUs, other planes, derived lines, other host events, and sums without times."""
    profile = read_planes(
        tmp_path,
        *WORKED,
        Plane("/device:TPU:0", [Line("XLA Ops", [Event("dot", 0, 9), Event("dot", 9, 9)])]),
        Plane("/device:CUSTOM:Megascale", [Line("x", [Event("send", 0, 9)])]),
        Plane("/device:GPU:6", [Line("Stream #1", [Event("sum", None, 9)])]),
    )
    assert profile.unread == {
        "events of TPUs": 2,
        "events of other planes": 1,
        "events of derived lines": 1,
        "events of the host": 1,
        "sums of events, without times": 1,
    }
    assert "It has 1 TPU planes, which are counted and not read." in profile.notes
    assert "1 of its 3 GPUs did nothing." in profile.notes
    written = sum(len(line.events) for plane in WORKED for line in plane.lines) + 4
    assert profile.events == written


def test_unknown_fields_are_counted(tmp_path: Path) -> None:
    """A newer writer may add fields on every level."""
    event = number_field(1, 1) + number_field(77, 1) + length_field(78, "new")
    line = length_field(2, "Stream #1") + length_field(4, event) + number_field(79, 1)
    plane = length_field(2, "/device:GPU:0") + length_field(3, line) + length_field(80, "new")
    profile = read_bytes(tmp_path, length_field(1, plane) + length_field(81, "new"))
    assert profile.unread == {"unknown fields": 5}
    assert sum(each.count for each in profile.devices[0].kernels) == 1


def test_events_that_cannot_be_are_refused(tmp_path: Path) -> None:
    """Covers negative durations, and times out of range."""
    line = Line("Stream #1", [kernel("a", 0, -5), kernel("b", 5, 5)])
    far = Line("Stream #2", [kernel("c", 0, 5)], 2**63 - 1)
    profile = read_planes(tmp_path, Plane("/device:GPU:0", [line, far], GPU))
    assert [each.name for each in profile.devices[0].kernels] == ["b"]
    assert profile.unread == {
        "kernel of a negative duration": 1,
        "kernel out of all time": 1,
    }


def test_messages_of_the_profiler_are_notes(tmp_path: Path) -> None:
    """Possible secrets and paths are removed."""
    profile = read_bytes(
        tmp_path,
        space(
            WORKED,
            errors=["CUPTI is not available: HF_TOKEN=hf_s3cret at /home/somebody/run.py"],
            warnings=["12 events were dropped"] * 5,
        ),
    )
    assert profile.notes[0] == ("The profiler reported an error: CUPTI is not available: … at …")
    assert profile.notes[1] == "The profiler reported a warning: 12 events were dropped"
    assert profile.unread["messages of the profiler"] == 6


def test_nothing_of_who_recorded_it_comes_out(tmp_path: Path) -> None:
    """Covers names of hosts, folders and files, and unused values."""
    environment = {"env": "TOKEN=s3cret", "command_line": "train --key s3cret"}
    data = space(
        [
            *(replace(each, stats={**each.stats, **environment}) for each in WORKED),
            Plane("/host:metadata", [], environment),
        ],
        hostnames=["s3cret.somebody.example"],
        errors=["s3cret", "see /home/somebody"],
    )
    text = repr(read_bytes(tmp_path, data))
    assert "s3cret" not in text
    assert "somebody" not in text


def test_a_long_file_is_never_in_memory(tmp_path: Path) -> None:
    """Of 12 MB one piece at a time is in memory, whether events are used or not."""
    event = length_field(4, number_field(1, 1) + number_field(2, 9) + length_field(4, b"x" * 480))
    line = length_field(2, "python3") + event * 25_000
    path = tmp_path / "long.xplane.pb"
    path.write_bytes(length_field(1, length_field(2, "/host:CPU") + length_field(3, line)))
    tracemalloc.start()
    profile = XPLANE.read(path, LIMITS)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert profile.unread == {"events of the host": 25_000}
    assert peak < 3 * 2**20


def test_a_packed_file_reads_the_same(tmp_path: Path) -> None:
    """Some stores compress all files."""
    plain = read_bytes(tmp_path, space(WORKED))
    assert read_bytes(tmp_path, gzip.compress(space(WORKED))) == plain


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (ReadLimits(events_maximum=10), "more than 10 events"),
        (ReadLimits(unpacked_maximum_bytes=1000), "1000 bytes"),
    ],
)
def test_oversized_message_is_refused_with_the_limit(
    tmp_path: Path, limits: ReadLimits, words: str, *, is_packed: bool
) -> None:
    """Compressed or not, the message has the limit."""
    data = space(WORKED)
    with pytest.raises(ProfileError, match=words):
        read_bytes(tmp_path, gzip.compress(data) if is_packed else data, limits)


def test_events_and_names_beyond_the_limits_are_counted(tmp_path: Path) -> None:
    """The rest is read."""
    events = [kernel(f"k{number}", 10 * number, 5) for number in range(1200)]
    long = Event("long", 99999, 5, {"annotation": "x" * 5000})
    plane = Plane("/device:GPU:0", [Line("Stream #1", [*events, long])], GPU)
    limits = ReadLimits(kernel_names_maximum=100, event_maximum_bytes=1024)
    profile = read_bytes(tmp_path, space([plane]), limits)
    assert profile.unread["events that are too large"] == 1
    assert profile.unread["names beyond those that are told apart"] == 201
    assert sum(each.count for each in profile.devices[0].kernels) == 1200


@given(st.integers(0, len(space(WORKED)) - 1))
def test_a_torn_file_is_refused_or_ends_with_a_plane(
    tmp_path_factory: pytest.TempPathFactory, place: int
) -> None:
    """The message names the byte and the remedy."""
    folder = tmp_path_factory.mktemp("torn")
    if place in {len(space(WORKED[:count])) for count in range(len(WORKED))}:
        assert read_bytes(folder, space(WORKED)[:place]).events <= 17
        return
    with pytest.raises(ProfileError, match=r"^byte \d+: .*copy it again"):
        read_bytes(folder, space(WORKED)[:place])
