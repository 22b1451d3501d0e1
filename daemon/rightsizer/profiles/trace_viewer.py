"""Reader of the trace viewer format of TensorFlow, JAX and XLA: `*.trace.json.gz`."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from rightsizer.model.profile import Profile, ProfileFormat
from rightsizer.model.values import Nanoseconds
from rightsizer.profiles.columns import chosen, ends_of, grouped
from rightsizer.profiles.json_events import JsonEvents, TraceEvent, nanoseconds_of
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.reader import ProfileReader
from rightsizer.profiles.recorder import Recorder
from rightsizer.profiles.timeline import NO_NUMBER, Interval, Numbers
from rightsizer.profiles.xplane.reader import GPU_PLANE, WALL_CLOCK, device_note, is_host
from rightsizer.profiles.xplane.recorded_events import (
    STREAM_STATS,
    StreamMeaning,
    is_stream,
    record_host_call,
    record_host_event,
    record_stream_events,
    stream_meaning,
)

_CAP: Final = 1_000_000
"""Limit of the writer, which drops the shortest events beyond."""
_PROCESS: Final = re.compile(rb'"name"\s*:\s*"/(device|host):[A-Za-z]')
_NAMES_MAXIMUM: Final = 100_000


def _read(path: Path, limits: ReadLimits) -> Profile:
    events = JsonEvents(path, limits)
    trace = _Trace(limits)
    for batch in events.batches():
        trace.take(batch)
    devices = trace.recorder.devices()
    host_steps = trace.recorder.host_steps()
    notes = [device_note(devices, trace.unread)]
    if events.count >= _CAP:
        notes.append("It holds a million events, where its writer stops: the shortest are missing.")
    if events.fault:
        notes.append(f"It is not whole: {events.fault}.")
    return Profile(
        format=ProfileFormat.TRACE_VIEWER,
        source=path.name,
        start=0 if trace.earliest is not None and trace.earliest >= WALL_CLOCK else None,
        devices=devices,
        host_spans=trace.recorder.host_spans(),
        host_steps=host_steps,
        events=events.count,
        unread=dict(trace.unread + trace.recorder.refused + events.unread),
        notes=tuple(notes),
        is_whole=not events.fault,
    )


class _Trace:
    """Events of a trace, classified by the names of their processes and threads."""

    def __init__(self, limits: ReadLimits) -> None:
        self.recorder = Recorder(limits)
        self.unread: Counter[str] = Counter()
        self.earliest: Nanoseconds | None = None
        self._processes: dict[str, str] = {}
        self._threads: dict[tuple[str, str], str] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._has_gpu = False

    def take(self, batch: Sequence[TraceEvent]) -> None:
        """Take events: names first."""
        for event in batch:
            if event.ph == "M":
                self._name(event)
        spans = [event for event in batch if event.ph == "X"]
        # The last event is empty, because of trailing commas.
        others = sum(event.ph not in {"M", "X", None} for event in batch)
        self._count("events that are no spans", others)
        if not spans:
            return
        starts = nanoseconds_of([event.ts for event in spans])
        durations = nanoseconds_of([event.dur for event in spans])
        timed = np.flatnonzero((starts != NO_NUMBER) & (durations != NO_NUMBER))
        self._count("events without times", len(spans) - timed.size)
        starts, ends, spans = chosen(timed, starts, ends_of(starts, durations), spans)
        for thread, rows in grouped([(str(event.pid), str(event.tid)) for event in spans]):
            self._take_thread(thread, *chosen(rows, starts, ends, spans))

    def _name(self, event: TraceEvent) -> None:
        if type(event.args) is not dict or len(self._threads) >= _NAMES_MAXIMUM:
            return
        name = str(event.args.get("name", ""))
        process = str(event.pid)
        if event.name == "process_name" and len(self._processes) < _NAMES_MAXIMUM:
            self._processes[process] = name
            if gpu := GPU_PLANE.match(name):
                self.recorder.device(name, index=int(gpu[1]))
                self._has_gpu = True
        elif event.name == "thread_name":
            self._threads[process, str(event.tid)] = name

    def _take_thread(
        self, thread: tuple[str, str], starts: Numbers, ends: Numbers, events: Sequence[TraceEvent]
    ) -> None:
        """Take events of one thread."""
        earliest = int(starts.min())
        self.earliest = earliest if self.earliest is None else min(earliest, self.earliest)
        plane = self._processes.get(thread[0], "")
        line = self._threads.get(thread, "")
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        names = [event.name or "" for event in events]
        stats = [event.args if type(event.args) is dict else {} for event in events]
        if is_host(plane):
            number = self._numbers.setdefault(thread, len(self._numbers))
            rows = zip(names, spans, stats, strict=True)
            used = sum(self._record_host(number, *row) for row in rows)
            self._count("events of the host", len(events) - used)
        elif not GPU_PLANE.match(plane):
            self._count(
                "events of TPUs" if "TPU" in plane else "events of other planes", len(events)
            )
        elif is_stream(line):
            unused = record_stream_events(
                self.recorder,
                plane,
                line,
                starts,
                ends,
                [stat.get("correlation_id") for stat in stats],
                [*map(_meaning, names, stats)],
            )
            self._count("events of memory", unused)
        elif line.startswith("Steps"):
            for name, span in zip(names, spans, strict=True):
                self.recorder.step(name, span, plane)
        else:
            what = "events of derived lines" if line else "events of unnamed lines"
            self._count(what, len(events))

    def _record_host(
        self, thread: int, name: str, span: Interval, stats: Mapping[str, Any]
    ) -> bool:
        is_used = record_host_event(self.recorder, name, span, stats)
        if not self._has_gpu:
            is_operation = "hlo_op" in stats
            is_used |= record_host_call(
                self.recorder, thread, name, span, is_operation=is_operation
            )
        return is_used

    def _count(self, what: str, count: int) -> None:
        if count:
            self.unread[what] += count


def _meaning(name: str, stats: Mapping[str, Any]) -> StreamMeaning:
    values = tuple(map(stats.get, STREAM_STATS))
    whole = str(stats.get("long_name", name))
    try:
        return stream_meaning(whole, values)
    except TypeError:  # A list or an object is none of them.
        return stream_meaning(whole, tuple(value and str(value) for value in values))


TRACE_VIEWER: Final = ProfileReader(
    ProfileFormat.TRACE_VIEWER,
    lambda head: (
        all(mark in head.data for mark in (b'"traceEvents"', b'"process_name"'))
        and _PROCESS.search(head.data) is not None
    ),
    _read,
)
"""`*.trace.json.gz` of the trace viewer: a trace whose processes are planes."""
