"""Databases that break while they are open."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

__all__ = ["spoil"]


def spoil(path: Path) -> None:
    """Overwrite every page under an open database, as a bad disk would."""
    with closing(sqlite3.connect(path)) as other:
        # After a change by another connection, no page is in a cache.
        other.execute("PRAGMA application_id = 1")
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    with path.open("r+b") as file:
        file.seek(100)  # The header's text stays, or it would be no database at all.
        file.write(os.urandom(path.stat().st_size - 100))
