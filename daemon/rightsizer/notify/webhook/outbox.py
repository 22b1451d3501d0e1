"""Messages that wait for their receivers."""

from typing import Final

from rightsizer.notify.outbox import OutboxTable

WEBHOOK_OUTBOX: Final[OutboxTable[str]] = OutboxTable(
    "webhook_outbox", "body", encode=str, decode=str, destination="destination"
)
"""The table that `WEBHOOK_OUTBOX_SCHEMA` makes."""
