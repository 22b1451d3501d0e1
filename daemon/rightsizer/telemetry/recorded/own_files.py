"""Recordings in our own format alone: their snapshots come back as they were."""

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from heapq import merge
from operator import attrgetter
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.completion import completed
from rightsizer.domain.device import Device
from rightsizer.domain.errors import RecordingError
from rightsizer.domain.snapshot import Snapshot
from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.recorded.gaps import Gaps
from rightsizer.telemetry.recorded.own import OwnRecording
from rightsizer.telemetry.recorded.row import Notes
from rightsizer.telemetry.recorded.text import TextFile

__all__ = ["OwnFiles"]

_READINGS: Final = "readings"
_SETTLE_EVERY: Final = 1 << 12


class OwnFiles:
    """One file as it is, several on the wall clock: each may come from a boot of its own."""

    def __init__(self, texts: Sequence[TextFile], board: Board | None) -> None:
        """The files, and the board of devices that the recorder did not know."""
        self._texts = texts
        self._complete = _completer(board)
        self.notes = [Notes(text.name) for text in texts]
        self.devices: tuple[Device, ...] = ()
        self.interval: Nanoseconds | None = None

    def survey(self) -> None:
        """Read everything once for the devices and the exact median interval.

        Raises:
            RecordingError: there is no device in them.
        """
        devices: dict[str, Device] = {}
        gaps = Gaps()
        with contextlib.closing(gaps):
            for text, notes in zip(self._texts, self.notes, strict=True):
                for snapshot in _counted(OwnRecording().snapshots(text, notes), gaps):
                    for device in self._complete(snapshot.devices):
                        devices.setdefault(device.uuid, device)
            self.interval = gaps.median(_READINGS)
        if not devices:
            names = ", ".join(text.name for text in self._texts)
            raise RecordingError(f"{names}: there is no device in it; did its recorder find any?")
        self.devices = tuple(devices.values())

    def snapshots(self) -> Generator[Snapshot, None, None]:
        """The snapshots in order."""
        streams = [OwnRecording().snapshots(text, Notes(text.name)) for text in self._texts]
        if len(streams) == 1:
            for snapshot in streams[0]:
                devices = self._complete(snapshot.devices)
                yield (
                    snapshot if devices is snapshot.devices else replace(snapshot, devices=devices)
                )
            return
        for snapshot in merge(*streams, key=attrgetter("wall_time")):
            yield _on_wall_clock(snapshot, self.devices)


def _counted(snapshots: Iterator[Snapshot], gaps: Gaps) -> Iterator[Snapshot]:
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
