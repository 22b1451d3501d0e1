"""A process told apart from whoever has its number later, and ended where nobody waits for it."""

import contextlib
import os
import signal
from pathlib import Path
from typing import Final

__all__ = ["end_group", "started_of"]

_STARTED: Final = 19
"""`starttime` in proc(5), counted from the state, which is behind the name."""


def started_of(pid: int, procfs: Path = Path("/proc")) -> int | None:
    """When a process started, in the kernel's ticks since it booted; `None` where there is none."""
    try:
        text = (procfs / str(pid) / "stat").read_text(errors="replace")
        # The name is whatever the process likes, parentheses included.
        return int(text.rpartition(")")[2].split()[_STARTED])
    except (OSError, ValueError, IndexError):
        return None


def end_group(pid: int, started: int, procfs: Path = Path("/proc")) -> bool:
    """End a process of ours that outlived the agent, with its group; whether it was there.

    Args:
        pid: Its number, and its group's.
        started: When it started; of another there with that number nothing is ended.
        procfs: Where it is mounted.
    """
    if started_of(pid, procfs) != started:
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    return True
