"""What waits to be annotated, and which annotation belongs to which advice."""

import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from rightsizer.io.database import Database
from rightsizer.notify.grafana.annotation_body import AnnotationBody


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """A note that waits, under a number that grows with every one put in."""

    number: int
    note: AnnotationBody


class AnnotationOutbox(Protocol):
    """Keeps notes in their order until they are delivered; safe to use from several threads."""

    def pending(self) -> Sequence[OutboxEntry]:
        """All that waits, oldest first."""

    def put(self, notes: Iterable[AnnotationBody]) -> None:
        """Add notes, in this order."""

    def done(self, numbers: Iterable[int]) -> None:
        """Drop letters that were delivered, or never can be."""

    def remember(self, advice_id: str, annotation_id: int | None) -> None:
        """Keep which region stands for a piece of advice; `None` forgets it."""

    def annotation_id(self, advice_id: str) -> int | None:
        """The region that stands for a piece of advice, as far as is known."""


class MemoryAnnotationOutbox:
    """An outbox that lasts as long as its process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._letters: dict[int, AnnotationBody] = {}
        self._number = 0
        self._regions: dict[str, int] = {}

    def pending(self) -> Sequence[OutboxEntry]:
        """All that waits, oldest first."""
        with self._lock:
            return [OutboxEntry(number, note) for number, note in self._letters.items()]

    def put(self, notes: Iterable[AnnotationBody]) -> None:
        """Add notes, in this order."""
        with self._lock:
            for note in notes:
                self._number += 1
                self._letters[self._number] = note

    def done(self, numbers: Iterable[int]) -> None:
        """Drop letters; an unknown number does no harm."""
        with self._lock:
            for number in numbers:
                self._letters.pop(number, None)

    def remember(self, advice_id: str, annotation_id: int | None) -> None:
        """Keep or forget a region."""
        with self._lock:
            if annotation_id is None:
                self._regions.pop(advice_id, None)
            else:
                self._regions[advice_id] = annotation_id

    def annotation_id(self, advice_id: str) -> int | None:
        """The region of a piece of advice."""
        with self._lock:
            return self._regions.get(advice_id)


class SqliteAnnotationOutbox:
    """An outbox that survives a restart, in tables that `OUTBOX_SCHEMA` makes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pending(self) -> Sequence[OutboxEntry]:
        """All that waits, oldest first; a row that cannot be understood is passed over."""
        with self._database.transaction() as connection:
            rows = connection.execute(
                "SELECT number, note FROM grafana_outbox ORDER BY number"
            ).fetchall()
        found = ((number, _understood(text)) for number, text in rows)
        return [OutboxEntry(number, note) for number, note in found if note is not None]

    def put(self, notes: Iterable[AnnotationBody]) -> None:
        """Add notes, in this order."""
        rows = [(json.dumps(asdict(note)),) for note in notes]
        with self._database.transaction() as connection:
            connection.executemany("INSERT INTO grafana_outbox (note) VALUES (?)", rows)

    def done(self, numbers: Iterable[int]) -> None:
        """Drop letters; an unknown number does no harm."""
        rows = [(number,) for number in numbers]
        with self._database.transaction() as connection:
            connection.executemany("DELETE FROM grafana_outbox WHERE number = ?", rows)

    def remember(self, advice_id: str, annotation_id: int | None) -> None:
        """Keep or forget a region."""
        with self._database.transaction() as connection:
            if annotation_id is None:
                connection.execute("DELETE FROM grafana_regions WHERE advice_id = ?", (advice_id,))
            else:
                connection.execute(
                    "INSERT OR REPLACE INTO grafana_regions VALUES (?, ?)",
                    (advice_id, annotation_id),
                )

    def annotation_id(self, advice_id: str) -> int | None:
        """The region of a piece of advice."""
        with self._database.transaction() as connection:
            row = connection.execute(
                "SELECT annotation_id FROM grafana_regions WHERE advice_id = ?", (advice_id,)
            ).fetchone()
        return None if row is None else int(row[0])


def _understood(text: str) -> AnnotationBody | None:
    try:
        values = json.loads(text)
        return AnnotationBody(**{**values, "tags": tuple(values["tags"])})
    except (ValueError, KeyError, TypeError):
        return None
