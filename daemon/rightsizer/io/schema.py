"""Schema of a SQLite database: whether its tables are those of some scripts."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing


def is_foreign(connection: sqlite3.Connection, scripts: Sequence[str]) -> bool:
    """Whether a database lacks tables that the scripts make, or has some before the first one."""
    tables = _tables(connection)
    if not scripts:
        return bool(tables)
    with closing(sqlite3.connect(":memory:")) as reference:
        for script in scripts:
            reference.executescript(script)
        return not _tables(reference) <= tables


def _tables(connection: sqlite3.Connection) -> frozenset[str]:
    named = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    return frozenset(name for (name,) in connection.execute(named))
