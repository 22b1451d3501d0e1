"""The history's tables, and how those of an older program become them."""

from typing import Final

__all__ = ["HISTORY_SCHEMAS"]

_FIRST: Final = """
CREATE TABLE device (uuid TEXT PRIMARY KEY, facts TEXT NOT NULL, seen INTEGER NOT NULL)
  WITHOUT ROWID;
CREATE TABLE window (
  uuid TEXT NOT NULL, start INTEGER NOT NULL, finish INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (uuid, start)) WITHOUT ROWID;
CREATE INDEX window_by_start ON window (start)
"""

_SECOND: Final = """
CREATE TABLE lived (
  id INTEGER PRIMARY KEY AUTOINCREMENT, uuid TEXT NOT NULL, start INTEGER NOT NULL,
  finish INTEGER NOT NULL, is_hourly INTEGER NOT NULL DEFAULT 0, data BLOB NOT NULL);
INSERT INTO lived (uuid, start, finish, is_hourly, data)
  SELECT uuid, start, finish, finish - start >= 1800000000000, data FROM window
  ORDER BY start, uuid;
DROP TABLE window;
ALTER TABLE lived RENAME TO window;
CREATE INDEX window_by_start ON window (start);
CREATE INDEX window_to_roll_up ON window (uuid) WHERE NOT is_hourly;
CREATE TABLE holding (
  uuid TEXT NOT NULL, since INTEGER NOT NULL, workload TEXT NOT NULL, seen INTEGER NOT NULL,
  PRIMARY KEY (uuid, since, workload)) WITHOUT ROWID
"""
"""A window is a row of its own whenever it began: a clock that was set back repeats an hour."""

HISTORY_SCHEMAS: Final = (_FIRST, _SECOND)
"""The n-th script leads from schema n-1 to n; what was released is never changed.

Times are nanoseconds since the epoch; `data` is a window in `window_form`; ids grow as time was
lived, whatever the clock said.
"""
