"""A job's report as text: short enough to be read at the end of the job's output."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from rightsizer.domain.state import Cause
from rightsizer.domain.units import format_duration, seconds
from rightsizer.publish.report.amount import JOULES_PER_KILOWATT_HOUR
from rightsizer.publish.report.words import CAUSES
from rightsizer.runtime.job_report import JobReport

__all__ = ["job_report_text"]

_LEAST_SECONDS: Final = 60.0
"""Of known time; below, shares say more of the moment than of the job."""
_LEAST_SHARE: Final = 0.1
"""What is lost to a cause before anything is said of it; sums of trifles are no lesson."""
_LISTED_SHARE: Final = 0.01
_ROOMY_MEMORY: Final = 0.5
_SECONDS_PER_HOUR: Final = 3600.0
_GIBIBYTE: Final = 2.0**30

_LESSONS: Final[Mapping[Cause, str]] = {
    Cause.IDLE: "The GPUs waited for the job: ask for them when they are needed, end the job when "
    "its work is done, or do what needs no GPU in a job of its own.",
    Cause.STALLED: "The GPUs looked busy and computed nothing, as when a collective waits for a "
    "rank that is gone: set a timeout for collectives, and look for the rank that was late.",
    Cause.HOST: "The GPUs waited for the CPU: ask for more cores for each GPU, and prepare batches "
    "in more workers.",
    Cause.STORAGE: "The GPUs waited for storage: copy the input to a local disk first, read ahead, "
    "and write checkpoints in the background.",
    Cause.PCIE: "The GPUs waited for transfers: keep data on the GPU, pin host memory, and copy "
    "while kernels run.",
    Cause.LAUNCH: "Kernels were too small to fill the GPUs: use larger batches, or CUDA graphs.",
    Cause.THROTTLED: "The GPUs were held down by power or heat, which is not the job's doing: tell "
    "whoever runs the cluster.",
}


def job_report_text(report: JobReport, node: str) -> str:
    """The report in a dozen lines.

    Args:
        report: Of one job, on one node.
        node: What the node is called.
    """
    return "\n".join([f"GPU use of {_title(report.job)} on {node}", *_lines(report)])


def _lines(report: JobReport) -> Iterator[str]:
    yield f"  GPUs    {_devices(report)}"
    yield (
        f"  held    {format_duration(seconds(report.end - report.start))}, "
        f"{_hours(report.held_seconds)}"
    )
    if report.known_seconds < _LEAST_SECONDS:
        yield "  Too little of it was seen to say more."
        return
    unused = sum(report.unused_seconds.values())
    yield f"  used    {_part(report, report.used_seconds, report.used_joules)}"
    yield f"  unused  {_part(report, unused, report.unused_joules)}"
    for cause, lost in _by_size(report):
        if lost >= _LISTED_SHARE * report.known_seconds:
            yield f"    {lost / report.known_seconds:4.0%} {CAUSES[cause]}"
    if report.memory_peak_ratio is not None:
        yield f"  memory  {_memory(report, report.memory_peak_ratio)}"
    yield f"  Advice: {_advice(report)}"


def _title(job: str) -> str:
    return f"job {job[len('slurm:') :]}" if job.startswith(("slurm:", "slurm/")) else job


def _devices(report: JobReport) -> str:
    names = Counter(each.name or "unknown" for each in report.devices)
    return ", ".join(f"{count} x {name}" for name, count in names.items()) or "unknown"


def _hours(gpu_seconds: float) -> str:
    return f"{gpu_seconds / _SECONDS_PER_HOUR:.2f} GPU hours"


def _part(report: JobReport, gpu_seconds: float, joules: float | None) -> str:
    energy = "" if joules is None else f", {joules / JOULES_PER_KILOWATT_HOUR:.2f} kWh"
    return f"{gpu_seconds / report.known_seconds:4.0%}, {_hours(gpu_seconds)}{energy}"


def _by_size(report: JobReport) -> list[tuple[Cause, float]]:
    return sorted(report.unused_seconds.items(), key=lambda part: -part[1])


def _memory(report: JobReport, peak: float) -> str:
    totals = {each.memory_total_bytes for each in report.devices}
    text = f"at most {peak:.0%} of a GPU"
    if len(totals) == 1 and (total := totals.pop()) is not None:
        text += f" ({peak * total / _GIBIBYTE:.1f} of {total / _GIBIBYTE:.0f} GiB)"
    return text


def _advice(report: JobReport) -> str:
    """What the recommender has said, which looks closer; else what the largest loss teaches."""
    if report.advice:
        return report.advice[0].finding.summary
    for cause, lost in _by_size(report):
        if lost >= _LEAST_SHARE * report.known_seconds and cause in _LESSONS:
            return _LESSONS[cause]
    if _has_room(report):
        return (
            "The GPUs had work and room left, in memory too: larger batches may finish sooner; if "
            "not, a smaller GPU or a MIG instance would do."
        )
    return "Nothing to do: no large part went unused for one reason."


def _has_room(report: JobReport) -> bool:
    headroom = report.unused_seconds.get(Cause.HEADROOM, 0.0)
    peak = report.memory_peak_ratio
    return (
        headroom >= _LEAST_SHARE * report.known_seconds
        and peak is not None
        and peak < _ROOMY_MEMORY
    )
