"""Resolver of a process's workload through the collectors of all owners."""

import time
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Self

from rightsizer.host.cache import RefreshingCache
from rightsizer.host.process_table import ProcessTable
from rightsizer.host.trusted_groups import WriterOf, other_writer
from rightsizer.io.log import logger
from rightsizer.model.snapshot import CollectorOutcome
from rightsizer.model.units import nanoseconds
from rightsizer.model.workload import Workload, WorkloadKind
from rightsizer.owners.collector import SERVER, Allocations, NodeCollector
from rightsizer.owners.registry import collectors_on
from rightsizer.owners.settings import OwnerSettings

OTHER_WORKLOADS: Final = Workload(
    "other", WorkloadKind.OTHER, "other", unproven="it is the sum of workloads without a name"
)
"""Aggregate of all workloads beyond the limit."""


_BLIND: Final = (
    "procfs hides the processes of other users (hidepid): mount it without hidepid, or with gid= "
    "and a supplementary group"
)
_FOREIGN: Final = (
    "procfs shows another pid namespace than the agent's, so the driver's pids are other processes "
    "there: run the agent in the host's pid namespace (hostPID, --pid=host)"
)


class WorkloadNameLimiter:
    """Limits the number of named workloads; those not seen for a while are replaced."""

    def __init__(
        self, workloads_maximum: int, hold_seconds: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._workloads_maximum = workloads_maximum
        self._hold_seconds = hold_seconds
        self._now = now
        self._seen: dict[str, float] = {}
        self._is_full = False
        self._log = logger("owners")

    def __len__(self) -> int:
        return len(self._seen)

    def name(self, workload: Workload) -> Workload:
        """Return the workload, or `OTHER_WORKLOADS` beyond the limit."""
        now = self._now()
        if workload.key not in self._seen and not self._has_room(now):
            return OTHER_WORKLOADS
        self._seen[workload.key] = now
        return workload

    def _has_room(self, now: float) -> bool:
        if len(self._seen) < self._workloads_maximum:
            return True
        since = now - self._hold_seconds
        self._seen = {key: seen for key, seen in self._seen.items() if seen >= since}
        was_full = self._is_full
        self._is_full = len(self._seen) >= self._workloads_maximum
        if self._is_full and not was_full:
            self._log.warning(
                "workloads_beyond_bound",
                workloads_maximum=self._workloads_maximum,
                remedy="the others are summed up as 'other'; raise workloads_maximum to name them",
            )
        return not self._is_full


class OwnerResolver:
    """Queries its sources in order and caches their answers, including `None`. Not thread-safe.

    A reused pid is looked up again.
    """

    def __init__(
        self,
        sources: Sequence[NodeCollector],
        settings: OwnerSettings,
        processes: ProcessTable | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create it; the first source that knows a process names its workload.

        `processes` provides start times to detect reused pids, and names to recognize servers.
        """
        self._sources = tuple(sources)
        self._processes = processes
        self._servers = settings.servers
        self._now = now
        held = nanoseconds(settings.time_to_live_seconds)
        self._known = RefreshingCache[tuple[int, int | None, int], Workload | None](held, held)
        """By pid, start, and generation of the sources."""
        self._name_limiter = WorkloadNameLimiter(
            settings.workloads_maximum, settings.time_to_live_seconds, now
        )

    @classmethod
    def on_host(
        cls,
        procfs: Path,
        *,
        sysfs: Path = Path("/sys"),
        settings: OwnerSettings | None = None,
        now: Callable[[], float] = time.monotonic,
        writer_of: WriterOf = other_writer,
    ) -> Self:
        """Create all sources enabled in the settings."""
        settings = settings or OwnerSettings()
        sources = collectors_on(procfs, sysfs, settings, now, writer_of)
        return cls(sources, settings, ProcessTable(procfs), now)

    @property
    def remembered(self) -> int:
        """Number of cached processes."""
        return len(self._known)

    def workload_of(self, pid: int) -> Workload | None:
        """Workload by the first source that knows the process, or `SERVER`."""
        if not self._shows_our_pids:
            return None
        row = None if self._processes is None else self._processes.row(pid)
        started, name = (None, "") if row is None else (row.started_ticks, row.name)
        key = pid, started, sum(source.generation() for source in self._sources)
        now = nanoseconds(self._now())
        workload = self._known.get(key, now, lambda: self._look_up(pid, name))
        return workload if workload in (None, SERVER) else self._name_limiter.name(workload)

    def _look_up(self, pid: int, name: str) -> Workload | None:
        if any(fnmatchcase(name, each) for each in self._servers):
            return SERVER
        answers = (source.workload_of(pid) for source in self._sources)
        return next((answer for answer in answers if answer is not None), None)

    def allocations(self) -> Allocations:
        """Allocations of all schedulers on the node."""
        found: dict[str, dict[Workload, None]] = {}
        for source in self._sources:
            for key, workloads in source.allocations().items():
                named = found.setdefault(key, {})
                named.update(dict.fromkeys(map(self._name_limiter.name, workloads)))
        return {key: tuple(workloads) for key, workloads in found.items()}

    def collectors(self) -> Mapping[str, CollectorOutcome]:
        """Last outcome of each source with a server, by server name."""
        return {
            name: outcome for source in self._sources for name, outcome in source.outcomes().items()
        }

    def blindness(self) -> str | None:
        """Return why processes of other users are invisible, or `None`."""
        if not self._shows_our_pids:
            return _FOREIGN
        is_blind = self._processes is not None and not self._processes.sees_others()
        return _BLIND if is_blind else None

    @property
    def _shows_our_pids(self) -> bool:
        return self._processes is None or self._processes.shows_our_pids

    def close(self) -> None:
        """Stop the sources' threads; abandon those that hang."""
        for source in self._sources:
            source.close()
