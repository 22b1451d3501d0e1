"""Repository of the hours of served models in SQLite."""

import contextlib
from collections.abc import Iterable
from typing import Final

from rightsizer.accounting.served import ServedHour
from rightsizer.io.codec import decode, stored
from rightsizer.io.database import Database
from rightsizer.model.values import Nanoseconds

_SAVE: Final = """
INSERT INTO served VALUES (?, ?, ?, ?)
  ON CONFLICT (endpoint, model, start) DO UPDATE SET data = excluded.data
"""


class ServedRepository:
    """Hours of served models in a database; a running hour is updated in place."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, hours: Iterable[ServedHour]) -> None:
        """Write hours in one transaction.

        Raises:
            HistoryError: the transaction failed; nothing was written.
        """
        rows = [(hour.endpoint, hour.model, hour.start, stored(hour)) for hour in hours]
        if rows:
            with self._database.transaction() as connection:
                connection.executemany(_SAVE, rows)

    def load(self, since: Nanoseconds = 0) -> list[ServedHour]:
        """Hours that begin at a time or later, oldest first; skips undecodable rows."""
        query = "SELECT data FROM served WHERE start >= ? ORDER BY start, endpoint, model"
        hours = []
        for (text,) in self._database.rows(query, (since,)):
            with contextlib.suppress(ValueError):
                hours.append(decode(text, ServedHour))
        return hours

    def prune(self, before: Nanoseconds) -> None:
        """Delete hours that began before a time."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM served WHERE start < ?", (before,))
