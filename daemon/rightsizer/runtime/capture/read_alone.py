"""A program that reads one file of a profiler's and writes what is in it as JSON, and no more.

It is started by the agent for each file, with bounds of its own: whatever the file does to its
reader, it does to this process. Its standard input is a `Task`, its output an `Answer`.
"""

import json
import os
import resource
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from rightsizer.domain.errors import ProfileError
from rightsizer.profiles.formats import open_profile
from rightsizer.runtime.capture.task import Answer, Task
from rightsizer.runtime.capture.wire import plain, restored

__all__ = ["main"]

_KERNEL_NAMES: Final = 2000
_STEPS: Final = 2000
_DEVICES: Final = 64
"""More would be told than the agent has room for; readers show the rest as one, or count it."""
_OPEN_FILES: Final = 64
_FIRST_VICTIM: Final = "1000"


def main() -> None:
    """Read the task, then the file; always answers, unless it is ended."""
    task = restored(Task, json.load(sys.stdin))
    _confine(task)
    answer = _answer(task)
    json.dump(plain(answer), sys.stdout, separators=(",", ":"))


def _confine(task: Task) -> None:
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


def _answer(task: Task) -> Answer:
    limits = replace(
        task.limits,
        kernel_names_maximum=min(task.limits.kernel_names_maximum, _KERNEL_NAMES),
        steps_maximum=min(task.limits.steps_maximum, _STEPS),
        devices_maximum=min(task.limits.devices_maximum, _DEVICES),
    )
    try:
        profile = open_profile(Path(task.path), limits)
    except ProfileError as error:
        return Answer(None, str(error).replace(task.path, task.name))
    except MemoryError:
        most = task.memory_bytes // 2**20
        return Answer(
            None,
            f"{task.name}: takes more than {most} MiB to read; record a shorter time, or raise "
            "profiles.drop_folder.read_memory",
        )
    return Answer(replace(profile, source=task.name))


if __name__ == "__main__":
    main()
