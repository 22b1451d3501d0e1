"""Kernel statistics of a process."""

import os
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_USER_TIME: Final = 11
"""Of the fields after the command's name (proc_pid_stat(5))."""


def cpu_seconds(pid: int) -> float:
    """CPU time of a process, over all threads."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    fields = text.rpartition(")")[2].split()
    return (int(fields[_USER_TIME]) + int(fields[_USER_TIME + 1])) / _TICKS


def memory_mebibytes(pid: int | str = "self", key: str = "VmRSS") -> float:
    """Memory of a process: `VmRSS` now, `VmHWM` at its peak."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} has no {key}")
