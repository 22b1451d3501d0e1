"""Reads our own format; `encoding` describes it."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rightsizer.domain.errors import RecordingError
from rightsizer.domain.reading import Reading
from rightsizer.domain.signal import Signal
from rightsizer.domain.snapshot import Snapshot
from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.recorded.encoding import FORMAT, VERSION, decode_section
from rightsizer.telemetry.recorded.row import Notes, Row
from rightsizer.telemetry.recorded.text import TextFile

__all__ = ["OwnRecording"]

_START: Final = f'{{"format":"{FORMAT}"'
_UNREADABLE: Final = (ValueError, KeyError, TypeError, IndexError, AttributeError)


class OwnRecording:
    """What `rightsizer record` writes: whole snapshots, not only readings."""

    name = "Rightsizer recording"

    def recognizes(self, head: Sequence[str]) -> bool:
        """The start of the header."""
        return head[0].startswith(_START)

    def snapshots(self, text: TextFile, notes: Notes) -> Iterator[Snapshot]:
        """The snapshots as they were written.

        Raises:
            RecordingError: a newer version of the program wrote it, or a line in it is damaged.
        """
        lines = text.lines(notes)
        state: _State | None = None
        for number, line in lines:
            try:
                data = json.loads(line)
                if state is None:
                    state = _State(text, data)
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

    def rows(self, text: TextFile, notes: Notes) -> Iterator[Row]:
        """The readings alone, by the wall clock, for a recording that holds other files too."""
        for snapshot in self.snapshots(text, notes):
            for uuid, reading in snapshot.readings.items():
                yield Row(
                    snapshot.wall_time_of(reading.time),
                    uuid,
                    reading.values,
                    reading.missing,
                    text.name,
                    holdings=snapshot.holdings.get(uuid, ()),
                    processes=reading.processes,
                )


class _State:
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
