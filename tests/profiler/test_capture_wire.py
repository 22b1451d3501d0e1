"""Profiles over a pipe: what arrives is what was sent, and what is none is refused."""

import json
from pathlib import Path

import pytest

from capture_recorder import trace_of
from profile_stories import launch_bound_trace
from rightsizer.model.profile import Profile
from rightsizer.profiler.capture.reader_protocol import ReaderAnswer, ReaderTask, plain, restored
from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.profiles.registry import open_profile

TASK = ReaderTask("/a", "a", ReadLimits(), 2**29, 120)


def sent(value: object) -> object:
    """What comes out of the pipe at its other end."""
    return json.loads(json.dumps(plain(value)))


def test_a_profile_arrives_as_it_was_sent(tmp_path: Path) -> None:
    """With its kernels, steps, spans, counts and all that is not known."""
    for path in (launch_bound_trace(tmp_path), trace_of().write(tmp_path)):
        profile = open_profile(path, ReadLimits())
        assert restored(Profile, sent(profile)) == profile
    assert restored(ReaderAnswer, sent(ReaderAnswer(None, "why"))) == ReaderAnswer(None, "why")
    assert restored(ReaderTask, sent(TASK)) == TASK


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        "x",
        ["/a", "a", plain(ReadLimits()), 2**29],
        ["/a", "a", plain(ReadLimits()), "2", 1],
        ["/a", "a", plain(ReadLimits()), True, 1],
        ["/a", "a", [1, 2], 1, 1],
        [1, "a", plain(ReadLimits()), 1, 1],
    ],
)
def test_what_is_none_is_refused(value: object) -> None:
    """Types are checked, though both ends are one program."""
    with pytest.raises(ValueError, match=r"is no|zip\(\)"):
        restored(ReaderTask, value)
