"""Reader of TensorFlow, JAX and XLA profiles (`*.xplane.pb`), plane by plane."""

import os
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, cast

import numpy as np

from rightsizer.io.protobuf import LENGTH, ProtobufError
from rightsizer.model.profile import DeviceProfile, Profile, ProfileFormat
from rightsizer.model.values import Nanoseconds, ProfileError
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.printed_text import plain_words
from rightsizer.profiles.reader import ProfileReader, open_unpacked
from rightsizer.profiles.recorder import Recorder
from rightsizer.profiles.xplane.plane import (
    PROGRAMS,
    SPACE_ERRORS,
    SPACE_HOSTS,
    SPACE_PLANES,
    SPACE_WARNINGS,
    FileWindow,
    PlaneEvents,
    XPlane,
    XPlaneLine,
    key_bytes,
    read_plane,
    scan,
)
from rightsizer.profiles.xplane.recorded_events import (
    HOST_STATS,
    STREAM_STATS,
    StreamMeaning,
    is_host_call,
    is_host_event_of_use,
    is_stream,
    record_host_call,
    record_host_event,
    record_stream_events,
    stream_meaning,
)

GPU_PLANE: Final = re.compile(r"^/device:GPU:(\d{1,6})$")
WALL_CLOCK: Final = 10**18
"""A time in 2001: clocks that count from the epoch are later, others are earlier."""
_TPU_PLANE: Final = re.compile(r"^/device:TPU:\d+")
_MESSAGE_BYTES: Final = 2000
_MESSAGES_SHOWN: Final = 3
_ALWAYS: Final = frozenset({"correlation_id", "step_num"})
"""Stats that make any event of the host worth decoding."""
_OPERATION: Final = frozenset({"hlo_op"})
"""Statistics of XLA operations on a CPU."""
_NOTHING: Final = rb"(?!)"
"""Matches nothing."""
_PIECE_BYTES: Final = 1 << 20
_BEGINNING: Final = re.compile(
    # A plane, its length, optional id, and its name with length.
    rb"^\x0a[\x80-\xff]{0,9}[\x00-\x7f](\x08[\x80-\xff]{0,9}[\x00-\x7f])?"
    rb"\x12[\x01-\x7f](/host:|/device:|Task Environment|#)"
)


class SpaceReader:
    """Reader of one `XSpace`."""

    def __init__(self, window: FileWindow, limits: ReadLimits) -> None:
        self._window = window
        self._limits = limits
        self.recorder = Recorder(limits)
        self.unread: Counter[str] = Counter()
        self.events = 0
        self.planes: Counter[str] = Counter()
        """By kind: `GPU`, `TPU`, `host`."""
        self.idle_gpus = 0
        self._hosts: list[XPlane] = []
        self._threads = 0
        self.messages: list[str] = []
        self._profile_start: Nanoseconds | None = None
        self._earliest: Nanoseconds | None = None

    @property
    def start(self) -> Nanoseconds | None:
        """Wall time of time 0."""
        if self._earliest is not None and self._earliest >= WALL_CLOCK:
            return 0  # Its events have wall time.
        return self._profile_start

    def read(self) -> None:
        """Read all planes; raises `ProtobufError` if the file is cut or no `XSpace`."""
        said = {SPACE_ERRORS: "an error", SPACE_WARNINGS: "a warning"}
        for number, wire_type, low, high in scan(self._window, 0, self._window.size):
            if number == SPACE_PLANES and wire_type == LENGTH:
                self._plane(read_plane(self._window, (low, high), self._limits, self.unread))
            elif number in said and wire_type == LENGTH:
                self._message(said[number], low, high)
            elif number != SPACE_HOSTS:  # Host names are not read.
                self.unread["unknown fields"] += 1
        if not self.planes["GPU"] and self.recorder.has_steps:
            for plane in self._hosts:
                self._host_calls(plane)

    def _plane(self, plane: XPlane) -> None:
        if gpu := GPU_PLANE.match(plane.name):
            self.planes["GPU"] += 1
            self._gpu(plane, int(gpu[1]))
        elif is_host(plane.name):
            self._host(plane)
        elif plane.name == "Task Environment":
            started = plane.stats().get("profile_start_time")
            if isinstance(started, int) and started > 0:
                self._profile_start = started
        elif _TPU_PLANE.match(plane.name):
            self.planes["TPU"] += 1
            self._pass_over(plane, plane.lines(), "events of TPUs")
        else:
            self._pass_over(plane, plane.lines(), "events of other planes")

    def _gpu(self, plane: XPlane, index: int) -> None:
        self.planes[plane.name] += 1
        same = self.planes[plane.name]
        key = plane.name if same == 1 else f"{plane.name} ({same})"
        wanted = plane.stat_ids(frozenset(STREAM_STATS) | _ALWAYS)
        is_idle = True
        for line in plane.lines():
            is_idle = False
            if is_stream(line.name) or line.name == "Steps":
                self._device_line(plane, key, line, wanted)
            else:
                self._pass_over(plane, [line], "events of derived lines")
        self.idle_gpus += is_idle
        facts = (plane.stats().get(name) for name in ("memory_size", "core_count"))
        memory, cores = (fact if isinstance(fact, int) and fact > 0 else None for fact in facts)
        self.recorder.device(key, index=index, memory_bytes=memory, multiprocessors=cores)

    def _device_line(
        self, plane: XPlane, key: str, line: XPlaneLine, wanted: frozenset[int]
    ) -> None:
        for events in plane.events(line):
            self._take(events)
            names = [plane.event_names.get(key, "") for key in events.keys.tolist()]
            if line.name == "Steps":
                spans = zip(events.starts.tolist(), events.ends.tolist(), strict=True)
                for name, span in zip(names, spans, strict=True):
                    self.recorder.step(name, span, key)
                continue
            correlations: list[object] = []
            meanings: list[StreamMeaning] = []
            for name, rest in zip(names, events.rests, strict=True):
                correlation, others = plane.correlated(rest)
                stats = plane.values(others, wanted)
                correlations.append(stats.get("correlation_id", correlation))
                meanings.append(stream_meaning(name, tuple(map(stats.get, STREAM_STATS))))
            self.unread["events of memory"] += record_stream_events(
                self.recorder, key, line.name, events.starts, events.ends, correlations, meanings
            )

    def _host(self, plane: XPlane) -> None:
        self.planes["host"] += 1
        self._hosts.append(plane)
        wanted = plane.stat_ids(HOST_STATS)
        is_marked = _marked_with(plane, _ALWAYS)
        named = frozenset(
            key for key, name in plane.event_names.items() if is_host_event_of_use(name)
        )
        for line in plane.lines():
            for events in plane.events(line, named, is_marked):
                self._take(events)
                self._host_events(plane, events, wanted)
                self._count_unread(events.passed, "events of the host")

    def _host_events(self, plane: XPlane, events: PlaneEvents, wanted: frozenset[int]) -> None:
        launches: list[tuple[int, int]] = []
        for row, (key, rest) in enumerate(zip(events.keys.tolist(), events.rests, strict=True)):
            name = plane.event_names.get(key, "")
            correlation, others = plane.correlated(rest)
            stats = plane.values(others, wanted)
            if correlation is not None:
                launches.append((row, correlation))
            if stats or correlation is None or is_host_event_of_use(name):
                span = int(events.starts[row]), int(events.ends[row])
                is_used = record_host_event(self.recorder, name, span, stats)
                self.unread["events of the host"] += not (is_used or correlation is not None)
        rows, correlations = np.array(launches, np.int64).reshape(-1, 2).T
        starts = events.starts[rows]
        ends = events.ends[rows]
        self.recorder.launches(correlations, starts, ends, np.full(rows.size, -1))

    def _host_calls(self, plane: XPlane) -> None:
        """Read its threads again for their calls, if there are only host steps."""
        operations = plane.stat_ids(_OPERATION)
        is_marked = _marked_with(plane, _OPERATION)
        named = frozenset(key for key, name in plane.event_names.items() if is_host_call(name))
        for line in plane.lines():
            self._threads += 1
            for events in plane.events(line, named, is_marked):
                spans = zip(events.starts.tolist(), events.ends.tolist(), strict=True)
                for key, span, rest in zip(events.keys.tolist(), spans, events.rests, strict=True):
                    self.unread["events of the host"] -= record_host_call(
                        self.recorder,
                        self._threads,
                        plane.event_names.get(key, ""),
                        span,
                        is_operation=bool(plane.values(rest, operations)),
                    )

    def _take(self, events: PlaneEvents) -> None:
        """Count events."""
        self._count(events.keys.size + events.sums)
        if events.sums:
            self.unread["sums of events, without times"] += events.sums
        if events.keys.size:
            earliest = int(events.starts.min())
            self._earliest = earliest if self._earliest is None else min(earliest, self._earliest)

    def _pass_over(self, plane: XPlane, lines: Iterable[XPlaneLine], what: str) -> None:
        for line in lines:
            self._count_unread(plane.count(line), what)

    def _count_unread(self, count: int, what: str) -> None:
        if count:
            self.unread[what] += count
            self._count(count)

    def _count(self, count: int = 1) -> None:
        self.events += count
        self._limits.check_events(self.events)

    def _message(self, what: str, low: int, high: int) -> None:
        self.unread["messages of the profiler"] += 1
        if len(self.messages) < _MESSAGES_SHOWN:
            text = self._window.slice(low, min(high, low + _MESSAGE_BYTES))
            shown = plain_words(text.decode("utf-8", "replace"))
            self.messages.append(f"The profiler reported {what}: {shown}")


def _marked_with(
    plane: XPlane, names: frozenset[str]
) -> Callable[[bytes], Iterator[re.Match[bytes]]]:
    """Return a fast search of encoded events for stats with these names."""
    keys = [re.escape(key_bytes(key)) for key in plane.stat_ids(names)]
    return re.compile(b"|".join(keys) or _NOTHING).finditer


def is_host(plane: str) -> bool:
    """Whether a plane has host threads: all of them, or those one tracer saw."""
    return plane.startswith("/host:") and plane != PROGRAMS


def _read(path: Path, limits: ReadLimits) -> Profile:
    try:
        with _seekable(path, limits) as file:
            size = file.seek(0, os.SEEK_END)
            limits.check_size(size)
            space = SpaceReader(FileWindow(file, size), limits)
            space.read()
    except ProtobufError as error:
        raise ProfileError(
            f"byte {error.at}: its protocol buffer is broken: {error}; wait until the profiler has "
            "written it, or copy it again"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise ProfileError(f"{reason} while it was read; copy it to another disk") from error
    return _profile(path, space)


def _profile(path: Path, space: SpaceReader) -> Profile:
    devices = space.recorder.devices()
    host_steps = space.recorder.host_steps()
    notes = list(space.messages)
    if space.idle_gpus:
        notes.append(f"{space.idle_gpus} of its {space.planes['GPU']} GPUs did nothing.")
    if space.planes["TPU"]:
        notes.append(f"It has {space.planes['TPU']} TPU planes, which are counted and not read.")
    notes.append(device_note(devices, space.unread))
    return Profile(
        format=ProfileFormat.XPLANE,
        source=path.name,
        start=space.start,
        devices=devices,
        host_spans=space.recorder.host_spans(),
        host_steps=host_steps,
        events=space.events,
        unread=dict(space.unread + space.recorder.refused),
        notes=tuple(notes),
    )


def device_note(devices: Iterable[DeviceProfile], unread: Mapping[str, int]) -> str:
    """Return the limitation of a profile of XLA."""
    if any(device.time for device in devices):
        return "XLA does not write which GPU it is, only its size."
    if any("TPU" in note for note in unread):
        return "There is no kernel of a GPU in it: TPUs worked, and GPUs alone are judged."
    return "There is no kernel of a GPU in it: the host alone was recorded, or no GPU worked."


@contextmanager
def _seekable(path: Path, limits: ReadLimits) -> Iterator[BinaryIO]:
    """Yield the file unpacked on disk, since it is read several times."""
    with tempfile.TemporaryFile() as unpacked_file:
        with open_unpacked(path, limits) as unpacked:
            is_packed = unpacked.is_packed
            while is_packed and (piece := unpacked.read(_PIECE_BYTES)):
                unpacked_file.write(piece)
        if is_packed:
            yield cast(BinaryIO, unpacked_file)
            return
    with path.open("rb") as file:
        yield file


XPLANE: Final = ProfileReader(
    ProfileFormat.XPLANE, lambda head: _BEGINNING.match(head.data) is not None, _read
)
"""`*.xplane.pb`, which begins with a plane."""
