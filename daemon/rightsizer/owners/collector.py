"""Collectors of owners: workloads of processes, allocated devices, and their servers."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from msgspec import Struct

from rightsizer.host.process_table import ProcessTable
from rightsizer.host.trusted_groups import TrustedGroupReader
from rightsizer.model.values import CollectorOutcome, Workload, WorkloadKind
from rightsizer.owners.background_fetcher import BackgroundFetcher
from rightsizer.owners.collector_settings import OwnerCollectorSettings
from rightsizer.owners.workload_limits import Allocations, LimitedAllocations

SERVER: Final = Workload("server", WorkloadKind.OTHER, "server")
"""Stands for programs that use all GPUs of a node and belong to no job, such as a display's."""


class OwnerHost(Struct, frozen=True):
    """Node as collectors of owners see it."""

    procfs: Path
    sysfs: Path
    groups: TrustedGroupReader
    processes: ProcessTable
    settings: OwnerCollectorSettings
    now: Callable[[], float]


class OwnerCollector(Protocol):
    """Collector of the processes and allocations of one owner."""

    def workload_of(self, pid: int) -> Workload | None:
        """Workload that a process belongs to; `None` if unknown."""

    def workloads_of(self, pids: Iterable[int]) -> list[Workload | None]:
        """Workload of each process."""
        return [self.workload_of(pid) for pid in pids]

    def allocations(self) -> Allocations:
        """Devices allocated by a scheduler, used or not; empty without a scheduler."""
        return {}


class NodeCollector(OwnerCollector):
    """Collector on this node; by default without a server."""

    fetcher: BackgroundFetcher[Any] | None = None
    """Fetcher of its server's answers, if there is one."""

    def __init__(self, host: OwnerHost | None = None) -> None:
        self._host = host

    @property
    def host(self) -> OwnerHost:
        """View of the node; given to collectors that ask for it."""
        if self._host is None:
            raise TypeError(f"{type(self).__name__} was made without the node's view")
        return self._host

    def generation(self) -> int:
        """Incremented when former answers become invalid."""
        return 0

    def outcomes(self) -> Mapping[str, CollectorOutcome]:
        """Outcomes of the last requests, by server name."""
        return {} if self.fetcher is None else self.fetcher.outcomes()

    def close(self) -> None:
        """Stop the thread, if there is one."""
        if self.fetcher is not None:
            self.fetcher.close()


class SchedulerCollector(NodeCollector):
    """Collector of a scheduler, whose fetcher returns its allocations."""

    fetcher: BackgroundFetcher[LimitedAllocations] | None = None

    def allocations(self) -> Allocations:
        """Devices that the scheduler has allocated."""
        answer = self.fetcher.latest() if self.fetcher is not None else None
        return {} if answer is None else answer.allocations

    def outcomes(self) -> Mapping[str, CollectorOutcome]:
        """Outcome of the last request, with what was left out of the answer in force."""
        answer = self.fetcher.latest() if self.fetcher is not None else None
        if answer is None or answer.refusal is None:
            return super().outcomes()
        return {
            name: outcome._replace(refusal=answer.refusal)
            for name, outcome in super().outcomes().items()
        }


class WorkloadResolver(OwnerCollector, Protocol):
    """Combination of several collectors; by default none of them has a server."""

    def collectors(self) -> Mapping[str, CollectorOutcome]:
        """Last outcome of each collector with a server, by server name."""
        return {}

    def blindness(self) -> str | None:
        """Return why processes of other users are invisible, or `None`."""
        return None

    def close(self) -> None:
        """Stop the threads."""
