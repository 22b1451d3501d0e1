"""Command `rightsizer job-report`: GPU use of one job, for the end of its output."""

import argparse
import platform
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from msgspec import Struct

from rightsizer.accounting.history import HistoryRepository, HolderPeriod
from rightsizer.accounting.window_builder import WindowBuilder
from rightsizer.advice.storage import Storage
from rightsizer.agent.settings import Settings
from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command, help_of
from rightsizer.console.flags import (
    add_config_flag,
    add_history_flag,
    history_path,
    settings_of,
    write_up_to_now,
)
from rightsizer.model.values import (
    GIB,
    HOUR_SECONDS,
    JOULES_PER_KILOWATT_HOUR,
    Cause,
    HistoryError,
    Nanoseconds,
    Resource,
    Window,
    format_duration,
    percent_text,
    seconds,
)
from rightsizer.report.advice_document import AdviceDocument, advice_document
from rightsizer.report.blocks import Block, KeyValues, bars, section
from rightsizer.report.labels import CAUSE_LABELS

_HELP: Final = help_of(__file__)
_ROWS_SINCE: Final[Nanoseconds] = 3600 * 10**9
"""Old windows are whole hours, which may begin before the job."""
_LEAST_SECONDS: Final = 60.0
"""Known time below which shares are not representative."""
_LEAST_SHARE: Final = 0.1
"""Share of a loss below which no advice is given, since sums of trifles teach little."""
_LISTED_SHARE: Final = 0.01
_ROOMY_MEMORY: Final = 0.5
_LESSONS: Final = dict(line.split(": ", 1) for line in _HELP["lessons"].splitlines())
"""By cause."""


class JobDevice(Struct, frozen=True):
    """A GPU or an instance that the job held."""

    uuid: str
    name: str
    memory_total_bytes: float | None


class JobUsageReport(Struct, frozen=True):
    """Sums over the job's GPUs on this node; seconds of use are GPU-seconds."""

    job: str
    """Key of the workload, such as `slurm:4242`."""
    devices: tuple[JobDevice, ...]
    start: float
    """Wall time in seconds when it was first seen with a GPU."""
    end: float
    held_seconds: float
    known_seconds: float
    used_seconds: float
    unused_seconds: Mapping[Cause, float]
    used_joules: float | None
    """`None` if energy was not measured."""
    unused_joules: float | None
    memory_peak_ratio: float | None
    """Of the fullest GPU; `None` if memory was not measured."""
    advice: tuple[AdviceDocument, ...]
    """Advice on the job, open first."""


def job_report(path: Path, settings: Settings, job: str) -> JobUsageReport:
    """Return the report of a job, by Slurm job number or workload key.

    Raises:
        HistoryError: there is no history, or it lacks the workload.
    """
    with closing(Storage(str(path), read_only=True)) as storage:
        history = storage.kept_history
        tenures = [tenure for tenure in history.tenures() if tenure.workload in _keys(job)]
        window = _window(history, job, tenures)
        key = window.workload_key or job
        held = {tenure.uuid for tenure in tenures}
        held_devices = (device.device for device in history.devices() if device.device.uuid in held)
        devices = tuple(
            JobDevice(device.uuid, device.name, device.memory_total_bytes)
            for device in held_devices
        )
        advice = storage.ledger(settings.recommender.ledger).advice()
    measures_energy = window.energy_joules > 0.0
    memory = window.demands.get(Resource.MEMORY)
    return JobUsageReport(
        job=key,
        devices=devices,
        start=seconds(min((tenure.since for tenure in tenures), default=window.start)),
        end=seconds(window.end),
        held_seconds=seconds(window.accounted),
        known_seconds=window.known_seconds,
        used_seconds=window.used_seconds,
        unused_seconds=dict(window.waste_seconds),
        used_joules=window.used_joules if measures_energy else None,
        unused_joules=sum(window.waste_joules.values()) if measures_energy else None,
        memory_peak_ratio=None if memory is None else memory.maximum(),
        advice=tuple(
            advice_document(recommendation)
            for recommendation in advice
            if recommendation.finding.workload == key
        ),
    )


def _keys(job: str) -> tuple[str, ...]:
    """Return the possible keys of a job; simulated nodes use another form."""
    return job, f"slurm:{job}", f"slurm/{job}"


def _window(history: HistoryRepository, job: str, tenures: Iterable[HolderPeriod]) -> Window:
    since = min((tenure.since for tenure in tenures), default=_ROWS_SINCE) - _ROWS_SINCE
    builder: WindowBuilder | None = None
    for window in history.load(since):
        if window.workload_key in _keys(job):
            builder = builder or WindowBuilder(window.uuid, keeps_blocks=False)
            builder.merge(window)
    if builder is None or not (job_window := builder.window()).accounted:
        why = "it held no GPU of this node, or for less than a reading"
        owners = "`sources.owners` does not tell jobs"
        raise HistoryError(f"the history knows no job '{job}'; {why}, or {owners}")
    return job_window


def job_report_blocks(report: JobUsageReport, node: str) -> Iterator[Block]:
    """Yield the report of a job: a dozen lines."""
    job = report.job
    title = f"job {job[len('slurm:') :]}" if job.startswith(("slurm:", "slurm/")) else job
    known_seconds = report.known_seconds
    parts: tuple[Block, ...] = ("Too little of it was seen to say more.",)
    if known_seconds >= _LEAST_SECONDS:
        causes = ((CAUSE_LABELS[cause], lost / known_seconds) for cause, lost in _by_size(report))
        shares = tuple((label, share) for label, share in causes if share >= _LISTED_SHARE)
        parts = (bars(shares), f"Advice: {_advice(report)}")
    yield section(f"GPU use of {title} on {node}", KeyValues(tuple(_facts(report))), *parts)


def _facts(report: JobUsageReport) -> Iterator[tuple[str, str]]:
    names = Counter(device.name or "unknown" for device in report.devices)
    counts = ", ".join(f"{count} x {name}" for name, count in names.items())
    length = format_duration(report.end - report.start)
    yield "GPUs", counts or "unknown"
    yield "held", f"{length}, {report.held_seconds / HOUR_SECONDS:.2f} GPU-hours"
    known_seconds = report.known_seconds
    if known_seconds < _LEAST_SECONDS:
        return
    unused = sum(report.unused_seconds.values())
    for word, part_seconds, joules in (
        ("used", report.used_seconds, report.used_joules),
        ("unused", unused, report.unused_joules),
    ):
        energy = "" if joules is None else f", {joules / JOULES_PER_KILOWATT_HOUR:.2f} kWh"
        hours = f"{part_seconds / HOUR_SECONDS:.2f} GPU-hours"
        yield word, f"{percent_text(part_seconds / known_seconds)}, {hours}{energy}"
    if (peak := report.memory_peak_ratio) is not None:
        totals = {device.memory_total_bytes for device in report.devices}
        sizes = ""
        if len(totals) == 1 and (total := totals.pop()) is not None:
            sizes = f" ({peak * total / GIB:.1f} of {total / GIB:.0f} GiB)"
        yield "memory", f"at most {percent_text(peak)} of a GPU{sizes}"


def _by_size(report: JobUsageReport) -> list[tuple[Cause, float]]:
    return sorted(report.unused_seconds.items(), key=lambda part: -part[1])


def _advice(report: JobUsageReport) -> str:
    """Return the recommender's advice, else the lesson of the largest loss."""
    if report.advice:
        return report.advice[0].summary
    for cause, lost in _by_size(report):
        if lost >= _LEAST_SHARE * report.known_seconds and cause in _LESSONS:
            return _LESSONS[cause]
    headroom = report.unused_seconds.get(Cause.HEADROOM, 0.0)
    peak = report.memory_peak_ratio
    has_room = headroom >= _LEAST_SHARE * report.known_seconds
    if has_room and peak is not None and peak < _ROOMY_MEMORY:
        return (
            "The GPUs had work and room left, in memory too: larger batches may finish sooner; if "
            "not, a smaller GPU or a MIG instance would do."
        )
    return "Nothing to do: no large part went unused for one reason."


def _configure(parser: argparse.ArgumentParser) -> None:
    job = "number of a Slurm job, or the key of any workload, as /api/v1 has it"
    parser.add_argument("job", help=job)
    add_format_flag(parser, "base units")
    add_history_flag(parser)
    add_config_flag(parser)


def _run(arguments: argparse.Namespace) -> int:
    settings = settings_of(arguments, Settings)
    path = history_path(arguments, settings.history)
    write_up_to_now(settings.path)
    report = job_report(path, settings, arguments.job)
    node = platform.node()
    show(arguments, f"Job on {node}", report, job_report_blocks(report, node))
    return 0


COMMAND = Command("job-report", _configure, _run, _HELP["description"])
