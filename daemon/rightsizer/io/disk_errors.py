"""What an error of SQLite or of a file system means: a corrupt file, or a disk in trouble."""

import errno
import sqlite3
from pathlib import Path
from typing import Final

DATABASE_ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
"""Errors of any call; the second if SQLite's message quotes an overwritten page."""
_BROKEN: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG})
"""TOOBIG too: nothing that large is written, so only overwritten pages claim it."""
_LOCK_ERRORS: Final = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.ESTALE})
"""Of a file system without working locks, as NFS is without its lock service."""
_DISK_ERRORS: Final = _LOCK_ERRORS | {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EIO,
    errno.EROFS,
}
"""EFBIG too: a limit on the size of files is a disk that is full for one process; and EROFS: Linux
only reads a file system whose disk fails."""
_LOCK_CODES: Final = frozenset(
    {
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_IOERR_LOCK,
        sqlite3.SQLITE_IOERR_RDLOCK,
        sqlite3.SQLITE_IOERR_UNLOCK,
        sqlite3.SQLITE_IOERR_CHECKRESERVEDLOCK,
        sqlite3.SQLITE_IOERR_SHMLOCK,
        sqlite3.SQLITE_IOERR_SHMMAP,
    }
)
"""Extended codes of the same; the last where no memory can be shared by a file."""
_TAKEN_CODES: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
"""Primary codes of locks that stay taken. So SQLite calls ENOLCK and a full table, too."""
_DISK_CODES: Final = _TAKEN_CODES | {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PROTOCOL,
}
_PRIMARY: Final = 0xFF
"""Mask of the primary result code in an extended one."""


def is_broken(error: Exception) -> bool:
    """Whether an error means that the file is corrupt."""
    # Errors raised by the module itself have no code.
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
    return code in _BROKEN or isinstance(error, UnicodeDecodeError)


def is_of_disk(error: Exception) -> bool:
    """Whether an error means that the disk is full, or fails."""
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
    return code in _DISK_CODES or getattr(error, "errno", None) in _DISK_ERRORS


def reason_of(error: Exception) -> str:
    """Return the system's message about an error, or else its text."""
    return (getattr(error, "strerror", None) or str(error)).lower()


def disk_remedy_of(error: Exception, path: Path, setting: str) -> str:
    """What an operator can do about an error of the disk."""
    code = getattr(error, "errno", None)
    no_locks = (
        "its file system has no working locks (NFS without its lock service, a full "
        f"table of locks): set {setting} to a local disk, or start rpc.statd on client and server"
    )
    if code in _LOCK_ERRORS or getattr(error, "sqlite_errorcode", 0) in _LOCK_CODES:
        return no_locks
    if getattr(error, "sqlite_errorcode", 0) & _PRIMARY in _TAKEN_CODES:
        return f"stop what has it open (`fuser '{path}'` names it); if there is nothing, {no_locks}"
    if code == errno.EROFS or getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY:
        return (
            f"its file system is read-only: mount a writable volume there, name it in "
            f"ReadWritePaths= or StateDirectory= of the unit, or set {setting} to another folder"
        )
    return "make room"
