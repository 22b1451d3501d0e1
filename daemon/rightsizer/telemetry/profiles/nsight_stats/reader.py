"""Reader of files of `nsys stats`, and its reports with a time line."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import CopyKind, HostMemory, Profile, ProfileFormat, SpanKind
from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.profiles.names import is_step, range_kind, range_name
from rightsizer.telemetry.profiles.nsight_stats.report import (
    StatsReport,
    StatsRow,
    copy_of,
    header_of,
    is_fill,
    is_operation,
)
from rightsizer.telemetry.profiles.nsight_stats.sums import StatsSums
from rightsizer.telemetry.profiles.nsight_stats.tables import StatsTables, is_notice, titles_in
from rightsizer.telemetry.profiles.nsight_systems.activities import call_name, is_launch, is_wait
from rightsizer.telemetry.profiles.reader import Head, ProfileReader
from rightsizer.telemetry.profiles.recorder import Recorder

_DEVICE: Final = re.compile(r"(.*?)\s*\((\d{1,4})\)")
_MEMORIES: Final[Mapping[str, HostMemory]] = {
    "pageable": HostMemory.PAGEABLE,
    "pinned": HostMemory.PINNED,
    "managed": HostMemory.MANAGED,
}


class StatsTrace:
    """Takes rows of traces and hands them to the recorder."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._devices: dict[str, str] = {}
        self.has_kernels = False
        self.has_calls = False
        self.unread: Counter[str] = Counter()

    def add(self, row: StatsRow) -> None:
        """A row of any trace."""
        start, duration = row.nanoseconds("start"), row.nanoseconds("duration")
        if start is None or duration is None:
            self.unread[f"row of {row.report.value}"] += 1
        elif row.report is StatsReport.RANGE_TRACE:
            self._add_range(row, start, start + duration)
        elif row.report is StatsReport.GPU_TRACE:
            self._add_activity(row, start, start + duration)
        else:
            self._add_call(row, start, start + duration)

    def _add_activity(self, row: StatsRow, start: int, end: int) -> None:
        name, device = row.text("name"), self._device(row.text("device"))
        stream = row.text("strm")
        if copied := copy_of(name):
            kind, memory = copied
            if memory is HostMemory.UNKNOWN:
                memory = _memory_of(kind, row)
            self._recorder.copy(device, stream, start, end, kind, memory, row.bytes("bytes") or 0)
        elif is_fill(name):
            self._recorder.fill(device, stream, start, end, row.bytes("bytes") or 0)
        elif is_operation(name) or not name:
            self.unread["operation that is no kernel, copy or fill"] += 1
        else:
            self.has_kernels = True
            self._recorder.kernel(device, stream, start, end, name, correlation=_correlation(row))

    def _add_call(self, row: StatsRow, start: int, end: int) -> None:
        name, correlation = call_name(row.text("name")), _correlation(row)
        self.has_calls = True
        if is_launch(name) and correlation is not None:
            self._recorder.launch(correlation, start, end)
        elif is_wait(name):
            self._recorder.host_span(SpanKind.SYNCHRONIZATION, name, start, end)
        else:
            self.unread["CUDA call that neither launches nor waits"] += 1

    def _add_range(self, row: StatsRow, start: int, end: int) -> None:
        name = range_name(row.text("name").lstrip(":"))
        if not name:
            self.unread["NVTX range without a name"] += 1
            return
        self._recorder.host_span(range_kind(name), name, start, end)
        if is_step(name):
            self._recorder.step(name, start, end)

    def _device(self, text: str) -> str:
        if text not in self._devices:
            found = _DEVICE.fullmatch(text)
            key = found[2] if found else text or "0"
            name = found[1] if found else text
            self._recorder.device(key, index=int(found[2]) if found else None, name=name)
            self._devices[text] = key
        return self._devices[text]


def _memory_of(kind: CopyKind, row: StatsRow) -> HostMemory:
    column = {CopyKind.HOST_TO_DEVICE: "srcmemkd", CopyKind.DEVICE_TO_HOST: "dstmemkd"}.get(kind)
    said = row.text(column).lower() if column else ""
    return _MEMORIES.get(said, HostMemory.UNKNOWN)


def _correlation(row: StatsRow) -> int | None:
    number = row.number("corrid")
    return None if number is None else int(number)


_TRACES: Final = frozenset({StatsReport.GPU_TRACE, StatsReport.CALL_TRACE, StatsReport.RANGE_TRACE})
_KEY_MARKS: Final = ('"Total Time (', '"Total (', '"CorrId"', '"Duration (')


def recognizes(head: Head) -> bool:
    """Whether one of the reports' headers, or a line that only `nsys stats` writes, is in it."""
    if head.is_folder or b"\0" in head.data:
        return False
    text = head.data.decode("utf-8", "replace").lstrip("\ufeff")
    for line in text.splitlines():
        found = header_of(titles_in(line))
        if is_notice(line) or (found is not None and found.report is not StatsReport.OTHER):
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
            elif row.report is StatsReport.OTHER:
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
