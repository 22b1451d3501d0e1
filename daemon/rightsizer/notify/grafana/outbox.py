"""What waits to be annotated, and which annotation belongs to which advice."""

from typing import Final

from rightsizer.io.codec import decode, encode
from rightsizer.io.database import Database
from rightsizer.notify.grafana.annotation_body import AnnotationBody
from rightsizer.notify.outbox import Outbox, OutboxTable


class AnnotationOutbox(Outbox[AnnotationBody]):
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
        return decode(text, AnnotationBody)
    except ValueError:
        return None


_TABLE: Final = OutboxTable("grafana_outbox", "note", encode=encode, decode=_understood)
