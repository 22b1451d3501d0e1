"""What one job did with its GPUs on this node, from the history, for whoever started it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rightsizer.accounting.builder import WindowBuilder
from rightsizer.accounting.history import History, Tenure
from rightsizer.domain.advice import Advice
from rightsizer.domain.errors import HistoryError
from rightsizer.domain.state import Cause, Resource
from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.domain.window import Window
from rightsizer.runtime.settings import Settings
from rightsizer.runtime.storage import Storage

__all__ = ["JobDevice", "JobReport", "job_report"]

_ROWS_SINCE: Final[Nanoseconds] = 3600 * 10**9
"""An old window is a whole hour, which may have begun before the job did."""


@dataclass(frozen=True, slots=True)
class JobDevice:
    """A GPU, or an instance of one, that the job held."""

    uuid: str
    name: str
    memory_total_bytes: float | None


@dataclass(frozen=True, slots=True)
class JobReport:
    """Sums over all of the job's GPUs on this node; seconds are those of a GPU."""

    job: str
    """The workload's key, as `slurm:4242`."""
    devices: tuple[JobDevice, ...]
    start: Nanoseconds
    """When it was first seen with a GPU, wall time."""
    end: Nanoseconds
    held_seconds: float
    known_seconds: float
    used_seconds: float
    unused_seconds: Mapping[Cause, float]
    used_joules: float | None
    """`None` where the energy was not measured."""
    unused_joules: float | None
    memory_peak_ratio: float | None
    """Of the fullest GPU; `None` where memory was not read."""
    advice: tuple[Advice, ...]
    """What the recommender says or said of it, the open first."""


def job_report(path: Path, settings: Settings, job: str) -> JobReport:
    """The report on a job.

    Args:
        path: The history.
        settings: The agent's.
        job: The number of a Slurm job, or the key of any workload.

    Raises:
        HistoryError: there is no history, or no such workload in it.
    """
    storage = Storage(str(path), read_only=True)
    try:
        history = storage.history
        if history is None:
            raise HistoryError("no history is kept; set history.path or give --history.path")
        tenures = [each for each in history.tenures() if each.workload in _keys(job)]
        window = _window(history, job, tenures)
        key = window.workload_key or job
        devices = _devices(history, tenures)
        advice = storage.ledger(settings.recommender.ledger).advice()
    finally:
        storage.close()
    measures_energy = window.energy_joules > 0.0
    return JobReport(
        job=key,
        devices=devices,
        start=min((each.since for each in tenures), default=window.start),
        end=window.end,
        held_seconds=seconds(window.accounted),
        known_seconds=window.known_seconds,
        used_seconds=window.used_seconds,
        unused_seconds=dict(window.waste_seconds),
        used_joules=window.used_joules if measures_energy else None,
        unused_joules=sum(window.waste_joules.values()) if measures_energy else None,
        memory_peak_ratio=_peak(window, Resource.MEMORY),
        advice=tuple(each for each in advice if each.finding.workload == key),
    )


def _keys(job: str) -> tuple[str, ...]:
    """The keys that a job may have; on a simulated node they are of another form."""
    return job, f"slurm:{job}", f"slurm/{job}"


def _window(history: History, job: str, tenures: Iterable[Tenure]) -> Window:
    since = min((each.since for each in tenures), default=_ROWS_SINCE) - _ROWS_SINCE
    builder: WindowBuilder | None = None
    for window in history.load(since):
        if window.workload_key in _keys(job):
            builder = builder or WindowBuilder(window.uuid, keeps_blocks=False)
            builder.merge(window)
    if builder is None or not (found := builder.window()).accounted:
        raise HistoryError(
            f"the history knows no job '{job}'; it held no GPU of this node, or for less than "
            "a reading, or `sources.owners` does not tell jobs"
        )
    return found


def _devices(history: History, tenures: Iterable[Tenure]) -> tuple[JobDevice, ...]:
    held = {each.uuid for each in tenures}
    return tuple(
        JobDevice(each.device.uuid, each.device.name, each.device.memory_total_bytes)
        for each in history.devices()
        if each.device.uuid in held
    )


def _peak(window: Window, resource: Resource) -> float | None:
    histogram = window.demands.get(resource)
    return None if histogram is None else histogram.maximum()
