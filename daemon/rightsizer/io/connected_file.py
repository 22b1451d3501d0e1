"""ConnectedFile: detects that the file of an open database was lost or changed by others."""

import contextlib
import os
import sqlite3
import struct
from pathlib import Path
from typing import Final

_HEADER: Final = struct.Struct(">16s12xI4xII16xI")
_HEADER_PRAGMAS: Final = ("page_count", "freelist_count", "schema_version", "user_version")
_MAGIC: Final = b"SQLite format 3\0"
BESIDE: Final = ("-wal", "-shm")
"""Suffixes of SQLite's files beside a database."""


class UnsoundDatabase(sqlite3.DatabaseError):
    """File that opens but has inconsistent pages."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


class LostDatabase(UnsoundDatabase):
    """File that was deleted, replaced or overwritten while open."""


class ConnectedFile:
    """File of a connection, to detect that it was lost or changed by others.

    Close it after the connection: closing the descriptor releases the process's locks.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = Path(f"{path}{BESIDE[0]}")
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._log_inode = _inode(self._log)
        self._header = self._read_header()

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)

    def drop_log(self) -> None:
        """Delete our log, which otherwise the next process would apply to the file."""
        if self._log_inode is not None and _inode(self._log) == self._log_inode:
            for suffix in BESIDE:
                Path(f"{self._path}{suffix}").unlink(missing_ok=True)

    def note_header(self) -> None:
        """Record the header after our last change."""
        with contextlib.suppress(OSError):
            self._header = self._read_header()

    def check(self, connection: sqlite3.Connection) -> None:
        """Check that the connection still writes to the file at its path.

        Raises:
            LostDatabase: it does not.
        """
        try:
            inode = _inode(self._path)
            open_status = os.fstat(self._descriptor)
            header = self._read_header()
            is_log_in_place = _inode(self._log) == self._log_inode
        except OSError:
            return  # A disk that does not respond has lost nothing yet.
        if inode is None:
            raise LostDatabase("it was deleted or moved away while it was open")
        if inode != (open_status.st_dev, open_status.st_ino):
            raise LostDatabase("another file was put in its place while it was open")
        if not is_log_in_place:
            raise LostDatabase("its write-ahead log was deleted while it was open")
        if header != self._header and not _agrees(header, connection):
            raise LostDatabase("it was overwritten while it was open")

    def _read_header(self) -> bytes:
        return os.pread(self._descriptor, _HEADER.size, 0)


def _agrees(header: bytes, connection: sqlite3.Connection) -> bool:
    """Whether the header belongs to the open database, perhaps checkpointed by another process."""
    if len(header) < _HEADER.size:
        return False
    magic, *stored = _HEADER.unpack(header)
    seen = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in _HEADER_PRAGMAS]
    return magic == _MAGIC and stored == seen


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino
