"""The table of the audit log, which is made whether or not anything is ever done."""

from typing import Final

__all__ = ["ACTION_SCHEMA"]

ACTION_SCHEMA: Final = """
CREATE TABLE action (id TEXT PRIMARY KEY, at INTEGER NOT NULL, data TEXT NOT NULL) WITHOUT ROWID
"""
"""A migration's script."""
