"""Cache of process rows that host and owners share: read in turn, a few a pass."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from rightsizer.host.process_table import ProcessRow, ProcessTable
from rightsizer.model.values import Nanoseconds, nanoseconds

ROWS_A_PASS: Final = 64
"""How many of the oldest rows are read again in a pass.

Source: eight processes on each of eight GPUs are read every second; 500 take eight seconds.
"""
ROW_HELD_SECONDS: Final = 10.0
"""How long a row and its control groups are cached at most, however many processes there are.

Source: the interval at which the host's own control groups are read again by default.
"""


@dataclass(slots=True)
class _CachedProcess:
    row: ProcessRow
    read_at: Nanoseconds
    last_pass: int
    control_groups: str | None = None
    """`None` until somebody asks."""


class CachedProcessTable(ProcessTable):
    """Process table that reads a process once a pass at most; not thread-safe.

    A process that was not asked for in the last pass is read at once, since another may have its
    pid.
    """

    def __init__(self, procfs: Path | str, now: Callable[[], Nanoseconds]) -> None:
        super().__init__(procfs)
        self._now = now
        self._pass = 0
        self._held = nanoseconds(ROW_HELD_SECONDS)
        self._processes: dict[int, _CachedProcess] = {}
        """The one read longest ago first."""

    def begin_pass(self) -> None:
        """Forget what the last pass did not ask for, what is too old, and the oldest."""
        since = self._now() - self._held
        kept = (
            (pid, process)
            for pid, process in self._processes.items()
            if process.last_pass == self._pass and process.read_at > since
        )
        self._processes = dict(islice(kept, ROWS_A_PASS, None))
        self._pass += 1

    def row(self, pid: int) -> ProcessRow | None:
        """Process by pid; `None`, which is not cached, if it has ended or is invisible."""
        process = self._processes.get(pid)
        if process is not None:
            process.last_pass = self._pass
            return process.row
        row = super().row(pid)
        if row is not None:
            self._processes[pid] = _CachedProcess(row, self._now(), self._pass)
        return row

    def control_groups(self, pid: int) -> str:
        """Control groups, read in the same pass as the row."""
        process = self._processes.get(pid)
        if process is None:
            return super().control_groups(pid)
        if process.control_groups is None:
            process.control_groups = super().control_groups(pid)
        return process.control_groups
