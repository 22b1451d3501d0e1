"""The workloads that are named at the moment, and no more of them than allowed."""

import time
from collections.abc import Callable
from typing import Final

import structlog

from rightsizer.domain.workload import Workload, WorkloadKind

__all__ = ["OTHERS", "Roll"]

OTHERS: Final = Workload("other", WorkloadKind.OTHER, "other")
"""All that are beyond the bound, in one."""


class Roll:
    """Lets so many workloads be named at once; whoever is not seen for a while makes room."""

    def __init__(
        self,
        workloads_maximum: int,
        hold_seconds: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Nobody is named yet."""
        self._workloads_maximum = workloads_maximum
        self._hold_seconds = hold_seconds
        self._now = now
        self._seen: dict[str, float] = {}
        self._is_full = False
        self._log = structlog.get_logger(component="owners")

    def __len__(self) -> int:
        return len(self._seen)

    def name(self, workload: Workload) -> Workload:
        """The workload itself, or `OTHERS` where too many others are named already."""
        now = self._now()
        if workload.key not in self._seen and not self._has_room(now):
            return OTHERS
        self._seen[workload.key] = now
        return workload

    def _has_room(self, now: float) -> bool:
        if len(self._seen) < self._workloads_maximum:
            return True
        since = now - self._hold_seconds
        self._seen = {key: seen for key, seen in self._seen.items() if seen >= since}
        was_full, self._is_full = self._is_full, len(self._seen) >= self._workloads_maximum
        if self._is_full and not was_full:
            self._log.warning(
                "workloads_beyond_bound",
                workloads_maximum=self._workloads_maximum,
                remedy="the others are summed up as 'other'; raise workloads_maximum to name them",
            )
        return not self._is_full
