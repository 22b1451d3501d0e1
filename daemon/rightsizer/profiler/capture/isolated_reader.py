"""Isolated reader: reads one file in a separate process, whose program is this module."""

import contextlib
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.io.codec import decode, encode
from rightsizer.io.program import own_module
from rightsizer.model.profile import Profile
from rightsizer.model.values import ProfileError
from rightsizer.profiler.capture.settings import DropFolderSettings
from rightsizer.profiles.limits import ReadLimits

_MODULE: Final = "rightsizer.profiler.capture.isolated_reader"
_ANSWER_BYTES: Final = 16 * 2**20
"""Limit of an encoded profile, cut down by the reading program: at most a tenth of this."""
_CHUNK_BYTES: Final = 2**18
_LOOK_MILLISECONDS: Final = 50
_END_SECONDS: Final = 2.0
_KERNEL_NAMES: Final = 2000
_STEPS: Final = 2000
_DEVICES: Final = 64
_MOMENTS: Final = 10
"""Limits of a profile for the agent; readers merge or count the rest."""
_OPEN_FILES: Final = 64


class ReaderTask(Struct, frozen=True):
    """File to read, with limits."""

    path: str
    """Path to the inherited open file, under its own name."""
    name: str
    limits: ReadLimits
    memory_bytes: int
    cpu_seconds: int


class ReaderAnswer(Struct, frozen=True):
    """Result of a read: a profile or a fault."""

    profile: Profile | None
    fault: str = ""


class ReadInterrupted(Exception):  # noqa: N818 - nothing is wrong.
    """The agent stops; the file's state is unknown."""


def read_isolated(
    descriptor: int,
    name: str,
    limits: ReadLimits,
    settings: DropFolderSettings,
    stop: threading.Event,
) -> Profile:
    """Read the profile from an open file; the caller keeps the descriptor.

    Raises:
        ProfileError: it cannot be read, or not within the limits.
        ReadInterrupted: `stop` was set.
    """
    # Readers take a path: this one leads to the open file, even if its folder is replaced.
    with tempfile.TemporaryDirectory(prefix="rightsizer-") as folder:
        path = Path(folder) / name
        path.symlink_to(f"/proc/self/fd/{descriptor}")
        cpu_seconds = max(1, round(settings.read_timeout))
        task = ReaderTask(str(path), name, limits, settings.read_memory_bytes, cpu_seconds)
        with subprocess.Popen(  # noqa: S603 - this very program, by a list of words.
            own_module(_MODULE),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(descriptor,),
            # No PATH: a dropped file must never start a vendor's program.
            env={"PATH": "", "LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,
        ) as process:
            try:
                data = _output_of(process, encode(task), settings.read_timeout, stop)
                if data is None:
                    _kill(process)
                status = process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                status = None  # It closed its output, but has not exited.
            finally:
                _kill(process)
    return _profile_in(data, status, name, settings)


def _output_of(
    process: "subprocess.Popen[bytes]", task: bytes, timeout_seconds: float, stop: threading.Event
) -> bytes | None:
    """Return the process's output, or `None` if it is too late or too large."""
    assert process.stdin is not None  # noqa: S101 - both are pipes.
    assert process.stdout is not None  # noqa: S101 - as above.
    with contextlib.suppress(OSError):
        process.stdin.write(task)  # Less than a pipe holds.
        process.stdin.close()
    answer = bytearray()
    deadline = time.monotonic() + timeout_seconds
    descriptor = process.stdout.fileno()
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    while len(answer) <= _ANSWER_BYTES and time.monotonic() < deadline:
        if stop.is_set():
            raise ReadInterrupted
        if waiting.poll(_LOOK_MILLISECONDS):
            if not (data := os.read(descriptor, _CHUNK_BYTES)):
                return bytes(answer)
            answer += data
    return None


def _kill(process: "subprocess.Popen[bytes]") -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _profile_in(
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


def main() -> None:
    """Read the task, then the file; always answers, unless killed."""
    task = decode(sys.stdin.buffer.read(), ReaderTask)
    _confine(task)
    sys.stdout.buffer.write(encode(_answer(task)))


def _confine(task: ReaderTask) -> None:
    for what, maximum in (
        (resource.RLIMIT_AS, task.memory_bytes),
        (resource.RLIMIT_CPU, task.cpu_seconds),
        (resource.RLIMIT_FSIZE, task.memory_bytes),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        soft = maximum if hard == resource.RLIM_INFINITY else min(maximum, hard)
        # One second above the soft limit, whose signal ends the process with a reason.
        last = soft + 1 if hard == resource.RLIM_INFINITY else hard
        resource.setrlimit(what, (soft, last))
    os.umask(0o077)


def _answer(task: ReaderTask) -> ReaderAnswer:
    limits = replace(
        task.limits,
        kernel_names_maximum=min(task.limits.kernel_names_maximum, _KERNEL_NAMES),
        steps_maximum=min(task.limits.steps_maximum, _STEPS),
        devices_maximum=min(task.limits.devices_maximum, _DEVICES),
        frames_maximum=0,
        time=replace(task.limits.time, timeline_moments=_MOMENTS),
    )
    # Imported here: the agent itself does not load the readers.
    from rightsizer.profiles.registry import open_profile  # noqa: PLC0415

    try:
        profile = open_profile(Path(task.path), limits)
    except ProfileError as error:
        return ReaderAnswer(None, str(error).replace(task.path, task.name))
    except MemoryError:
        size_mib = task.memory_bytes // 2**20
        return ReaderAnswer(
            None,
            f"{task.name}: takes more than {size_mib} MiB to read; record a shorter time, or raise "
            "profiles.drop_folder.read_memory",
        )
    return ReaderAnswer(replace(profile, source=task.name))


if __name__ == "__main__":
    main()
