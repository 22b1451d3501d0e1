"""The tables of a shelf; what was released is never changed."""

from typing import Final

from rightsizer.advice.ledger_store import LEDGER_SCHEMA, TRACK_SCHEMA

__all__ = ["SHELF_SCHEMAS"]

_FIRST: Final = """
CREATE TABLE track (
  uuid TEXT NOT NULL, day INTEGER NOT NULL, source TEXT NOT NULL, step INTEGER NOT NULL,
  days INTEGER NOT NULL, data BLOB NOT NULL);
CREATE UNIQUE INDEX track_by_uuid ON track (uuid, day, source);
CREATE INDEX track_by_day ON track (day);
CREATE TABLE holding (
  uuid TEXT NOT NULL, day INTEGER NOT NULL, source TEXT NOT NULL, step INTEGER NOT NULL,
  days INTEGER NOT NULL, workload TEXT NOT NULL, first INTEGER NOT NULL,
  last INTEGER NOT NULL, share REAL NOT NULL);
CREATE INDEX holding_by_uuid ON holding (uuid, day, source);
CREATE INDEX holding_by_day ON holding (day);
CREATE TABLE workload (key TEXT PRIMARY KEY, facts TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE done (
  source TEXT NOT NULL, day INTEGER NOT NULL, uuid TEXT NOT NULL, step INTEGER NOT NULL,
  until INTEGER NOT NULL, PRIMARY KEY (source, day, uuid)) WITHOUT ROWID
"""

SHELF_SCHEMAS: Final = (_FIRST, LEDGER_SCHEMA, TRACK_SCHEMA)
"""The n-th script leads from schema n-1 to n.

Days count since the epoch, times and steps are nanoseconds; `data` is a track in `track_form`,
of so many days as `days` says, the first of which is `day`.
`done.until` is when a device's day was asked for last.
"""
