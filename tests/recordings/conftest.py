"""Fixtures for recordings: files of a few lines, and everything that a source gives."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.reading import Reading
from rightsizer.model.signal import Signal
from rightsizer.model.snapshot import Snapshot
from rightsizer.recordings.source import RecordedSource, open_recording


@dataclass
class Replay:
    """A source that was read to its end."""

    source: RecordedSource
    snapshots: list[Snapshot]

    @property
    def warnings(self) -> str:
        """All warnings as one text."""
        return "\n".join(self.source.warnings)

    def readings(self, device: str) -> list[Reading]:
        """One device's readings in order."""
        return [
            snapshot.readings[device] for snapshot in self.snapshots if device in snapshot.readings
        ]

    def values(self, device: str, signal: Signal) -> list[float | None]:
        """One signal of one device in order."""
        return [reading.get(signal) for reading in self.readings(device)]


@pytest.fixture
def data() -> Path:
    """The folder of small recordings."""
    return Path(__file__).parent / "data"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes a text as it stands into a file."""

    def write(text: str, name: str = "log.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return write


@pytest.fixture
def replay() -> Iterator[Callable[..., Replay]]:
    """Opens a recording and reads it to its end."""
    opened: list[RecordedSource] = []

    def replay(*paths: Path, **how: Any) -> Replay:
        source = open_recording(paths, catalogue=built_in(), **how)
        opened.append(source)
        return Replay(source, list(_all(source)))

    yield replay
    for source in opened:
        source.close()


def _all(source: RecordedSource) -> Iterator[Snapshot]:
    while (snapshot := source.read()) is not None:
        yield snapshot
