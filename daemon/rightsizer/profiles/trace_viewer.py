"""Reader of the trace viewer format of TensorFlow, JAX and XLA: `*.trace.json.gz`."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rightsizer.model.profile import Profile, ProfileFormat
from rightsizer.model.units import Nanoseconds
from rightsizer.profiles.json_events import Event, JsonEvents, microseconds
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.reader import ProfileReader
from rightsizer.profiles.recorder import Recorder
from rightsizer.profiles.xplane.reader import GPU_PLANE, WALL_CLOCK, device_note, is_host
from rightsizer.profiles.xplane.recorded_events import (
    is_stream,
    record_host_call,
    record_host_event,
    record_stream_event,
)

_CAP: Final = 1_000_000
"""Limit of the writer, which drops the shortest events beyond."""
_PROCESS: Final = re.compile(rb'"name"\s*:\s*"/(device|host):[A-Za-z]')
_NAMES_MAXIMUM: Final = 100_000


def _read(path: Path, limits: ReadLimits) -> Profile:
    events = JsonEvents(path, limits)
    trace = _Trace(limits)
    for event in events:
        trace.take(event)
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

    def take(self, event: Event) -> None:
        phase = event.get("ph")
        if phase == "M":
            self._name(event)
        elif phase == "X":
            self._complete(event)
        elif event:  # The last event is empty, because of trailing commas.
            self.unread["events that are no spans"] += 1

    def _name(self, event: Event) -> None:
        args = event.get("args")
        if not isinstance(args, Mapping) or len(self._threads) >= _NAMES_MAXIMUM:
            return
        name = str(args.get("name", ""))
        process = str(event.get("pid"))
        if event.get("name") == "process_name" and len(self._processes) < _NAMES_MAXIMUM:
            self._processes[process] = name
            if gpu := GPU_PLANE.match(name):
                self.recorder.device(name, index=int(gpu[1]))
                self._has_gpu = True
        elif event.get("name") == "thread_name":
            self._threads[process, str(event.get("tid"))] = name

    def _complete(self, event: Event) -> None:
        start = microseconds(event.get("ts"))
        duration = microseconds(event.get("dur", 0))
        if start is None or duration is None:
            self.unread["events without times"] += 1
            return
        process = str(event.get("pid"))
        args = event.get("args")
        plane = self._processes.get(process, "")
        line = self._threads.get((process, str(event.get("tid"))), "")
        stats: Mapping[str, Any] = args if isinstance(args, Mapping) else {}
        name = str(event.get("name", ""))
        span = (start, start + duration)
        self.earliest = start if self.earliest is None else min(start, self.earliest)
        unread = ""
        if is_host(plane):
            is_used = record_host_event(self.recorder, name, span, stats)
            if not self._has_gpu:
                key = process, str(event.get("tid"))
                is_used |= record_host_call(
                    self.recorder,
                    self._numbers.setdefault(key, len(self._numbers)),
                    name,
                    span,
                    is_operation="hlo_op" in stats,
                )
            if not is_used:
                unread = "events of the host"
        elif not GPU_PLANE.match(plane):
            unread = "events of TPUs" if "TPU" in plane else "events of other planes"
        elif is_stream(line):
            whole = str(stats.get("long_name", name))
            if not record_stream_event(self.recorder, plane, whole, span, stats, line):
                unread = "events of memory"
        elif line.startswith("Steps"):
            self.recorder.step(name, span, plane)
        else:
            unread = "events of derived lines" if line else "events of unnamed lines"
        if unread:
            self.unread[unread] += 1


TRACE_VIEWER: Final = ProfileReader(
    ProfileFormat.TRACE_VIEWER,
    lambda head: (
        all(mark in head.data for mark in (b'"traceEvents"', b'"process_name"'))
        and _PROCESS.search(head.data) is not None
    ),
    _read,
)
"""`*.trace.json.gz` of the trace viewer: a trace whose processes are planes."""
