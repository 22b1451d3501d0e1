"""The tables of captures, which are made whether or not anything is ever captured."""

from typing import Final

__all__ = ["CAPTURE_SCHEMA"]

CAPTURE_SCHEMA: Final = """
CREATE TABLE capture (id TEXT PRIMARY KEY, started INTEGER NOT NULL, data TEXT NOT NULL)
  WITHOUT ROWID;
CREATE TABLE read_file (
  path TEXT PRIMARY KEY, size INTEGER NOT NULL, modified INTEGER NOT NULL, fault TEXT NOT NULL)
  WITHOUT ROWID
"""
"""A migration's script."""
