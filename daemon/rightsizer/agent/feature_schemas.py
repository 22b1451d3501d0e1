"""SQL tables of the features' logs, created whether or not a feature is on."""

from typing import Final

ACTION_SCHEMA: Final = """
CREATE TABLE action (id TEXT PRIMARY KEY, at INTEGER NOT NULL, data TEXT NOT NULL) WITHOUT ROWID
"""
"""A migration's script."""


CAPTURE_SCHEMA: Final = """
CREATE TABLE capture (id TEXT PRIMARY KEY, started INTEGER NOT NULL, data TEXT NOT NULL)
  WITHOUT ROWID;
CREATE TABLE read_file (
  path TEXT PRIMARY KEY, size INTEGER NOT NULL, modified INTEGER NOT NULL, fault TEXT NOT NULL)
  WITHOUT ROWID
"""
"""A migration's script."""
