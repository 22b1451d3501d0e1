"""Fills a history with a recording: wholly, or not at all."""

import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rightsizer.accounting.history import History
from rightsizer.domain.errors import HistoryError
from rightsizer.edge.ownership import Ownership
from rightsizer.runtime.storage import Storage

__all__ = ["Filling"]

_MAGIC: Final = b"SQLite format 3\0"
_COMPANIONS: Final = ("", "-wal", "-shm", ".lock")


class Filling:
    """A history that is written beside the file and joins it only when it is whole.

    A history that exists keeps what it has, and nobody else writes it meanwhile.
    """

    def __init__(self, path: Path) -> None:
        """Begin beside the file.

        Raises:
            HistoryError: it is something else, is held by an agent, or cannot be written.
        """
        self._path = path
        self._target = _unbounded(path) if _is_history(path) else None
        self._partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            # What is not whole is thrown away, so that a power loss has nothing to undo.
            self._storage = _unbounded(self._partial, is_durable=False)
        except HistoryError as error:
            if self._target is not None:
                self._target.close()
            self._clear()
            raise HistoryError(str(error).replace(str(self._partial), str(path))) from None
        try:
            # An agent that began one here meanwhile would find another file in its place.
            self._owner = Ownership(path) if self._target is None else None
        except (HistoryError, OSError) as error:
            self._storage.close()
            self._clear()
            if isinstance(error, HistoryError):
                raise
            raise HistoryError(f"history '{path}' cannot be written: {error}") from None

    @property
    def history(self) -> History:
        """Where the recording goes."""
        return _history(self._storage)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put everything in its place, or leave nothing where something went wrong."""
        try:
            if kind is None and self._target is not None:
                _history(self._target).replace(self.history)
            self._storage.close()
            # A recording without any device has left nothing.
            if kind is None and self._target is None and self._partial.exists():
                _to_disk(self._partial)
                self._partial.replace(self._path)
        finally:
            self._storage.close()
            if self._target is not None:
                self._target.close()
            if self._owner is not None:
                self._owner.release(remove=True)
            self._clear()

    def _clear(self) -> None:
        for companion in _COMPANIONS:
            # A name that is too long for the system is not there either.
            with contextlib.suppress(OSError):
                self._partial.with_name(f"{self._partial.name}{companion}").unlink()


def _unbounded(path: Path, *, is_durable: bool = True) -> Storage:
    """A storage that takes the whole recording, however long it is."""
    return Storage(str(path), is_durable=is_durable, maximum_bytes=None)


def _is_history(path: Path) -> bool:
    """Whether there is a database, which an agent would set aside if it were none."""
    try:
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise HistoryError(
            f"history '{path}' cannot be read: {error.strerror}; name another file"
        ) from None
    if head != _MAGIC:
        raise HistoryError(f"'{path}' is there and is no history; name another file")
    return True


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _history(storage: Storage) -> History:
    if storage.history is None:  # Only an empty path has none, and this one names a file.
        raise HistoryError("no history is kept; name a file")
    return storage.history
