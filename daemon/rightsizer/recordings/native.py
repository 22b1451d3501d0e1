"""Codec and reader of the agent's own recording format."""

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import cache
from heapq import merge
from operator import attrgetter
from typing import Any, Final

from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import completed
from rightsizer.io.codec import convert, plain
from rightsizer.model.values import (
    CollectorOutcome,
    Device,
    Down,
    Holding,
    Missing,
    Nanoseconds,
    Process,
    ProcessKind,
    Reading,
    RecordingError,
    Refusal,
    Signal,
    Snapshot,
    Workload,
)
from rightsizer.recordings.row import RecordingNotes, RecordingRow
from rightsizer.recordings.survey import IntervalMedian
from rightsizer.recordings.text_file import Progress, RecordingFormat, TextFile, show_read

FORMAT: Final = "rightsizer-recording"
VERSION: Final = 1

_NUMBERS: Final = {signal: number for number, signal in enumerate(Signal)}
_START: Final = f'{{"format":"{FORMAT}"'
_UNREADABLE: Final = (ValueError, KeyError, TypeError, IndexError, AttributeError)
_SHOWN_EVERY: Final = 1 << 8


def header(program: str) -> dict[str, Any]:
    """Return the first line of a recording by this version."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "program": program,
        "signals": [[str(signal), str(signal.unit)] for signal in Signal],
    }


def encode_sections(snapshot: Snapshot) -> dict[str, Any]:
    """Encode everything of a snapshot except times and values."""
    readings = snapshot.readings
    return {
        "interval": snapshot.interval,
        "devices": [
            {name: value for name, value in plain(device).items() if value is not None}
            for device in snapshot.devices
        ],
        "uuids": list(readings),
        "columns": [_encode_columns(reading) for reading in readings.values()],
        "processes": {
            uuid: [_encode_process(process) for process in reading.processes]
            for uuid, reading in readings.items()
            if reading.processes is not None
        },
        "holdings": {
            uuid: [_encode_holding(holding) for holding in holdings]
            for uuid, holdings in snapshot.holdings.items()
        },
        "down": {
            uuid: [down.reason, down.detail, down.cause, down.is_of_driver]
            for uuid, down in snapshot.down.items()
        },
        "host": {str(signal): value for signal, value in snapshot.host.items()},
        "collectors": {
            name: _outcome_row(outcome) for name, outcome in snapshot.collectors.items()
        },
        "trouble": snapshot.trouble,
    }


def _decoded_columns(data: Any, signals: Sequence[Signal | None]) -> Any:
    """Decode the columns of each device; `signals` is the header's table."""
    return [
        (
            [signals[number] for number in present],
            {
                signal: Missing(why)
                for why, numbers in missing.items()
                for number in numbers
                if (signal := signals[number]) is not None
            },
        )
        for present, missing in data
    ]


def _encode_process(process: Process) -> list[Any]:
    """Encode pid and memory; other facts only if known."""
    if process.kind is ProcessKind.COMPUTE and process.gpu_busy is None:
        return [process.pid, process.memory_used_bytes]
    return [process.pid, process.memory_used_bytes, process.kind, process.gpu_busy]


def _decode_process(
    pid: int, memory: int | None, kind: str = ProcessKind.COMPUTE, gpu_busy: float | None = None
) -> Process:
    return Process(pid, memory, ProcessKind(kind), gpu_busy)


def _encode_holding(holding: Holding) -> list[Any]:
    """Encode workload and share; `has_process` only if false."""
    fields = [plain(holding.workload), holding.share_ratio]
    return fields if holding.has_process else [*fields, False]


def _encode_columns(reading: Reading) -> list[Any]:
    missing: dict[str, list[int]] = {}
    for signal, why in reading.missing.items():
        missing.setdefault(why, []).append(_NUMBERS[signal])
    return [[_NUMBERS[signal] for signal in reading.values], missing]


def native_snapshots(text: TextFile, notes: RecordingNotes) -> Iterator[Snapshot]:
    """Yield the snapshots as written; raises `RecordingError` for damage or a newer version."""
    state: _NativeState | None = None
    for number, line in text.lines(notes):
        try:
            data = json.loads(line)
            if state is None:
                state = _NativeState(text, data)
            elif isinstance(data, dict):
                state.update(data)
            else:
                yield state.snapshot(data)
        except _UNREADABLE:
            if not line.endswith("\n"):
                notes.count("torn last line", number)
                return
            raise RecordingError(
                f"{text.name}:{number}: this line of the recording is damaged; "
                "cut the file before it to use what is above"
            ) from None


def _rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    """Yield the readings only, by the wall clock, for recordings with other files."""
    for snapshot in native_snapshots(text, notes):
        for uuid, reading in snapshot.readings.items():
            yield RecordingRow(
                snapshot.wall_time_of(reading.time),
                uuid,
                reading.values,
                reading.missing,
                text.name,
                holdings=snapshot.holdings.get(uuid, ()),
                processes=reading.processes,
            )


NATIVE: Final = RecordingFormat(
    "Rightsizer recording", lambda head: head[0].startswith(_START), _rows
)
"""Format of `rightsizer record`: whole snapshots, not only readings."""


def _outcome_row(outcome: CollectorOutcome) -> list[Any]:
    """Return the fields of an outcome; a refusal, which is rare, comes last where there is one."""
    row: list[Any] = [outcome.success, outcome.duration_seconds, outcome.failure]
    return row if outcome.refusal is None else [*row, [*outcome.refusal]]


def _outcome(
    success: bool,  # noqa: FBT001 - in the order of a row.
    duration_seconds: float,
    failure: str | None = None,
    refusal: tuple[int, str] | None = None,
) -> CollectorOutcome:
    left_out = None if refusal is None else Refusal(*refusal)
    return CollectorOutcome(success, duration_seconds, failure, left_out)


_DECODERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "devices": lambda data: convert(data, tuple[Device, ...]),
    "processes": lambda data: {
        uuid: tuple(_decode_process(*fields) for fields in processes)
        for uuid, processes in data.items()
    },
    "holdings": lambda data: {
        uuid: tuple(Holding(convert(of, Workload), *how) for of, *how in holdings)
        for uuid, holdings in data.items()
    },
    "down": lambda data: {
        uuid: Down(Missing(reason), *rest) for uuid, (reason, *rest) in data.items()
    },
    "host": lambda data: {Signal(signal): value for signal, value in data.items()},
    "collectors": lambda data: {name: _outcome(*row) for name, row in data.items()},
}
"""By section; others are as they were."""
_KEPT: Final = ("interval", "devices", "down", "host", "holdings", "collectors", "trouble")
"""Sections that equal fields of a snapshot."""


class _NativeState:
    """Decoder state."""

    def __init__(self, text: TextFile, header: dict[str, Any]) -> None:
        if header["version"] > VERSION:
            raise RecordingError(
                f"{text.name}:1: was written by rightsizer {header.get('program', '')} in version "
                f"{header['version']} of the format, and this program reads up to {VERSION}; "
                "update rightsizer"
            )
        signals = set(Signal)
        self._signals = [Signal(name) if name in signals else None for name, _ in header["signals"]]
        self._sections: dict[str, Any] = {}
        self._wall_time: Nanoseconds = 0
        self._time: Nanoseconds = 0

    def update(self, data: dict[str, Any]) -> None:
        for name, section in data.items():
            decode = _DECODERS.get(name, lambda data: data)
            self._sections[name] = (
                _decoded_columns(section, self._signals) if name == "columns" else decode(section)
            )

    def snapshot(self, data: list[Any]) -> Snapshot:
        sections = self._sections
        uuids = sections["uuids"]
        columns = sections["columns"]
        wall_step, step, *cells = data
        self._wall_time += wall_step
        self._time += step
        return Snapshot(
            wall_time=self._wall_time,
            time=self._time,
            readings={
                uuid: self._reading(uuid, column, row)
                for uuid, column, row in zip(uuids, columns, cells, strict=True)
            },
            **{name: sections[name] for name in _KEPT},
        )

    def _reading(self, uuid: str, columns: Any, row: list[Any]) -> Reading:
        signals, missing = columns
        offset, *values = row
        return Reading(
            uuid=uuid,
            time=self._time + offset,
            values={name: value for name, value in zip(signals, values, strict=True) if name},
            missing=missing,
            processes=self._sections["processes"].get(uuid),
        )


class NativeFiles:
    """One file as it is; several by the wall clock, since each may be of another boot."""

    def __init__(self, texts: Sequence[TextFile], board: Board | None) -> None:
        self._texts = texts

        def complete(devices: tuple[Device, ...]) -> tuple[Device, ...]:
            return (
                devices if board is None else tuple(completed(device, board) for device in devices)
            )

        self._complete = complete if board is None else cache(complete)
        self.notes = [RecordingNotes(text.name) for text in texts]
        self._devices: tuple[Device, ...] = ()
        self.end: Nanoseconds = 0
        """Wall time of the last snapshot, after the survey."""

    def survey(self, progress: Progress) -> tuple[tuple[Device, ...], Nanoseconds | None]:
        """Read all once; return devices (an error without any), median interval and end."""
        devices: dict[str, Device] = {}
        gaps = IntervalMedian()
        for text, notes in zip(self._texts, self.notes, strict=True):
            for count, snapshot in enumerate(_counted(native_snapshots(text, notes), gaps), 1):
                self.end = max(self.end, snapshot.wall_time)
                if not count % _SHOWN_EVERY:
                    show_read(progress, self._texts)
                for device in self._complete(snapshot.devices):
                    devices.setdefault(device.uuid, device)
        if not devices:
            names = ", ".join(text.name for text in self._texts)
            raise RecordingError(f"{names}: there is no device in it; did its recorder find any?")
        self._devices = tuple(devices.values())
        return self._devices, gaps.median("readings")

    def snapshots(self) -> Generator[Snapshot, None, None]:
        """Yield the snapshots in order."""
        streams = [native_snapshots(text, RecordingNotes(text.name)) for text in self._texts]
        if len(streams) == 1:
            for snapshot in streams[0]:
                devices = self._complete(snapshot.devices)
                is_same = devices is snapshot.devices
                yield snapshot if is_same else replace(snapshot, devices=devices)
            return
        for snapshot in merge(*streams, key=attrgetter("wall_time")):
            yield replace(
                snapshot,
                time=snapshot.wall_time,
                devices=self._devices,
                readings={
                    uuid: replace(reading, time=snapshot.wall_time_of(reading.time))
                    for uuid, reading in snapshot.readings.items()
                },
            )


def _counted(snapshots: Iterator[Snapshot], gaps: IntervalMedian) -> Iterator[Snapshot]:
    last: dict[str, Nanoseconds] = {}
    for snapshot in snapshots:
        for uuid, reading in snapshot.readings.items():
            before = last.get(uuid)
            last[uuid] = reading.time
            if before is not None and reading.time > before:
                gaps.add("readings", reading.time - before)
        yield snapshot
