"""Files are read in a process of their own: whatever happens to it, the agent gets an answer."""

import gzip
import json
import os
import threading
import time
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from capture_recorder import trace_of
from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import Profile, ProfileFormat
from rightsizer.profiler.capture.isolated_reader import ReadInterrupted, read_isolated
from rightsizer.profiler.capture.settings import DropFolderSettings
from rightsizer.profiles.limits import ReadLimits, TimeSettings
from rightsizer.profiles.registry import open_profile

SETTINGS: Final = DropFolderSettings("/drop", read_timeout=20.0)


def read(path: Path, settings: DropFolderSettings = SETTINGS) -> Profile:
    """Result of reading a file, or the reason of failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return read_isolated(descriptor, path.name, ReadLimits(), settings, threading.Event())
    finally:
        os.close(descriptor)


def why_not(path: Path, settings: DropFolderSettings = SETTINGS) -> str:
    """Why a file cannot be read."""
    with pytest.raises(ProfileError) as caught:
        read(path, settings)
    return str(caught.value)


def test_a_profile_is_read_as_in_this_process(tmp_path: Path) -> None:
    """Only its own name is reported, and data that only a page draws is left out."""
    path = trace_of().write(tmp_path, "rank0.pt.trace.json.gz")
    limits = ReadLimits(frames_maximum=0, time=TimeSettings(timeline_moments=10))
    assert read(path) == open_profile(path, limits)


def test_the_open_file_is_what_is_read(tmp_path: Path) -> None:
    """The path may refer to another file by now."""
    path = trace_of().write(tmp_path)
    descriptor = os.open(path, os.O_RDONLY)
    path.unlink()
    path.symlink_to("/etc/passwd")
    profile = read_isolated(descriptor, path.name, ReadLimits(), SETTINGS, threading.Event())
    os.close(descriptor)
    assert (profile.format, profile.source) == (ProfileFormat.PYTORCH, path.name)


def test_invalid_profile_is_reported_by_its_name(tmp_path: Path) -> None:
    """The name, not the path that it was opened by."""
    path = tmp_path / "notes.txt"
    path.write_text("buy milk")
    reason = why_not(path)
    assert reason.startswith("notes.txt: of no known format: it begins with 'buy milk'")
    assert "rightsizer-" not in reason


def test_of_a_torn_profile_the_whole_part_is_read(tmp_path: Path) -> None:
    """The note says that the file was truncated during writing."""
    path = trace_of().write(tmp_path, "torn.json")
    path.write_bytes(path.read_bytes()[:5000])
    (note,) = read(path).notes
    assert note.startswith("Not whole: the file ends at character 5000")


def test_a_file_that_takes_too_much_memory_ends_its_reader_alone(tmp_path: Path) -> None:
    """The message has the remedy, where the reader can still write one."""
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wt") as file:
        file.write('{"traceEvents":[{"ph":"X","name":"')
        for _ in range(40):
            file.write("x" * 2**20)
    reason = why_not(path, replace(SETTINGS, read_memory_bytes=8 * 2**20))
    assert "takes more than 8 MiB to read" in reason or "whatever reads it ended" in reason


def test_a_file_that_takes_too_long_ends_its_reader(tmp_path: Path) -> None:
    """The message has the remedy."""
    path = tmp_path / "slow.json"
    path.write_text(json.dumps(trace_of().document()))
    reason = why_not(path, replace(SETTINGS, read_timeout=0.01))
    assert reason == (
        "slow.json: was not read within 0.01 s; record a shorter time, or raise "
        "profiles.drop_folder.read_timeout"
    )


def test_stopped_reader_does_not_wait_for_a_file(tmp_path: Path) -> None:
    """The file's result is unknown."""
    path = trace_of().write(tmp_path)
    stop = threading.Event()
    stop.set()
    began = time.monotonic()
    with path.open("rb") as file, pytest.raises(ReadInterrupted):
        read_isolated(file.fileno(), path.name, ReadLimits(), SETTINGS, stop)
    assert time.monotonic() - began < 10.0


def test_no_vendors_program_is_run_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that only `nsys` can read stays unread, even with `nsys` installed."""
    program = tmp_path / "bin" / "nsys"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    report = tmp_path / "report.nsys-rep"
    report.write_bytes(b"NVIDIA Nsight Systems report\0" + bytes(4096))
    assert why_not(report)
    assert not (tmp_path / "was-run").exists()
