"""Keeps the ledger in the history's database, so that advice survives a restart."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final, TypeVar

from rightsizer.advice.record import Record
from rightsizer.advice.record_form import event_from, record_from, tally_from
from rightsizer.advice.track_record import Tally
from rightsizer.domain.advice import AdviceEvent
from rightsizer.edge.database import Database

__all__ = ["LEDGER_SCHEMA", "TRACK_SCHEMA", "LedgerStore"]

LEDGER_SCHEMA: Final = (
    "CREATE TABLE advice (id TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID"
)
TRACK_SCHEMA: Final = """
CREATE TABLE advice_event (number INTEGER PRIMARY KEY, event TEXT NOT NULL);
CREATE TABLE advice_tally (name TEXT PRIMARY KEY, tally TEXT NOT NULL) WITHOUT ROWID
"""
"""A migration's script: what is still to be told, and how advice fared so far."""

_Read = TypeVar("_Read")


class LedgerStore:
    """Records of the ledger as JSON rows."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._foreign: frozenset[str] = frozenset()
        """Ids of rows that were not understood: a newer program may have written them."""
        self._written: dict[str, str] = {}
        """What the rows hold, for most stay as they are from run to run."""

    def save(
        self,
        records: Iterable[Record],
        tallies: Iterable[Tally] = (),
        untold: Iterable[AdviceEvent] = (),
    ) -> None:
        """Write everything in place of what was there, rows that nobody understood excepted.

        Args:
            records: All advice.
            tallies: How it fared.
            untold: Events that nobody was told yet; see `told`.

        Raises:
            HistoryError: they could not be written; what was there stays.
        """
        rows = {record.advice.id: _text(record) for record in records}
        counts = [(f"{tally.rule}/{tally.reason}", _text(tally)) for tally in tallies]
        events = list(enumerate(map(_text, untold)))
        with self._database.transaction() as connection:
            present = {row[0] for row in connection.execute("SELECT id FROM advice")}
            gone = present - rows.keys() - self._foreign
            connection.executemany("DELETE FROM advice WHERE id = ?", [(each,) for each in gone])
            connection.executemany(
                "INSERT OR REPLACE INTO advice VALUES (?, ?)",
                [
                    (each, text)
                    for each, text in rows.items()
                    if each not in present or self._written.get(each) != text
                ],
            )
            connection.executemany("INSERT OR REPLACE INTO advice_tally VALUES (?, ?)", counts)
            connection.execute("DELETE FROM advice_event")
            connection.executemany("INSERT INTO advice_event VALUES (?, ?)", events)
        self._written = rows

    def load(self) -> list[Record]:
        """The records that were saved; a row that cannot be understood is passed over."""
        rows = self._rows("SELECT id, record FROM advice ORDER BY id")
        found = {advice_id: _understood(text, record_from) for advice_id, text in rows}
        self._foreign = frozenset(each for each, record in found.items() if record is None)
        return [record for record in found.values() if record is not None]

    def load_tallies(self) -> list[Tally]:
        """How advice fared so far."""
        rows = self._rows("SELECT name, tally FROM advice_tally ORDER BY name")
        found = (_understood(text, tally_from) for _, text in rows)
        return [tally for tally in found if tally is not None]

    def load_untold(self) -> list[AdviceEvent]:
        """Events that were saved and may never have been told, oldest first."""
        rows = self._rows("SELECT number, event FROM advice_event ORDER BY number")
        found = (_understood(text, event_from) for _, text in rows)
        return [event for event in found if event is not None]

    def told(self) -> None:
        """Forget the events, which everybody took note of."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM advice_event")

    def _rows(self, query: str) -> list[tuple[Any, str]]:
        with self._database.transaction() as connection:
            return connection.execute(query).fetchall()


def _text(value: Any) -> str:
    return json.dumps(asdict(value))


def _understood(text: str, read: Callable[[Mapping[str, Any]], _Read]) -> _Read | None:
    try:
        return read(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
