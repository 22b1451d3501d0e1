"""Profiles beside what a history says of the same GPUs and the same time."""

from collections.abc import Sequence
from pathlib import Path

from rightsizer.advice.comparison_settings import ComparisonSettings
from rightsizer.advice.profile_join import Join, join
from rightsizer.domain.errors import HistoryError
from rightsizer.runtime.profile_telemetry import HistoryTelemetry
from rightsizer.runtime.profiled_workload import ProfiledWorkload
from rightsizer.runtime.storage import Storage

__all__ = ["joined_with_history"]


def joined_with_history(
    path: Path, workloads: Sequence[ProfiledWorkload], settings: ComparisonSettings
) -> tuple[Join, ...]:
    """Each workload's profiles beside a history, which stays as it is.

    Args:
        path: The history; an agent may be writing it.
        workloads: What was read and judged.
        settings: From when on figures contradict each other.

    Raises:
        HistoryError: there is no history, or it cannot be read.
    """
    storage = Storage(str(path), read_only=True)
    try:
        if storage.history is None:
            raise HistoryError("no history is kept; name one with --history.path")
        telemetry = HistoryTelemetry(storage.history)
        return tuple(
            join(each.profiles, telemetry.devices, telemetry, settings) for each in workloads
        )
    finally:
        storage.close()
