"""The tables of the outbox, which are made whether or not anybody loads it."""

from typing import Final

__all__ = ["OUTBOX_SCHEMA"]

OUTBOX_SCHEMA: Final = """
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
