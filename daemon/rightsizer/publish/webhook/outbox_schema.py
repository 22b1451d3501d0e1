"""The table of the outbox, which is made whether or not anybody loads it."""

from typing import Final

__all__ = ["WEBHOOK_OUTBOX_SCHEMA"]

WEBHOOK_OUTBOX_SCHEMA: Final = """
CREATE TABLE webhook_outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    destination TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX webhook_outbox_by_destination ON webhook_outbox (destination, number)
"""
"""A migration's script."""
