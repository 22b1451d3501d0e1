"""Messages that wait for their receivers."""

from typing import Final

from rightsizer.io.database import Database
from rightsizer.notify.outbox import MemoryOutbox, Outbox, OutboxTable, SqliteOutbox

WEBHOOK_OUTBOX: Final[OutboxTable[str]] = OutboxTable(
    "webhook_outbox", "body", encode=str, decode=str, destination="destination"
)
"""The table that `WEBHOOK_OUTBOX_SCHEMA` makes."""


def webhook_outbox(database: Database | None) -> Outbox[str]:
    """What webhooks were not told yet: in a history's database, or in memory."""
    return SqliteOutbox(database, WEBHOOK_OUTBOX) if database else MemoryOutbox()
