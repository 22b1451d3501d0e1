"""Reader of `nsys stats` output: reports with a timeline, and summaries without."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec.structs import replace

from rightsizer.model.profile import (
    CopyKind,
    CopyUse,
    DeviceProfile,
    HostMemory,
    HostSpanUse,
    LaunchUse,
    Profile,
    ProfiledDevice,
    ProfileFormat,
    SpanKind,
)
from rightsizer.model.values import ProfileError, seconds
from rightsizer.profiles.columns import chosen, coded, ends_of, grouped, integers
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.names import is_step, is_wait_call, range_kind, range_name, range_names
from rightsizer.profiles.nsight_stats.tables import (
    StatsReport,
    StatsRows,
    StatsTables,
    comma_separated,
    copy_of,
    header_of,
    is_notice,
    titles_in,
)
from rightsizer.profiles.nsight_systems.activities import call_name, is_launch
from rightsizer.profiles.reader import Head, ProfileReader
from rightsizer.profiles.recorder import Recorder
from rightsizer.profiles.tables import CopyTable, HostSpans, KernelTable
from rightsizer.profiles.timeline import NO_NUMBER, Numbers

_KERNEL_REPORTS: Final = (StatsReport.KERNELS, StatsReport.KERNELS_BY_GRID, StatsReport.GPU_SUMS)
"""Reports with the same kernels; the first one present is used."""
_COPY_REPORTS: Final = (StatsReport.COPY_TIMES, StatsReport.GPU_SUMS, StatsReport.COPY_SIZES)
_ALL_DEVICES: Final = ProfiledDevice(key="all")
_Sum: TypeAlias = tuple[int, int, tuple[int, int]]
"""Count, total, and extremes of one name; nanoseconds."""
_MEMORY_COLUMNS: Final = {CopyKind.HOST_TO_DEVICE: "srcmemkd", CopyKind.DEVICE_TO_HOST: "dstmemkd"}
_FILL: Final = "fill"
_KERNEL: Final = "kernel"
_DEVICE: Final = re.compile(r"(.*?)\s*\((\d{1,4})\)")
_TRACES: Final = frozenset({StatsReport.GPU_TRACE, StatsReport.CALL_TRACE, StatsReport.RANGE_TRACE})
_KEY_MARKS: Final = ('"Total Time (', '"Total (', '"CorrId"', '"Duration (')


class StatsSums:
    """Sums over the rows of summaries."""

    def __init__(self, limits: ReadLimits) -> None:
        self._kernels = {report: KernelTable(limits) for report in _KERNEL_REPORTS}
        self._copies = {report: CopyTable() for report in _COPY_REPORTS}
        self._spans = HostSpans(limits)
        self._launches: LaunchUse | None = None
        self._calls_of: StatsReport | None = None
        self.events = 0
        """Rows that were read."""
        self.unread: Counter[str] = Counter()

    @property
    def has_device(self) -> bool:
        """Whether it has anything of a device."""
        return any(self._kernels.values()) or any(self._copies.values())

    def add(self, row: StatsRows) -> None:
        """Add a row of any summary."""
        if self._takes(row):
            self.events += 1
        else:
            self.unread[f"row of {row.report.value}"] += 1

    def device(self) -> DeviceProfile:
        """Return all devices as one, since summaries do not distinguish them."""
        kernels = next((kernel.uses() for kernel in self._kernels.values() if kernel), ())
        return DeviceProfile(
            _ALL_DEVICES, None, kernels, self._joined_copies(), launches=self._launches
        )

    def host_spans(self) -> tuple[HostSpanUse, ...]:
        """Return the host spans, longest first."""
        return self._spans.uses()

    def notes(self) -> Iterator[str]:
        """Yield what is unknown about copies."""
        times, sums, sizes = (bool(self._copies[report]) for report in _COPY_REPORTS)
        if (times or sums) != sizes:
            yield f"The {'times' if sizes else 'sizes'} of copies are not in it."

    def _takes(self, row: StatsRows) -> bool:
        category = row.texts("category")[0].upper()
        row_sum = _sum_of(row)
        match row.report:
            case StatsReport.COPY_TIMES | StatsReport.COPY_SIZES:
                return self._takes_copy(row)
            case StatsReport.GPU_SUMS if category.startswith("MEM"):
                return self._takes_copy(row)
            case StatsReport.GPU_SUMS if category.endswith("API"):
                return self._takes_call(row, row.texts("operation")[0], row_sum)
            case StatsReport.CALLS:
                return self._takes_call(row, row.texts("name")[0], row_sum)
            case StatsReport.RANGES:
                name = range_name(row.texts("range")[0].lstrip(":"))
                return self._takes_span(range_kind(name), name, row_sum)
            case report:
                name = row.texts("operation" if report is StatsReport.GPU_SUMS else "name")[0]
                if row_sum is None or not name:
                    return False
                self._kernels[report].row(name).add_sum(*row_sum)
                return True

    def _takes_copy(self, row: StatsRows) -> bool:
        kind = copy_of(row.texts("operation")[0])
        count = row.numbers("count", "instances")[0]
        if kind is None or count is None or count < 0:
            return False
        size = row.bytes("total")[0] or 0
        time = row.nanoseconds("total time")[0] or 0
        self._copies[row.report].add(*kind, size, time, round(count))
        return True

    def _takes_call(self, row: StatsRows, text: str, row_sum: _Sum | None) -> bool:
        # Two reports have the same calls; the first one present is used.
        self._calls_of = self._calls_of or row.report
        if row_sum is None or row.report is not self._calls_of:
            return False
        name, (count, total, _) = call_name(text), row_sum
        if not is_launch(name):
            return is_wait_call(name) and self._takes_span(SpanKind.SYNCHRONIZATION, name, row_sum)
        launch_use = self._launches or LaunchUse(0, 0.0)
        self._launches = LaunchUse(
            launch_use.count + count, launch_use.host_seconds + seconds(total)
        )
        return True

    def _takes_span(self, kind: SpanKind, name: str, row_sum: _Sum | None) -> bool:
        if row_sum is None or not name:
            return False
        count, total, _ = row_sum
        self._spans.add_sum(kind, name, count, total)
        return True

    def _joined_copies(self) -> tuple[CopyUse, ...]:
        """Return copies with times, and their sizes from the report of sizes."""
        times, sums, sizes = (
            {(use.kind, use.memory): use for use in table.uses()} for table in self._copies.values()
        )
        copies = {**sizes, **(times or sums)}
        joined = (
            replace(use, bytes=sizes[kind].bytes if kind in sizes else None)
            for kind, use in copies.items()
        )
        ranked = sorted(
            joined, key=lambda use: (-use.seconds, -(use.bytes or 0), use.kind, use.memory)
        )
        return tuple(ranked)


def _sum_of(row: StatsRows) -> _Sum | None:
    """Return the sum of a row; `None` for impossible values."""
    count = row.numbers("num calls", "instances")[0]
    total = row.nanoseconds("total time")[0]
    if count is None or total is None or count < 1 or total < 0:
        return None
    ends = (row.nanoseconds(name)[0] for name in ("min", "max"))
    shortest, longest = (round(total / count) if end is None else end for end in ends)
    return round(count), total, (shortest, longest)


class StatsTrace:
    """Recorder of the rows of traces."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._device = cache(self._made_known)
        self.has_kernels = False
        self.has_calls = False
        self.unread: Counter[str] = Counter()

    def add(self, rows: StatsRows) -> None:
        """Add rows of any trace."""
        starts, durations = (integers(rows.nanoseconds(name)) for name in ("start", "duration"))
        timed = np.flatnonzero((starts != NO_NUMBER) & (durations != NO_NUMBER))
        self.unread[f"row of {rows.report.value}"] += starts.size - timed.size
        if not timed.size:
            return
        rows = rows.chosen(timed)
        starts, ends = chosen(timed, starts, ends_of(starts, durations))
        if rows.report is StatsReport.RANGE_TRACE:
            self._add_ranges(rows.texts("name"), starts, ends)
        elif rows.report is StatsReport.GPU_TRACE:
            self._add_activities(rows, starts, ends)
        else:
            self._add_calls(rows, starts, ends)

    def _add_ranges(self, texts: Sequence[str], starts: Numbers, ends: Numbers) -> None:
        names = coded(range_names([text.lstrip(":").encode() for text in texts]))
        named = np.flatnonzero(names.array(bool, bool))
        self.unread["NVTX range without a name"] += len(names) - named.size
        starts, ends, names = chosen(named, starts, ends, names)
        self._recorder.host_spans_of(starts, ends, names.mapped(range_kind), names)
        for row in np.flatnonzero(names.array(is_step, bool)).tolist():
            name = names.values[names.codes[row]]
            self._recorder.step(name, (int(starts[row]), int(ends[row])))

    def _add_calls(self, rows: StatsRows, starts: Numbers, ends: Numbers) -> None:
        self.has_calls = True
        names = coded(rows.texts("name")).mapped(call_name)
        correlations = integers(_correlations(rows))
        may_launch = names.array(is_launch, bool)
        launches = np.flatnonzero(may_launch & (correlations != NO_NUMBER))
        threads = np.full(launches.size, -1)
        self._recorder.launches(*chosen(launches, correlations, starts, ends, threads))
        is_wait = names.array(is_wait_call, bool)
        is_wait[launches] = False
        self._recorder.waits(*chosen(np.flatnonzero(is_wait), starts, ends, names))
        used = launches.size + np.count_nonzero(is_wait)
        self.unread["CUDA call that neither launches nor waits"] += len(names) - int(used)

    def _add_activities(self, rows: StatsRows, starts: Numbers, ends: Numbers) -> None:
        names = coded(rows.texts("name"))
        devices = coded(rows.texts("device")).mapped(self._device)
        for use, group in grouped(names.mapped(_activity)):
            part = rows.chosen(group)
            keys, begins, untils, texts = chosen(group, devices, starts, ends, names)
            if use is None:
                self.unread["operation that is no kernel, copy or fill"] += group.size
            elif use == _FILL:
                self._recorder.fills(keys, begins, untils)
            elif use == _KERNEL:
                self.has_kernels = True
                streams = [""] * group.size
                self._recorder.kernels(keys, begins, untils, _correlations(part), texts, streams)
            else:
                memories = part.texts(_MEMORY_COLUMNS.get(use[0], ""))
                kinds = [(use[0], _memory(use[1], memory.lower())) for memory in memories]
                self._recorder.copies(keys, begins, untils, kinds, part.bytes("bytes"))

    def _made_known(self, text: str) -> str:
        match = _DEVICE.fullmatch(text)
        name, key = match.groups() if match else (text, text or "0")
        self._recorder.device(key, index=int(key) if match else None, name=name)
        return key


@lru_cache(maxsize=4096)
def _activity(name: str) -> Any:
    """Return kinds of copy and memory, `_FILL`, `_KERNEL`, or `None` for anything else."""
    if copied := copy_of(name):
        return copied
    if name.lower() == "[cuda memset]":
        return _FILL
    return _KERNEL if name and not name.startswith("[CUDA ") else None


def _memory(memory: HostMemory, said: str) -> HostMemory:
    is_said = memory is HostMemory.UNKNOWN and said in set(HostMemory)
    return HostMemory(said) if is_said else memory


def _correlations(rows: StatsRows) -> Sequence[int | None]:
    return [None if number is None else int(number) for number in rows.numbers("corrid")]


def recognizes(head: Head) -> bool:
    """Whether the head has a report's header, or a line only `nsys stats` prints."""
    for line in comma_separated(head.text.splitlines()):
        header = header_of(titles_in(line))
        if is_notice(line) or (header is not None and header.report is not StatsReport.OTHER):
            return True
    plain = head.text.lstrip()
    return plain.startswith(("[", "{")) and any(mark in plain[:2000] for mark in _KEY_MARKS)


def read(path: Path, limits: ReadLimits) -> Profile:
    """Read all tables of a file as one profile; raises `ProfileError` if there are none."""
    tables = StatsTables(path, limits)
    sums = StatsSums(limits)
    recorder = Recorder(limits)
    trace = StatsTrace(recorder)
    unread: Counter[str] = Counter()
    for rows in tables.rows():
        if rows.report in _TRACES:
            trace.add(rows)
        elif rows.report is StatsReport.OTHER:
            unread[rows.report.value] += len(rows.columns[0])
        else:
            for row in rows.apart():
                sums.add(row)
    devices = recorder.devices() or ((sums.device(),) if sums.has_device else ())
    if not tables.tables and not tables.skipped:
        raise ProfileError(
            "no table of `nsys stats` is in it; write one with "
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
            "Summaries have no timeline: how long a GPU was idle and what ran side by side is not "
            "known, and all GPUs are one; `nsys stats --report cuda_gpu_trace` tells them apart."
        )
        yield from sums.notes()
    else:
        yield "Nothing that a GPU did is in it."


NSIGHT_STATS: Final = ProfileReader(ProfileFormat.NSIGHT_SYSTEMS_STATS, recognizes, read)
