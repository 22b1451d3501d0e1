"""A real control group with limits of tasks, memory or processor time."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from msgspec import Struct

_ROOT: Final = Path("/sys/fs/cgroup")
_PERIOD_MICROSECONDS: Final = 100_000
_REMOVAL_SECONDS: Final = 5.0
_FILES: Final = {
    "tasks": ("pids", "pids.max", "pids.max"),
    "memory": ("memory", "memory.limit_in_bytes", "memory.max"),
    "processor": ("cpu", "cpu.cfs_quota_us", "cpu.max"),
}
"""By what is limited: hierarchy and file of version 1, file of version 2."""


class ControlGroup(Struct, frozen=True):
    """A folder below the machine's control groups, for one kind of limit."""

    folder: Path
    file: str

    @classmethod
    def create(cls, limited: str) -> Self:
        """A group of our own.

        Args:
            limited: `tasks`, `memory` or `processor`.
        """
        hierarchy, old_file, new_file = _FILES[limited]
        name = f"rightsizer-reliability-{os.getpid()}-{time.monotonic_ns()}"
        is_old = (_ROOT / hierarchy).is_dir()
        group = cls(
            _ROOT / hierarchy / name if is_old else _ROOT / name, old_file if is_old else new_file
        )
        group.folder.mkdir()
        return group

    @property
    def joining(self) -> tuple[str, ...]:
        """A command that starts another one inside."""
        return ("sh", "-c", f'echo $$ >{self.folder}/cgroup.procs && exec "$@"', "sh")

    def limit(self, number: int | None) -> None:
        """Set the limit; `None` for none. A processor's is its share in percent."""
        text = "max" if number is None else str(number)
        if self.file == "cpu.cfs_quota_us":
            text = str(-1 if number is None else number * _PERIOD_MICROSECONDS // 100)
        elif self.file == "memory.limit_in_bytes":
            text = str(-1 if number is None else number)
        elif self.file == "cpu.max" and number is not None:
            text = f"{number * _PERIOD_MICROSECONDS // 100} {_PERIOD_MICROSECONDS}"
        (self.folder / self.file).write_text(text, "ascii")

    def close(self) -> None:
        """Remove the group, once its processes have ended."""
        deadline = time.monotonic() + _REMOVAL_SECONDS
        while time.monotonic() < deadline:
            with suppress(OSError):
                self.folder.rmdir()
                return
            time.sleep(0.1)


def kinds() -> str:
    """Which control groups this machine has, for the document."""
    if not os.access(_ROOT, os.W_OK):
        return "none that may be written"
    return "version 1" if (_ROOT / "pids").is_dir() else "version 2"
