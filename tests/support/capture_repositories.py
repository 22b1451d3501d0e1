"""Repositories of captures, in memory and on disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from readings import EPOCH
from rightsizer.advice.storage import Storage
from rightsizer.profiler.capture.repository import CaptureOutcome, CaptureRecord, CaptureRepository

__all__ = ["record", "repository_at"]


@contextmanager
def repository_at(path: Path) -> Iterator[CaptureRepository]:
    """A repository in the history at a path, for the life of an agent."""
    storage = Storage(str(path))
    try:
        yield CaptureRepository(storage.database)
    finally:
        storage.close()


def record(
    number: int = 0, outcome: CaptureOutcome = CaptureOutcome.LANDED, **facts: object
) -> CaptureRecord:
    """The n-th capture of a workload."""
    usual: dict[str, object] = {
        "id": f"capture-{number:03}",
        "workload": "slurm/llama",
        "finding": "aaaaaaaaaaaa",
        "reason": "HostBound",
        "devices": ("GPU-0",),
        "started": EPOCH + number * 3600 * 10**9,
        "outcome": outcome,
    }
    return CaptureRecord(**usual | facts)  # type: ignore[arg-type] # Facts are those of a record.
