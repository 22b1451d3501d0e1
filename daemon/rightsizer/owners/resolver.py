"""Resolver of a process's workload through the collectors of all owners."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Final, Self

from rightsizer.host.cache import RefreshingCache
from rightsizer.host.process_table import ProcessTable
from rightsizer.host.trusted_groups import TrustedGroupReader, WriterOf, other_writer
from rightsizer.model.values import CollectorOutcome, Nanoseconds, Workload, nanoseconds
from rightsizer.owners.collector import SERVER, NodeCollector, OwnerHost
from rightsizer.owners.extension import GuardedCollector, extension_owners
from rightsizer.owners.registry import SOURCES
from rightsizer.owners.settings import OwnerSettings
from rightsizer.owners.workload_limits import Allocations, WorkloadNameLimiter

_BLIND: Final = (
    "procfs hides the processes of other users (hidepid): mount it without hidepid, or with gid= "
    "and a supplementary group"
)
_FOREIGN: Final = (
    "procfs shows another pid namespace than the agent's, so the driver's pids are other processes "
    "there: run the agent in the host's pid namespace (hostPID, --pid=host)"
)


class OwnerResolver:
    """Queries its sources in order and caches their answers, including `None`. Not thread-safe.

    A process with a reused pid or in another control group is looked up again.
    """

    def __init__(
        self,
        sources: Sequence[NodeCollector],
        settings: OwnerSettings,
        processes: ProcessTable | None = None,
        now: Callable[[], float] = time.monotonic,
        name_limiter: WorkloadNameLimiter | None = None,
    ) -> None:
        """Create it; the first source that knows a process names its workload.

        `processes` provides start times to detect reused pids, and names to recognize servers.
        `name_limiter` is shared with other sources of workloads, if there are any.
        """
        self._sources = tuple(sources)
        self._processes = processes
        self._servers = settings.servers
        self._now = now
        held = nanoseconds(settings.time_to_live_seconds)
        self._known = RefreshingCache[tuple[int, int | None, str, int], Workload | None](held, held)
        """By pid, start, control groups, and generation of the sources."""
        if name_limiter is None:
            name_limiter = WorkloadNameLimiter.of(settings, now)
        self._name_limiter = name_limiter

    @classmethod
    def on_host(  # noqa: PLR0913 - the outside world comes in as arguments.
        cls,
        procfs: Path,
        *,
        sysfs: Path = Path("/sys"),
        settings: OwnerSettings | None = None,
        now: Callable[[], float] = time.monotonic,
        writer_of: WriterOf = other_writer,
        name_limiter: WorkloadNameLimiter | None = None,
        processes: ProcessTable | None = None,
    ) -> Self:
        """Create all sources enabled in the settings.

        Those of other packages first: they know schedulers that ours take for containers or users.
        """
        settings = settings or OwnerSettings()
        table = processes or ProcessTable(procfs)
        groups = TrustedGroupReader(procfs, sysfs, writer_of, now, table)
        host = OwnerHost(procfs, sysfs, groups, table, settings, now)
        collectors: dict[str, Callable[[], NodeCollector]] = {
            owner.name: partial(GuardedCollector, owner, procfs, settings)
            for owner in extension_owners()
        }
        collectors |= {source.name: partial(source.collector, host) for source in SOURCES}
        # A broken one has a name in the settings, and no collector.
        sources = [make() for name, make in collectors.items() if name in settings.sources]
        return cls(sources, settings, table, now, name_limiter)

    @property
    def remembered(self) -> int:
        """Number of cached processes."""
        return len(self._known)

    def workload_of(self, pid: int) -> Workload | None:
        """Workload by the first source that knows the process, or `SERVER`."""
        (workload,) = self.workloads_of((pid,))
        return workload

    def workloads_of(self, pids: Iterable[int]) -> list[Workload | None]:
        """Workload of each process, by the present answers of all sources."""
        if not self._shows_our_pids:
            return [None for _ in pids]
        generation = sum(source.generation() for source in self._sources)
        now = nanoseconds(self._now())
        return [self._workload_of(pid, generation, now) for pid in pids]

    def _workload_of(self, pid: int, generation: int, now: Nanoseconds) -> Workload | None:
        row = None if self._processes is None else self._processes.row(pid)
        started, name = (None, "") if row is None else (row.started_ticks, row.name)
        groups = "" if self._processes is None else self._processes.control_groups(pid)
        key = pid, started, groups, generation
        workload = self._known.get(key, now, lambda: self._look_up(pid, name))
        if workload is None or workload is SERVER:
            return workload
        return self._name_limiter.name(workload)

    def _look_up(self, pid: int, name: str) -> Workload | None:
        if any(fnmatchcase(name, server) for server in self._servers):
            return SERVER
        answers = (source.workload_of(pid) for source in self._sources)
        return next((answer for answer in answers if answer is not None), None)

    def allocations(self) -> Allocations:
        """Allocations of all schedulers on the node."""
        workloads_by_key: dict[str, dict[Workload, None]] = {}
        for source in self._sources:
            for key, workloads in source.allocations().items():
                named = workloads_by_key.setdefault(key, {})
                named.update(dict.fromkeys(map(self._name_limiter.name, workloads)))
        return {key: tuple(workloads) for key, workloads in workloads_by_key.items()}

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
