"""A process told apart from whoever has its number later, and ended where nobody waits for it."""

import contextlib
import os
import signal
from pathlib import Path
from typing import Final

from rightsizer.host.process_files import ProcessFiles

_PROCFS: Final = Path("/proc")


def started_of(pid: int) -> int | None:
    """When a process started, in the kernel's ticks since it booted; `None` where there is none."""
    return ProcessFiles(_PROCFS).start_ticks(pid)


def end_group(pid: int | None, started: int | None) -> bool:
    """End a process of ours that outlived the agent, with its group; whether it was there.

    Args:
        pid: Its number, and its group's; `None` where nobody noted one.
        started: When it started; of another there with that number nothing is ended.
    """
    if pid is None or started is None or started_of(pid) != started:
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    return True
