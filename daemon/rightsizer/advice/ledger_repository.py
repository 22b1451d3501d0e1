"""SQLite repository of the ledger, as JSON rows."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from rightsizer.advice.track_record import OutcomeCounts
from rightsizer.io.codec import convert, stored
from rightsizer.io.database import Database
from rightsizer.model.values import Advice, AdviceEvent, Severity

_JsonMapping = Mapping[str, Any]
_Value = TypeVar("_Value")


def _loaded_advice(fields: _JsonMapping) -> _JsonMapping:
    # In rows of former versions, key and what only the ledger needs are beside the advice.
    fields = {**fields, **fields.get("advice", {})}
    finding = {"key": fields.get("key", ""), **fields["finding"]}
    return {"severity": finding.get("severity", Severity.LOW), **fields, "finding": finding}


LEDGER_SCHEMA: Final = (
    "CREATE TABLE advice (id TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID"
)
TRACK_SCHEMA: Final = """
CREATE TABLE advice_event (number INTEGER PRIMARY KEY, event TEXT NOT NULL);
CREATE TABLE advice_tally (name TEXT PRIMARY KEY, tally TEXT NOT NULL) WITHOUT ROWID
"""


class LedgerRepository:
    """Repository of advice, outcome counts and pending events."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._foreign: frozenset[str] = frozenset()
        """Ids of rows that only a newer version can decode."""
        self._written: dict[str, Advice] = {}
        """Last written advice, since most do not change between runs."""
        self._encoded: dict[int, tuple[object, str]] = {}
        """Values encoded ahead by object id, which is unique while the value is kept here."""

    def encode(self, values: Iterable[Advice | AdviceEvent]) -> None:
        """Encode ahead what is saved next, the slow part; callable from any thread."""
        self._encoded = {
            id(value): (value, stored(value)) for value in values if not self._is_written(value)
        }

    def save(
        self,
        advice: Iterable[Advice],
        tallies: Iterable[OutcomeCounts] = (),
        pending: Iterable[AdviceEvent] = (),
    ) -> None:
        """Replace the stored ledger, except for rows of a newer version.

        Raises:
            HistoryError: the transaction failed; the old rows remain.
        """
        by_id = {recommendation.id: recommendation for recommendation in advice}
        counts = [(f"{tally.rule}/{tally.reason}", stored(tally)) for tally in tallies]
        pending = tuple(pending)
        events = list(enumerate(map(self._text, pending)))
        with self._database.transaction() as connection:
            present = {row[0] for row in connection.execute("SELECT id FROM advice")}
            gone = present - by_id.keys() - self._foreign
            connection.executemany(
                "DELETE FROM advice WHERE id = ?", [(advice_id,) for advice_id in gone]
            )
            connection.executemany(
                "INSERT OR REPLACE INTO advice VALUES (?, ?)",
                [
                    (advice_id, self._text(recommendation))
                    for advice_id, recommendation in by_id.items()
                    if advice_id not in present or not self._is_written(recommendation)
                ],
            )
            connection.executemany("INSERT OR REPLACE INTO advice_tally VALUES (?, ?)", counts)
            connection.execute("DELETE FROM advice_event")
            connection.executemany("INSERT INTO advice_event VALUES (?, ?)", events)
        self._written = by_id
        # The texts take more memory than what they encode.
        for value in (*by_id.values(), *pending):
            self._encoded.pop(id(value), None)

    def load(self) -> list[Advice]:
        """Load the advice; skip undecodable rows."""
        rows = self._database.rows("SELECT id, record FROM advice ORDER BY id")
        by_id = {advice_id: _read_row(text, Advice) for advice_id, text in rows}
        self._foreign = frozenset(advice_id for advice_id, row in by_id.items() if row is None)
        return [row for row in by_id.values() if row is not None]

    def load_tallies(self) -> list[OutcomeCounts]:
        """Load the outcome counts."""
        return self._read("SELECT tally FROM advice_tally ORDER BY name", OutcomeCounts)

    def load_pending(self) -> list[AdviceEvent]:
        """Load saved events that may not have been delivered, oldest first."""
        return self._read("SELECT event FROM advice_event ORDER BY number", AdviceEvent)

    def clear_pending(self) -> None:
        """Delete the pending events after delivery to all sinks."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM advice_event")

    def _text(self, value: Advice | AdviceEvent) -> str:
        encoded, text = self._encoded.get(id(value), (None, ""))
        return text if encoded is value else stored(value)

    def _is_written(self, value: Advice | AdviceEvent) -> bool:
        return isinstance(value, Advice) and self._written.get(value.id) is value

    def _read(self, query: str, kind: type[_Value]) -> list[_Value]:
        values = (_read_row(text, kind) for (text,) in self._database.rows(query))
        return [value for value in values if value is not None]


def _read_row(text: str, kind: type[_Value]) -> _Value | None:
    try:
        fields = json.loads(text)
        return convert(_loaded_advice(fields) if kind is Advice else fields, kind)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
