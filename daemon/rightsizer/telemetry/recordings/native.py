"""Recordings in the native format: parser, and snapshots restored from several files."""

import contextlib
import json
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from heapq import merge
from operator import attrgetter
from typing import Any, Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import completed
from rightsizer.model.device import Device
from rightsizer.model.errors import RecordingError
from rightsizer.model.reading import Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import Nanoseconds
from rightsizer.telemetry.recordings.native_codec import FORMAT, VERSION, decode_section
from rightsizer.telemetry.recordings.row import RecordingNotes, RecordingRow
from rightsizer.telemetry.recordings.survey import IntervalMedian
from rightsizer.telemetry.recordings.text_file import TextFile

_START: Final = f'{{"format":"{FORMAT}"'
_UNREADABLE: Final = (ValueError, KeyError, TypeError, IndexError, AttributeError)


class NativeRecording:
    """What `rightsizer record` writes: whole snapshots, not only readings."""

    name = "Rightsizer recording"

    def recognizes(self, head: Sequence[str]) -> bool:
        """The start of the header."""
        return head[0].startswith(_START)

    def snapshots(self, text: TextFile, notes: RecordingNotes) -> Iterator[Snapshot]:
        """The snapshots as they were written.

        Raises:
            RecordingError: a newer version of the program wrote it, or a line in it is damaged.
        """
        lines = text.lines(notes)
        state: _NativeState | None = None
        for number, line in lines:
            try:
                data = json.loads(line)
                if state is None:
                    state = _NativeState(text, data)
                elif isinstance(data, dict):
                    state.hear(data)
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

    def rows(self, text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
        """The readings alone, by the wall clock, for a recording that holds other files too."""
        for snapshot in self.snapshots(text, notes):
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


class _NativeState:
    """What has been said so far."""

    def __init__(self, text: TextFile, header: dict[str, Any]) -> None:
        if header["version"] > VERSION:
            raise RecordingError(
                f"{text.name}:1: was written by rightsizer {header.get('program', '')} in version "
                f"{header['version']} of the format, and this program reads up to {VERSION}; "
                "update rightsizer"
            )
        known = set(Signal)
        self._signals = [Signal(name) if name in known else None for name, _ in header["signals"]]
        self._sections: dict[str, Any] = {}
        self._wall_time: Nanoseconds = 0
        self._time: Nanoseconds = 0

    def hear(self, data: dict[str, Any]) -> None:
        for name, section in data.items():
            self._sections[name] = decode_section(name, section, self._signals)

    def snapshot(self, data: list[Any]) -> Snapshot:
        said = self._sections
        wall_step, step, *cells = data
        self._wall_time += wall_step
        self._time += step
        return Snapshot(
            wall_time=self._wall_time,
            time=self._time,
            interval=said["interval"],
            devices=said["devices"],
            readings={
                uuid: self._reading(uuid, columns, row)
                for uuid, columns, row in zip(said["uuids"], said["columns"], cells, strict=True)
            },
            down=said["down"],
            host=said["host"],
            holdings=said["holdings"],
            collectors=said["collectors"],
            trouble=said["trouble"],
        )

    def _reading(self, uuid: str, columns: Any, row: list[Any]) -> Reading:
        signals, missing = columns
        offset, *values = row
        return Reading(
            uuid=uuid,
            time=self._time + offset,
            values={
                signal: value
                for signal, value in zip(signals, values, strict=True)
                if signal is not None
            },
            missing=missing,
            processes=self._sections["processes"].get(uuid),
        )


_READINGS: Final = "readings"
_SETTLE_EVERY: Final = 1 << 12


class NativeFiles:
    """One file as it is, several on the wall clock: each may come from a boot of its own."""

    def __init__(self, texts: Sequence[TextFile], board: Board | None) -> None:
        """The files, and the board of devices that the recorder did not know."""
        self._texts = texts
        self._complete = _completer(board)
        self.notes = [RecordingNotes(text.name) for text in texts]
        self.devices: tuple[Device, ...] = ()
        self.interval: Nanoseconds | None = None

    def survey(self) -> None:
        """Read everything once for the devices and the exact median interval.

        Raises:
            RecordingError: there is no device in them.
        """
        devices: dict[str, Device] = {}
        gaps = IntervalMedian()
        with contextlib.closing(gaps):
            for text, notes in zip(self._texts, self.notes, strict=True):
                for snapshot in _counted(NativeRecording().snapshots(text, notes), gaps):
                    for device in self._complete(snapshot.devices):
                        devices.setdefault(device.uuid, device)
            self.interval = gaps.median(_READINGS)
        if not devices:
            names = ", ".join(text.name for text in self._texts)
            raise RecordingError(f"{names}: there is no device in it; did its recorder find any?")
        self.devices = tuple(devices.values())

    def snapshots(self) -> Generator[Snapshot, None, None]:
        """The snapshots in order."""
        streams = [
            NativeRecording().snapshots(text, RecordingNotes(text.name)) for text in self._texts
        ]
        if len(streams) == 1:
            for snapshot in streams[0]:
                devices = self._complete(snapshot.devices)
                yield (
                    snapshot if devices is snapshot.devices else replace(snapshot, devices=devices)
                )
            return
        for snapshot in merge(*streams, key=attrgetter("wall_time")):
            yield _on_wall_clock(snapshot, self.devices)


def _counted(snapshots: Iterator[Snapshot], gaps: IntervalMedian) -> Iterator[Snapshot]:
    between = gaps.of(_READINGS)
    last: dict[str, Nanoseconds] = {}
    for count, snapshot in enumerate(snapshots, 1):
        for uuid, reading in snapshot.readings.items():
            before = last.get(uuid)
            last[uuid] = reading.time
            if before is not None and reading.time > before:
                between[reading.time - before] += 1
        if not count % _SETTLE_EVERY:
            gaps.settle()
        yield snapshot


def _on_wall_clock(snapshot: Snapshot, devices: tuple[Device, ...]) -> Snapshot:
    return replace(
        snapshot,
        time=snapshot.wall_time,
        devices=devices,
        readings={
            uuid: replace(reading, time=snapshot.wall_time_of(reading.time))
            for uuid, reading in snapshot.readings.items()
        },
    )


def _completer(board: Board | None) -> Callable[[tuple[Device, ...]], tuple[Device, ...]]:
    if board is None:
        return lambda devices: devices
    known: dict[tuple[Device, ...], tuple[Device, ...]] = {}

    def complete(devices: tuple[Device, ...]) -> tuple[Device, ...]:
        if devices not in known:
            known[devices] = tuple(completed(device, board) for device in devices)
        return known[devices]

    return complete
