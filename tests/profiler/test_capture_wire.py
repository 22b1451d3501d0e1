"""Profiles over a pipe: they arrive unchanged, and invalid documents are rejected."""

import json
from pathlib import Path
from typing import TypeVar

import pytest

from capture_recorder import trace_of
from profile_examples import launch_bound_trace
from rightsizer.io.codec import decode, encode
from rightsizer.model.profile import Profile
from rightsizer.profiler.capture.isolated_reader import ReaderAnswer, ReaderTask
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.registry import open_profile

TASK = ReaderTask("/a", "a", ReadLimits(), 2**29, 120)
DOCUMENT = json.loads(encode(TASK))
_Value = TypeVar("_Value")


def sent(value: _Value) -> _Value:
    """Output at the pipe's other end."""
    return decode(encode(value), type(value))


def test_a_profile_arrives_as_it_was_sent(tmp_path: Path) -> None:
    """Kernels, steps, spans, counts and unknown values are included."""
    for path in (launch_bound_trace(tmp_path), trace_of().write(tmp_path)):
        profile = open_profile(path, ReadLimits())
        assert isinstance(profile, Profile)
        assert sent(profile) == profile
        assert sent(ReaderAnswer(profile)) == ReaderAnswer(profile)
    assert sent(ReaderAnswer(None, "why")) == ReaderAnswer(None, "why")
    assert sent(TASK) == TASK


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        "x",
        {name: value for name, value in DOCUMENT.items() if name != "cpu_seconds"},
        DOCUMENT | {"memory_bytes": "2"},
        DOCUMENT | {"memory_bytes": True},
        DOCUMENT | {"limits": [1, 2]},
        DOCUMENT | {"path": 1},
    ],
)
def test_invalid_document_is_refused(value: object) -> None:
    """Types are checked, though both ends are the same program."""
    with pytest.raises(ValueError, match=r"Expected|missing"):
        decode(json.dumps(value), ReaderTask)
