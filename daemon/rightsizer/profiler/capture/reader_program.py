"""Program of the isolated reader: reads one file, writes its profile as JSON."""

import os
import resource
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from rightsizer.io.codec import decode, encode
from rightsizer.model.errors import ProfileError
from rightsizer.profiler.capture.reader_protocol import ReaderAnswer, ReaderTask
from rightsizer.telemetry.profiles.registry import open_profile

_KERNEL_NAMES: Final = 2000
_STEPS: Final = 2000
_DEVICES: Final = 64
"""More would be told than the agent has room for; readers show the rest as one, or count it."""
_OPEN_FILES: Final = 64
_FIRST_VICTIM: Final = "1000"


def main() -> None:
    """Read the task, then the file; always answers, unless it is ended."""
    task = decode(sys.stdin.buffer.read(), ReaderTask)
    _confine(task)
    sys.stdout.write(encode(_answer(task)))


def _confine(task: ReaderTask) -> None:
    for what, most in (
        (resource.RLIMIT_AS, task.memory_bytes),
        (resource.RLIMIT_CPU, task.cpu_seconds),
        (resource.RLIMIT_FSIZE, task.memory_bytes),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(what)
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # A second more than the warning, which ends it and says why.
        last = soft + 1 if hard == resource.RLIM_INFINITY else hard
        resource.setrlimit(what, (soft, last))
    # Where memory runs out in all, this goes and the agent stays.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_VICTIM)
    os.umask(0o077)


def _answer(task: ReaderTask) -> ReaderAnswer:
    limits = replace(
        task.limits,
        kernel_names_maximum=min(task.limits.kernel_names_maximum, _KERNEL_NAMES),
        steps_maximum=min(task.limits.steps_maximum, _STEPS),
        devices_maximum=min(task.limits.devices_maximum, _DEVICES),
    )
    try:
        profile = open_profile(Path(task.path), limits)
    except ProfileError as error:
        return ReaderAnswer(None, str(error).replace(task.path, task.name))
    except MemoryError:
        most = task.memory_bytes // 2**20
        return ReaderAnswer(
            None,
            f"{task.name}: takes more than {most} MiB to read; record a shorter time, or raise "
            "profiles.drop_folder.read_memory",
        )
    return ReaderAnswer(replace(profile, source=task.name))


if __name__ == "__main__":
    main()
