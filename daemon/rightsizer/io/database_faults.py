"""How a database shows that its file is broken, whatever was written over its pages."""

import sqlite3
from typing import Final

DATABASE_ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
"""What any call may raise; the second where SQLite's own message quotes an overwritten page."""
_BROKEN: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG})
"""Nobody here writes what is too big for SQLite: only overwritten pages claim to hold it."""
_PRIMARY: Final = 0xFF
"""The part of an extended result code that tells its kind."""


class UnsoundDatabase(sqlite3.DatabaseError):
    """A file that opens and whose pages contradict one another."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


def is_broken(error: Exception) -> bool:
    """Whether the file is to blame for an error of a call."""
    # Errors of the module itself carry no code.
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
    return code in _BROKEN or isinstance(error, UnicodeDecodeError)


def is_unreadable(error: Exception) -> bool:
    """Whether it is to blame while it is opened, when nothing else is asked that could be wrong."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code == sqlite3.SQLITE_ERROR or is_broken(error)


def text_of(raw: bytes) -> str:
    """A text of a row; one that broke is left to whoever knows how it should read."""
    return raw.decode(errors="replace")
