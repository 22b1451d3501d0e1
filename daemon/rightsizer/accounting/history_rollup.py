"""Roll-up of a history's five-minute windows into hours; sums stay the same."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Final

from rightsizer.accounting.window_builder import WindowBuilder
from rightsizer.accounting.window_codec import encode_window, parse_window_row
from rightsizer.io.database import Database
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

_HOUR: Final = 3600 * NANOSECONDS_PER_SECOND
_PAGE: Final = 500
_OVERLAP: Final = NANOSECONDS_PER_SECOND
"""By which a window may begin before the end of the last: two clocks are not read at once."""


@dataclass(frozen=True, slots=True)
class _Row:
    id: int
    start: Nanoseconds
    finish: Nanoseconds
    data: bytes

    def follows(self, last: "_Row") -> bool:
        """Whether it goes on with the hour of the row that was lived before it."""
        return self.start // _HOUR == last.start // _HOUR and self.start >= last.finish - _OVERLAP


def roll_up_device(database: Database, uuid: str, before: Nanoseconds) -> int:
    """Merge a device's windows of hours that ended before a time; how many rows went away.

    One page a transaction, so that a long history neither fills memory nor locks. An hour that
    the clock lived twice becomes two.
    """
    removed, place = 0, 0
    while True:
        with database.transaction() as connection:
            rows = [
                _Row(*row)
                for row in connection.execute(
                    "SELECT id, start, finish, data FROM window WHERE NOT is_hourly AND uuid = ? "
                    "AND id > ? AND finish <= ? ORDER BY id LIMIT ?",
                    (uuid, place, before, _PAGE),
                )
            ]
            hours = _hours(rows)
            if len(rows) == _PAGE and len(hours) > 1:
                hours.pop()  # It may go on beyond the page.
            removed += sum(_merge(connection, uuid, hour) for hour in hours)
        if len(rows) < _PAGE:
            return removed
        place = hours[-1][-1].id


def _hours(rows: Iterable[_Row]) -> list[list[_Row]]:
    """The rows by the hours that they were lived in, one after the other."""
    hours: list[list[_Row]] = []
    for row in rows:
        if hours and row.follows(hours[-1][-1]):
            hours[-1].append(row)
        else:
            hours.append([row])
    return hours


def _merge(connection: Connection, uuid: str, hour: Sequence[_Row]) -> int:
    parts = {
        row.id: window for row in hour if (window := parse_window_row(uuid, row.data)) is not None
    }
    if not parts:
        return 0
    builder = WindowBuilder(uuid)
    for part in parts.values():
        builder.merge(part)
    merged = builder.window()
    # The first row's place, so that what was lived first still comes first.
    first, *others = parts
    connection.execute(
        "UPDATE window SET start = ?, finish = ?, is_hourly = 1, data = ? WHERE id = ?",
        (merged.start, merged.end, encode_window(merged), first),
    )
    connection.executemany("DELETE FROM window WHERE id = ?", [(other,) for other in others])
    return len(others)
