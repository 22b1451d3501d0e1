"""The history: closed windows of every device, on disk, bounded, and back again after a restart."""

from collections.abc import Iterable, Iterator, Sequence
from sqlite3 import Connection
from typing import Final

from rightsizer.accounting.builder import WindowBuilder
from rightsizer.accounting.known import KnownDevice, from_text, to_text
from rightsizer.accounting.window_form import decode, encode
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
_PAGE: Final = 500
_SAVE_DEVICE: Final = """
INSERT INTO device VALUES (?, ?, ?)
  ON CONFLICT (uuid) DO UPDATE SET facts = excluded.facts, seen = max(seen, excluded.seen)
"""


class History:
    """Windows in a database. A window is saved anew while it grows and found once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, windows: Iterable[Window], devices: Iterable[KnownDevice] = ()) -> None:
        """Write windows and what is known of devices, all or nothing.

        Raises:
            HistoryError: they could not be written; nothing was.
        """
        rows = [(window.uuid, window.start, window.end, encode(window)) for window in windows]
        latest = max((finish for _, _, finish, _ in rows), default=0)
        facts = [(known.device.uuid, to_text(known), latest) for known in devices]
        with self._database.transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO window VALUES (?, ?, ?, ?)", rows)
            connection.executemany(_SAVE_DEVICE, facts)

    def load(self, since: Nanoseconds = 0) -> Iterator[Window]:
        """The windows that begin at a time or later, oldest first.

        A row that cannot be understood is passed over.
        """
        place = (since, "")
        # Page by page: whoever reads slowly, or not to the end, holds no lock meanwhile.
        while rows := self._page(place):
            for _, uuid, data in rows:
                window = _understood(uuid, data)
                if window is not None:
                    yield window
            place = rows[-1][:2]

    def devices(self) -> tuple[KnownDevice, ...]:
        """The devices that were seen, by index; a row that cannot be understood is passed over."""
        with self._database.transaction() as connection:
            rows = connection.execute("SELECT facts FROM device").fetchall()
        found = []
        for (text,) in rows:
            try:
                found.append(from_text(text))
            except ValueError:
                continue
        return tuple(sorted(found, key=lambda known: (known.device.index, known.device.uuid)))

    def roll_up(self, before: Nanoseconds) -> int:
        """Merge windows that ended before a time into hourly ones; how many rows went away."""
        with self._database.transaction() as connection:
            uuids = [uuid for (uuid,) in connection.execute("SELECT DISTINCT uuid FROM window")]
        return sum(self._roll_up_device(uuid, before) for uuid in uuids)

    def prune(self, before: Nanoseconds) -> int:
        """Forget windows that ended before a time, and devices not seen since; how many rows."""
        with self._database.transaction() as connection:
            gone = connection.execute("DELETE FROM window WHERE finish < ?", (before,)).rowcount
            connection.execute("DELETE FROM device WHERE seen < ?", (before,))
        with self._database.transaction() as connection:
            # As a script: `execute` would take one step, which frees a single page.
            connection.executescript("PRAGMA incremental_vacuum(1000)")
        return gone

    @property
    def size_bytes(self) -> int:
        """What the history takes on disk."""
        return self._database.size_bytes

    def _roll_up_device(self, uuid: str, before: Nanoseconds) -> int:
        """One page a transaction, so that a long history neither fills memory nor locks."""
        removed, place = 0, -1
        while True:
            with self._database.transaction() as connection:
                rows = connection.execute(
                    "SELECT start, data FROM window WHERE uuid = ? AND start > ? AND finish <= ? "
                    "AND finish - start < ? ORDER BY start LIMIT ?",
                    (uuid, place, before, _HOUR // 2, _PAGE),
                ).fetchall()
                hours: dict[int, list[Window]] = {}
                for start, data in rows:
                    window = _understood(uuid, data)
                    if window is not None:
                        hours.setdefault(start // _HOUR, []).append(window)
                for parts in hours.values():
                    _replace(connection, uuid, parts)
            removed += sum(len(parts) - 1 for parts in hours.values())
            if len(rows) < _PAGE:
                return removed
            place = rows[-1][0]

    def _page(self, after: tuple[int, str]) -> list[tuple[int, str, bytes]]:
        with self._database.transaction() as connection:
            return connection.execute(
                "SELECT start, uuid, data FROM window WHERE (start, uuid) > (?, ?) "
                "ORDER BY start, uuid LIMIT ?",
                (*after, _PAGE),
            ).fetchall()


def _understood(uuid: str, data: bytes) -> Window | None:
    try:
        return decode(uuid, data)
    except ValueError:
        return None


def _replace(connection: Connection, uuid: str, parts: Sequence[Window]) -> None:
    builder = WindowBuilder(uuid)
    for part in parts:
        builder.merge(part)
    merged = builder.window()
    connection.executemany(
        "DELETE FROM window WHERE uuid = ? AND start = ?", [(uuid, part.start) for part in parts]
    )
    connection.execute(
        "INSERT OR REPLACE INTO window VALUES (?, ?, ?, ?)",
        (uuid, merged.start, merged.end, encode(merged)),
    )
