"""A real limit of tasks: a control group of the kernel's controller `pids`, as of TasksMax=."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

__all__ = ["TaskLimit", "task_limit"]

_MOUNTS: Final = (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup"))


class TaskLimit:
    """A control group."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def prefix(self) -> tuple[str, ...]:
        """Start of a command line whose process is in it."""
        return ("sh", "-c", f'echo $$ > {self._folder}/cgroup.procs; exec "$@"', "sh")

    def change(self, tasks: int) -> None:
        """Change the limit."""
        (self._folder / "pids.max").write_text(str(tasks))

    @property
    def tasks(self) -> int:
        """Tasks in it."""
        return int((self._folder / "pids.current").read_text())


@contextmanager
def task_limit(tasks: int) -> Iterator[TaskLimit]:
    """A control group for as many tasks; skips the test where none can be made."""
    mount = next((mount for mount in _MOUNTS if (mount / "cgroup.procs").exists()), None)
    if mount is None:
        pytest.skip("no control groups are mounted")
    folder = mount / f"rightsizer-test-{os.getpid()}-{time.monotonic_ns()}"
    try:
        folder.mkdir()
        limit = TaskLimit(folder)
        limit.change(tasks)
    except OSError as error:
        pytest.skip(f"no control group may be made: {error.strerror}")
    try:
        yield limit
    finally:
        folder.rmdir()
