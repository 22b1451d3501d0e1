"""Writer of snapshots in the native format."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, Self, cast

from rightsizer import __version__
from rightsizer.io.codec import encode
from rightsizer.model.values import Nanoseconds, RecordingError, Snapshot, nanoseconds
from rightsizer.recordings.native import encode_sections, header

_FLUSH_SECONDS: Final = 10.0
"""Flushing every second would enlarge a compressed file by a tenth."""


class RecordingWriter:
    """Writes a recording; compressed if its name ends in `.gz`.

    Everything written more than a flush interval ago survives a crash; a recording without a
    snapshot leaves no file.
    """

    def __init__(self, path: Path, *, flush_interval_seconds: float = _FLUSH_SECONDS) -> None:
        self._path = path
        self._flush_interval = nanoseconds(flush_interval_seconds)
        self._flushed: Nanoseconds | None = None
        self._wall_time: Nanoseconds = 0
        self._time: Nanoseconds = 0
        self._written: dict[str, Any] = {}
        try:
            self._file = cast(IO[bytes], path.open("xb"))
        except FileExistsError:
            raise RecordingError(f"{path}: is there already; name another file") from None
        except OSError as error:
            raise RecordingError(
                f"{path}: cannot be written: {error.strerror}; name a file in a folder that exists "
                "and is writable"
            ) from None
        self._stream = self._file
        if path.suffix == ".gz":
            packed = gzip.GzipFile(fileobj=self._file, mode="wb", filename="", mtime=0)
            self._stream = cast(IO[bytes], packed)
        self._put(header(__version__))

    def write(self, snapshot: Snapshot) -> None:
        """Add a snapshot; raises `RecordingError` if the disk is full or gone."""
        for name, section in encode_sections(snapshot).items():
            if name not in self._written or self._written[name] != section:
                self._written[name] = section
                self._put({name: section})
        readings = (
            [reading.time - snapshot.time, *reading.values.values()]
            for reading in snapshot.readings.values()
        )
        wall_step = snapshot.wall_time - self._wall_time
        self._put([wall_step, snapshot.time - self._time, *readings])
        self._wall_time = snapshot.wall_time
        self._time = snapshot.time
        if self._flushed is None or snapshot.time - self._flushed >= self._flush_interval:
            with self._write_errors():
                self._stream.flush()
                self._file.flush()
            self._flushed = snapshot.time

    def close(self) -> None:
        """Finish the file; raises `RecordingError` if the disk is full or gone."""
        try:
            # Closes the file even if the stream raises for unwritten data.
            with self._write_errors(), self._file:
                self._stream.close()
        finally:
            if self._flushed is None:
                self._path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(self, line: Any) -> None:
        with self._write_errors():
            self._stream.write(encode(line) + b"\n")

    @contextmanager
    def _write_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RecordingError(f"{self._path}: cannot be written: {error.strerror}") from None
