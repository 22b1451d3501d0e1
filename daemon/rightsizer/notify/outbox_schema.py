"""Tables of the outboxes, created whether or not they are configured."""

from typing import Final

ANNOTATION_OUTBOX_SCHEMA: Final = """
CREATE TABLE grafana_outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    note TEXT NOT NULL
);
CREATE TABLE grafana_regions (
    advice_id TEXT PRIMARY KEY,
    annotation_id INTEGER NOT NULL
) WITHOUT ROWID
"""
"""A migration's script."""


WEBHOOK_OUTBOX_SCHEMA: Final = """
CREATE TABLE webhook_outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    destination TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE INDEX webhook_outbox_by_destination ON webhook_outbox (destination, number)
"""
"""A migration's script."""
