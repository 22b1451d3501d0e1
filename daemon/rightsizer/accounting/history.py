"""The history: closed windows of every device, on disk, bounded, and back again after a restart."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Final

from rightsizer.accounting.builder import WindowBuilder
from rightsizer.accounting.window_form import decode, encode
from rightsizer.domain.device import Device
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.domain.window import Window
from rightsizer.edge.database import Database

__all__ = ["HISTORY_SCHEMA", "History"]

HISTORY_SCHEMA: Final = """
CREATE TABLE device (uuid TEXT PRIMARY KEY, facts TEXT NOT NULL, seen INTEGER NOT NULL)
  WITHOUT ROWID;
CREATE TABLE window (
  uuid TEXT NOT NULL, start INTEGER NOT NULL, finish INTEGER NOT NULL, data BLOB NOT NULL,
  PRIMARY KEY (uuid, start)) WITHOUT ROWID;
CREATE INDEX window_by_start ON window (start)
"""
"""Times are nanoseconds since the epoch; `data` is a window in `window_form`."""

_HOUR: Final = 3600 * NANOSECONDS_PER_SECOND


class History:
    """Windows in a database. A window is saved anew while it grows and found once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, windows: Iterable[Window], devices: Iterable[Device] = ()) -> None:
        """Write windows and what is known of devices, all or nothing.

        Raises:
            HistoryError: they could not be written; nothing was.
        """
        rows = [(window.uuid, window.start, window.end, encode(window)) for window in windows]
        latest = max((finish for _, _, finish, _ in rows), default=0)
        facts = [(device.uuid, json.dumps(asdict(device)), latest) for device in devices]
        with self._database.transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO window VALUES (?, ?, ?, ?)", rows)
            connection.executemany("INSERT OR REPLACE INTO device VALUES (?, ?, ?)", facts)

    def load(self, since: Nanoseconds = 0) -> Iterator[Window]:
        """The windows that begin at a time or later, oldest first.

        A row that cannot be understood is passed over.
        """
        with self._database.transaction() as connection:
            rows = connection.execute(
                "SELECT uuid, data FROM window WHERE start >= ? ORDER BY start, uuid", (since,)
            )
            for uuid, data in rows:
                try:
                    yield decode(uuid, data)
                except ValueError:
                    continue

    def roll_up(self, before: Nanoseconds) -> int:
        """Merge windows that ended before a time into hourly ones; how many rows went away."""
        with self._database.transaction() as connection:
            rows = connection.execute(
                "SELECT uuid, start, data FROM window WHERE finish <= ? AND finish - start < ?",
                (before, _HOUR // 2),
            ).fetchall()
            hours: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
            for uuid, start, data in rows:
                hours.setdefault((uuid, start // _HOUR), []).append((start, data))
            removed = 0
            for (uuid, _), parts in hours.items():
                if len(parts) < 2:  # noqa: PLR2004 - one window is its own sum.
                    continue
                builder = WindowBuilder(uuid)
                for _, data in parts:
                    builder.merge(decode(uuid, data))
                merged = builder.window()
                connection.executemany(
                    "DELETE FROM window WHERE uuid = ? AND start = ?",
                    [(uuid, start) for start, _ in parts],
                )
                connection.execute(
                    "INSERT OR REPLACE INTO window VALUES (?, ?, ?, ?)",
                    (uuid, merged.start, merged.end, encode(merged)),
                )
                removed += len(parts) - 1
        return removed

    def prune(self, before: Nanoseconds) -> int:
        """Forget windows that ended before a time, and devices not seen since; how many rows."""
        with self._database.transaction() as connection:
            gone = connection.execute("DELETE FROM window WHERE finish < ?", (before,)).rowcount
            connection.execute("DELETE FROM device WHERE seen < ?", (before,))
        with self._database.transaction() as connection:
            connection.execute("PRAGMA incremental_vacuum(1000)").fetchall()
        return gone

    @property
    def size_bytes(self) -> int:
        """What the history takes on disk."""
        return self._database.size_bytes
