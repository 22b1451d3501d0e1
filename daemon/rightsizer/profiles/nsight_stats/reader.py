"""Files of `nsys stats`, whole."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rightsizer.domain.errors import ProfileError
from rightsizer.domain.profile import Profile, ProfileFormat
from rightsizer.profiles.nsight_stats.report import Report, header_of
from rightsizer.profiles.nsight_stats.sums import StatsSums
from rightsizer.profiles.nsight_stats.tables import StatsTables, is_notice, titles_in
from rightsizer.profiles.nsight_stats.trace import StatsTrace
from rightsizer.profiles.reader import Head, ProfileReader, ReadLimits
from rightsizer.profiles.recorder import Recorder

__all__ = ["NSIGHT_STATS", "read", "recognizes"]

_TRACES: Final = frozenset({Report.GPU_TRACE, Report.CALL_TRACE, Report.RANGE_TRACE})
_KEY_MARKS: Final = ('"Total Time (', '"Total (', '"CorrId"', '"Duration (')


def recognizes(head: Head) -> bool:
    """Whether one of the reports' headers, or a line that only `nsys stats` writes, is in it."""
    if head.is_folder or b"\0" in head.data:
        return False
    text = head.data.decode("utf-8", "replace").lstrip("\ufeff")
    for line in text.splitlines():
        found = header_of(titles_in(line))
        if is_notice(line) or (found is not None and found.report is not Report.OTHER):
            return True
    plain = text.lstrip()
    return plain.startswith(("[", "{")) and any(mark in plain[:2000] for mark in _KEY_MARKS)


def read(path: Path, limits: ReadLimits) -> Profile:
    """All tables of a file, as one profile.

    Raises:
        ProfileError: no table is in it, or it cannot be read.
    """
    tables, sums = StatsTables(path, limits), StatsSums(limits)
    recorder = Recorder(limits)
    trace = StatsTrace(recorder)
    unread: Counter[str] = Counter()
    try:
        for row in tables.rows():
            if row.report in _TRACES:
                trace.add(row)
            elif row.report is Report.OTHER:
                unread[row.report.value] += 1
            else:
                sums.add(row)
        devices = recorder.devices() or ((sums.device(),) if sums.has_device else ())
    except ProfileError as error:
        said = str(error)
        raise ProfileError(said if said.startswith(path.name) else f"{path.name}: {said}") from None
    if not tables.tables and not tables.skipped:
        raise ProfileError(
            f"{path.name}: no table of `nsys stats` is in it; write one with "
            "`nsys stats --format csv --report cuda_gpu_trace,cuda_api_trace`"
        )
    unread += tables.unread + sums.unread + trace.unread + recorder.refused
    return Profile(
        format=ProfileFormat.NSIGHT_SYSTEMS_STATS,
        source=path.name,
        devices=devices,
        host_spans=(*recorder.host_spans(), *sums.host_spans()),
        events=recorder.events + sums.events + unread.total(),
        unread=dict(unread),
        notes=tuple(_notes(tables, sums, trace)),
    )


def _notes(tables: StatsTables, sums: StatsSums, trace: StatsTrace) -> Iterator[str]:
    if tables.skipped:
        yield f"{tables.skipped} reports were left out by nsys, for they have no data."
    if trace.has_kernels:
        if not trace.has_calls:
            yield (
                "The calls of the host are not in it: why a GPU was idle is not known; "
                "`nsys stats --report cuda_api_trace` has them."
            )
        return
    if sums.has_device:
        yield (
            "Summaries have no time line: how long a GPU was idle and what ran side by side is not "
            "known, and all GPUs are one; `nsys stats --report cuda_gpu_trace` tells them apart."
        )
        if sums.lacks_sizes:
            yield "The sizes of copies are not in it."
        if sums.lacks_times:
            yield "The times of copies are not in it."
    else:
        yield "Nothing that a GPU did is in it."


NSIGHT_STATS: Final = ProfileReader(ProfileFormat.NSIGHT_SYSTEMS_STATS, recognizes, read)
