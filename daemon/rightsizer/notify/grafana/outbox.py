"""What waits to be annotated, and which annotation belongs to which advice."""

import json
import threading
from dataclasses import asdict
from typing import Final, Protocol

from rightsizer.io.database import Database
from rightsizer.notify.grafana.annotation_body import AnnotationBody
from rightsizer.notify.outbox import MemoryOutbox, Outbox, OutboxTable, SqliteOutbox


class AnnotationOutbox(Outbox[AnnotationBody], Protocol):
    """An outbox that remembers regions too."""

    def remember(self, advice_id: str, annotation_id: int | None) -> None:
        """Keep which region stands for a piece of advice; `None` forgets it."""

    def annotation_id(self, advice_id: str) -> int | None:
        """The region that stands for a piece of advice, as far as is known."""


class MemoryAnnotationOutbox(MemoryOutbox[AnnotationBody]):
    """Annotations and regions that last as long as their process."""

    def __init__(self) -> None:
        super().__init__()
        self._region_lock = threading.Lock()
        self._regions: dict[str, int] = {}

    def remember(self, advice_id: str, annotation_id: int | None) -> None:
        """Keep or forget a region."""
        with self._region_lock:
            if annotation_id is None:
                self._regions.pop(advice_id, None)
            else:
                self._regions[advice_id] = annotation_id

    def annotation_id(self, advice_id: str) -> int | None:
        """The region of a piece of advice."""
        with self._region_lock:
            return self._regions.get(advice_id)


class SqliteAnnotationOutbox(SqliteOutbox[AnnotationBody]):
    """Annotations and regions in tables that `ANNOTATION_OUTBOX_SCHEMA` makes."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, _TABLE)

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


_TABLE: Final[OutboxTable[AnnotationBody]] = OutboxTable(
    "grafana_outbox", "note", encode=lambda body: json.dumps(asdict(body)), decode=_understood
)


def annotation_outbox(database: Database | None) -> AnnotationOutbox:
    """What Grafana was not told yet: in a history's database, or in memory."""
    return SqliteAnnotationOutbox(database) if database else MemoryAnnotationOutbox()
