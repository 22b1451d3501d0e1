"""Repository of profiles in the history's database."""

from collections.abc import Mapping
from typing import Final

from rightsizer.io.database import Database

PROFILE_SCHEMA: Final = (
    "CREATE TABLE profile (id TEXT PRIMARY KEY, form TEXT NOT NULL) WITHOUT ROWID"
)
"""A migration's script."""


class ProfileRepository:
    """What was taken as JSON rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, forms: Mapping[str, str]) -> None:
        """Write everything in place of what was there.

        Raises:
            HistoryError: it could not be written; what was there stays.
        """
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM profile")
            connection.executemany("INSERT INTO profile VALUES (?, ?)", list(forms.items()))

    def load(self) -> dict[str, str]:
        """What was saved, by its id.

        Raises:
            HistoryError: it could not be read.
        """
        with self._database.transaction() as connection:
            return dict(connection.execute("SELECT id, form FROM profile ORDER BY id").fetchall())
