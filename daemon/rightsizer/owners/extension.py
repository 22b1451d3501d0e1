"""Owners of other packages: a fault costs the names that one gives, and nothing else."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from msgspec import Struct

from rightsizer.io.extensions import Extension, extended, extensions
from rightsizer.model.values import CollectorOutcome, Workload
from rightsizer.owners.collector import NodeCollector
from rightsizer.owners.registry import SOURCES
from rightsizer.owners.settings import OwnerSettings
from rightsizer.owners.workload_limits import Allocations

_Answer = TypeVar("_Answer")
_NO_ALLOCATIONS: Final[Allocations] = {}
_NO_OUTCOMES: Final[dict[str, CollectorOutcome]] = {}


class ExtensionOwner(Struct, frozen=True):
    """Owner of another package, by the name of its entry point."""

    name: str
    collector_of: Callable[[Path, OwnerSettings], NodeCollector]
    """Its collector, for a mount point of procfs."""


def extension_owners() -> tuple[ExtensionOwner, ...]:
    """Owners of other packages that can be loaded."""
    return extended("owners", (), _checked_owner, lambda owner: owner.name)


def loaded_extensions() -> tuple[Extension, ...]:
    """All extensions with their faults; rules and collectors are loaded with their registries."""
    extension_owners()
    return extensions()


def _checked_owner(name: str, value: object) -> ExtensionOwner:
    if any(name == source.name for source in SOURCES):
        raise ValueError(f"there is '{name}' already; rename it")
    if not callable(value):
        raise TypeError(f"{value!r} is no function of procfs and settings that returns a collector")
    return ExtensionOwner(name, cast(Any, value))


class _NoCollector(NodeCollector):
    """Stands for a collector that could not be made."""

    def workload_of(self, pid: int) -> Workload | None:
        """Know no process."""
        del pid
        return None


class GuardedCollector(NodeCollector):
    """Collector of another package; its exceptions are outcomes, and its answers are checked."""

    def __init__(self, owner: ExtensionOwner, procfs: Path, settings: OwnerSettings) -> None:
        self.name = owner.name
        self._failures: dict[str, str] = {}
        """By the call that failed last."""
        self._seconds = 0.0
        nothing: NodeCollector = _NoCollector()
        self._collector = self._answer(
            "start", lambda: owner.collector_of(procfs, settings), nothing
        )

    def workload_of(self, pid: int) -> Workload | None:
        """Workload that a process belongs to; `None` if unknown, or at a fault."""

        def ask() -> Workload | None:
            answer: Any = self._collector.workload_of(pid)
            if answer is None or isinstance(answer, Workload):
                return answer
            raise TypeError(f"workload_of({pid}) is no Workload: {answer!r}")

        return self._answer("workload_of", ask, None)

    def allocations(self) -> Allocations:
        """Devices allocated by a scheduler; empty at a fault."""
        return self._answer(
            "allocations", lambda: dict(self._collector.allocations()), _NO_ALLOCATIONS
        )

    def generation(self) -> int:
        """Incremented when former answers become invalid."""
        return self._answer("generation", lambda: int(self._collector.generation()), 0)

    def outcomes(self) -> Mapping[str, CollectorOutcome]:
        """Outcome of its last calls, and those of its own server."""
        servers = self._answer("outcomes", lambda: dict(self._collector.outcomes()), _NO_OUTCOMES)
        failure = next(iter(self._failures.values()), None)
        return {**servers, self.name: CollectorOutcome(failure is None, self._seconds, failure)}

    def close(self) -> None:
        """Stop its thread, if there is one."""
        self._answer("close", self._collector.close, None)

    def _answer(self, call: str, ask: Callable[[], _Answer], otherwise: _Answer) -> _Answer:
        began = time.perf_counter()
        try:
            answer = ask()
        except Exception as error:  # noqa: BLE001 - of code that is not ours.
            self._failures[call] = f"{type(error).__name__}: {error}"
            return otherwise
        self._failures.pop(call, None)
        self._seconds = time.perf_counter() - began
        return answer
