"""Profilers' files, judged, compared with earlier ones, and joined with telemetry."""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from pathlib import Path

from msgspec import Struct

from rightsizer.advice.storage import Storage
from rightsizer.host.settings import PathSettings
from rightsizer.model.values import HistoryError
from rightsizer.profiler.join import ProfileJoin, join
from rightsizer.profiler.settings import ProfileComparisonSettings, ProfileSettings
from rightsizer.profiler.taken_profile import history_telemetry, weighed
from rightsizer.profiler.workload import ProfileAnswer, ProfiledWorkload, judged_workloads
from rightsizer.profiles.registry import read_files


class ProfileAnswerSettings(Struct, frozen=True):
    """Sections for answers about profiles."""

    profiles: ProfileSettings = ProfileSettings()
    path: PathSettings = PathSettings()


def profile_files(
    files: Iterable[Path],
    against: Iterable[Path] = (),
    history: Path | None = None,
    *,
    settings: ProfileAnswerSettings,
    flush: Callable[[PathSettings], object] = lambda _: None,
) -> ProfileAnswer:
    """Read and judge files and folders; `flush` brings the history of a running agent up to date.

    Raises:
        ProfileError: a named file cannot be read, or no file of a folder can.
        HistoryError: the history cannot be read.
        UsageError: the numbers of earlier and later workloads differ.
    """
    limits = settings.profiles.read_limits
    judges = settings.profiles.judges
    later = read_files(files, limits)
    earlier = read_files(against, limits)
    workloads = judged_workloads(later.profiles, judges)
    joins: tuple[ProfileJoin, ...] = ()
    if history is not None:
        flush(settings.path)
        comparison = settings.profiles.comparison
        joins = _joined(history, workloads, comparison)
        workloads = tuple(map(weighed, workloads, joins, repeat(comparison)))
    return ProfileAnswer(
        workloads,
        judged_workloads(earlier.profiles, judges),
        (*later.broken, *earlier.broken),
        joins,
    )


def _joined(
    path: Path, workloads: Sequence[ProfiledWorkload], comparison: ProfileComparisonSettings
) -> tuple[ProfileJoin, ...]:
    """Join each workload's profiles with a history, which is only read."""
    storage = Storage(str(path), read_only=True)
    try:
        if storage.history is None:
            raise HistoryError("no history is kept; name one with --history.path")
        devices, telemetry = history_telemetry(storage.history)
        return tuple(
            join(workload.profiles, devices, telemetry, comparison) for workload in workloads
        )
    finally:
        storage.close()
