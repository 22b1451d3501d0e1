"""Workloads of Docker, containerd and Podman: containers by control group."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from rightsizer.domain.snapshot import CollectorOutcome
from rightsizer.domain.workload import Workload, WorkloadKind
from rightsizer.telemetry.owners.asked import Asked
from rightsizer.telemetry.owners.container_engine import container_names
from rightsizer.telemetry.owners.control_group import container_in
from rightsizer.telemetry.owners.owner import Allocations
from rightsizer.telemetry.owners.process_files import ProcessFiles
from rightsizer.telemetry.owners.settings import OwnerSettings

__all__ = ["ContainerOwners"]

_SHORT_LENGTH: Final = 12
"""As `docker ps` shows them."""


class ContainerOwners:
    """Containers by the name that their engine tells if the operator lets it be asked.

    Without, they go by their short identifier.
    """

    def __init__(
        self, procfs: Path, settings: OwnerSettings, now: Callable[[], float] = time.monotonic
    ) -> None:
        """Asks and reads nothing yet."""
        self._files = ProcessFiles(procfs)
        self._settings = settings
        self._engine = (
            Asked("container_engine", self._ask, settings, now=now)
            if settings.container_socket
            else None
        )

    def generation(self) -> int:
        """Grows when names have changed, so that former answers no longer hold."""
        if self._engine is None:
            return 0
        self._engine.latest()
        return self._engine.generation

    def workload_of(self, pid: int) -> Workload | None:
        """The container that a process runs in."""
        group = container_in(self._files.groups(pid))
        if group is None:
            return None
        short = group.id[:_SHORT_LENGTH]
        names = self._engine.latest() if self._engine else None
        name = names.get(group.id) if names else None
        if name is None:
            if self._engine:
                self._engine.hurry()
            name = short
        return Workload(f"container:{name}", WorkloadKind.CONTAINER, name, container=short)

    def allocations(self) -> Allocations:
        """Container engines keep no account of devices."""
        return {}

    def outcomes(self) -> Mapping[str, CollectorOutcome]:
        """How the last call went; nothing where the engine is not to be asked."""
        return self._engine.outcomes() if self._engine else {}

    def close(self) -> None:
        """Let go of the thread that asks."""
        if self._engine:
            self._engine.close()

    def _ask(self) -> Mapping[str, str]:
        """On the engine's thread."""
        return container_names(
            Path(self._settings.container_socket),
            timeout_seconds=self._settings.timeout_seconds,
            maximum_bytes=self._settings.answer_maximum_bytes,
        )
