"""Isolated reader: one file read in a process of its own, which may crash or hang."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rightsizer.io.codec import decode, encode
from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import Profile
from rightsizer.profiler.capture.reader_protocol import ReaderAnswer, ReaderTask
from rightsizer.profiler.capture.settings import DropFolderSettings
from rightsizer.telemetry.profiles.limits import ReadLimits

_PROGRAM: Final = (sys.executable, "-I", "-m", "rightsizer.profiler.capture.reader_program")
_ANSWER_BYTES: Final = 16 * 2**20
"""Of a profile cut down to what the reading program gives: a tenth at most."""
_CHUNK_BYTES: Final = 2**18
_LOOK_MILLISECONDS: Final = 50
_END_SECONDS: Final = 2.0


class ReadInterrupted(Exception):  # noqa: N818 - nothing is wrong.
    """The agent ends; nothing is known of the file."""


def read_isolated(
    descriptor: int,
    name: str,
    limits: ReadLimits,
    settings: DropFolderSettings,
    stop: threading.Event,
) -> Profile:
    """The profile in an open file, which stays the caller's, until `stop` is set.

    Raises:
        ProfileError: it cannot be read, or not within the bounds.
        ReadInterrupted: `stop` was set.
    """
    # Readers take a path: one that leads to the open file, whatever becomes of its folder.
    with tempfile.TemporaryDirectory(prefix="rightsizer-") as folder:
        path = Path(folder) / name
        path.symlink_to(f"/proc/self/fd/{descriptor}")
        cpu_seconds = max(1, round(settings.read_timeout))
        task = ReaderTask(str(path), name, limits, settings.read_memory_bytes, cpu_seconds)
        with _started(descriptor) as process:
            data = _asked(process, encode(task).encode(), settings.read_timeout, stop)
            if data is None:
                _end(process)
            try:
                status = process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                status = None  # It has no more to say, and has not ended.
    return _understood(data, status, name, settings)


@contextlib.contextmanager
def _started(descriptor: int) -> "Iterator[subprocess.Popen[bytes]]":
    process = subprocess.Popen(  # noqa: S603 - this very program, by a list of words.
        _PROGRAM,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=(descriptor,),
        # No PATH: a vendor's program is never run for a file that just lay there.
        env={"PATH": "", "LANG": "C.UTF-8"},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _end(process)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _asked(
    process: "subprocess.Popen[bytes]", task: bytes, timeout_seconds: float, stop: threading.Event
) -> bytes | None:
    """What it says; `None` where that took too long or was too much."""
    assert process.stdin is not None  # noqa: S101 - both are pipes.
    assert process.stdout is not None  # noqa: S101 - as above.
    with contextlib.suppress(OSError):
        process.stdin.write(task)  # Less than a pipe holds.
        process.stdin.close()
    answer, deadline = bytearray(), time.monotonic() + timeout_seconds
    descriptor, waiting = process.stdout.fileno(), select.poll()
    waiting.register(descriptor, select.POLLIN)
    while len(answer) <= _ANSWER_BYTES and time.monotonic() < deadline:
        if stop.is_set():
            raise ReadInterrupted
        if waiting.poll(_LOOK_MILLISECONDS):
            data = os.read(descriptor, _CHUNK_BYTES)
            if not data:
                return bytes(answer)
            answer += data
    return None


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _understood(
    data: bytes | None, status: int | None, name: str, settings: DropFolderSettings
) -> Profile:
    if data is None or status is None or status == -signal.SIGXCPU:
        raise ProfileError(
            f"{name}: was not read within {settings.read_timeout:g} s; record a shorter time, or "
            "raise profiles.drop_folder.read_timeout"
        )
    if status != 0:
        how = f"with status {status}" if status > 0 else f"by signal {-status}"
        raise ProfileError(
            f"{name}: whatever reads it ended {how}; see what `rightsizer profile` says of it"
        )
    try:
        answer = decode(data, ReaderAnswer)
    except ValueError:
        raise ProfileError(f"{name}: what was read of it makes no sense; record it again") from None
    if answer.profile is None:
        raise ProfileError(answer.fault)
    return answer.profile
