"""SQLite cache of per-device days; safe to delete: everything can be fetched again."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Final, NamedTuple, Self

from msgspec import Struct

from rightsizer.advice.ledger_repository import LEDGER_SCHEMA, TRACK_SCHEMA
from rightsizer.fleet.cache.day_codec import pack, unpack
from rightsizer.fleet.cache.day_frame import DayFrame, frames_by_day
from rightsizer.fleet.cache.grid import DAY, Grid
from rightsizer.fleet.model import DeviceHolding, FleetDay
from rightsizer.io import codec
from rightsizer.io.database import Database
from rightsizer.io.files import Called
from rightsizer.model.values import Nanoseconds, Workload

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

_WITH_QUEUES: Final = "DELETE FROM done WHERE source = 'dcgm-exporter'"
"""Days cached without queues of serving engines are fetched again."""

DAY_CACHE_SCHEMAS: Final = (_FIRST, LEDGER_SCHEMA, TRACK_SCHEMA, _WITH_QUEUES)
"""Script n migrates from schema n-1 to n.

Days count since the epoch, times and steps are nanoseconds; `data` is a frame encoded by
`day_codec`, covering `days` days from `day`. `done.until` is the time of a device's last
fetch of a day.
"""
_CALLED: Final = Called("the day cache", "fleet.path", "run or service")
_FORGET: Final = (
    "DELETE FROM track WHERE uuid = ? AND source = ? AND day BETWEEN ? AND ?",
    "DELETE FROM holding WHERE uuid = ? AND source = ? AND day BETWEEN ? AND ?",
)
_FORGET_BEFORE: Final = (
    "DELETE FROM track WHERE day + days <= :before",
    "DELETE FROM holding WHERE day + days <= :before",
    "DELETE FROM done WHERE day < :before",
    "DELETE FROM workload WHERE key NOT IN (SELECT workload FROM holding)",
)
_LATER: Final = (
    "DROP TABLE IF EXISTS temp.later",
    "CREATE TEMP TABLE later (source, day, uuid, step, until, PRIMARY KEY (source, day, uuid))",
)
"""A table of days that another cache has read later."""
_ONLY_LATER: Final = """
DELETE FROM later WHERE min(until, (day + 1) * ? + ?) <= (SELECT until FROM done
  WHERE (done.source, done.day, done.uuid) = (later.source, later.day, later.uuid))
"""
_FORGET_LATER: Final = """
DELETE FROM {} WHERE (source, day, uuid) IN (SELECT source, day, uuid FROM later)
"""
_COUNT_LATER: Final = """
SELECT count(*) FROM later WHERE source = ? AND uuid = ? AND day BETWEEN ? AND ?
"""
_COPY_LATER: Final = """
INSERT INTO {} SELECT part.* FROM (VALUES ({})) AS part
  JOIN later ON (source, day, uuid) = (column3, column2, column1)
"""
_SINCE: Final = "SELECT * FROM {} WHERE day + days > ?"
_COLUMNS: Final = {"track": 6, "holding": 9}
_FRAMES: Final = """
SELECT uuid, day, source, step, days, data FROM track
  WHERE day + days > ? AND day <= ? AND uuid IN (SELECT value FROM json_each(?))
  ORDER BY uuid, day, source
"""
_HELD: Final = """
SELECT uuid, source, day, step, days, workload, first, last, share FROM holding
  WHERE day + days > ? AND day <= ? {}
  ORDER BY uuid, day, source, first, workload
"""


class CachedFrame(NamedTuple):
    """Days of a device from one source."""

    source: str
    frame: DayFrame


class HoldingRow(NamedTuple):
    """Share of a device that a workload held over intervals of a day, from one source."""

    uuid: str
    source: str
    grid: Grid
    workload: str
    """Key of the workload."""
    first: int
    last: int
    share_ratio: float

    @property
    def start(self) -> Nanoseconds:
        """Wall time of the start of the first interval."""
        return self.grid.time(self.first)

    @property
    def end(self) -> Nanoseconds:
        """Wall time of the end of the last interval."""
        return self.grid.time(self.last + 1)

    def places(self, grid: Grid) -> tuple[int, int]:
        """Return its first interval on another grid, and the one after its last."""
        return (self.start - grid.start) // grid.step, -(-(self.end - grid.start) // grid.step)


def rows_by_day(rows: Iterable[HoldingRow]) -> Iterator[HoldingRow]:
    """Split holdings at the end of days."""
    for row in rows:
        intervals_a_day = DAY // row.grid.step
        for place, grid in enumerate(row.grid.parts()):
            first = row.first - place * intervals_a_day
            last = row.last - place * intervals_a_day
            if first < intervals_a_day and last >= 0:
                yield row._replace(
                    grid=grid, first=max(0, first), last=min(intervals_a_day - 1, last)
                )


def merged_holdings(rows: Iterable[HoldingRow], sources: Sequence[str]) -> list[HoldingRow]:
    """Return the holdings of each device and day by the first source that knows."""
    merged: list[HoldingRow] = []
    for _, of_device in groupby(rows, lambda row: row.uuid):
        holding_rows = list(of_device)
        if len({row.source for row in holding_rows}) == 1:
            merged += holding_rows
            continue
        holding_rows = sorted(
            rows_by_day(holding_rows), key=lambda row: (row.grid.day, rank(row.source, sources))
        )
        for _, of_day in groupby(holding_rows, lambda row: row.grid.day):
            _, of_source = next(groupby(of_day, lambda row: row.source))
            merged += of_source
    return merged


def rank(source: str, sources: Sequence[str]) -> tuple[int, str]:
    """Return a key that sorts sources by preference."""
    return (sources.index(source) if source in sources else len(sources)), source


class PackedDay(Struct, frozen=True):
    """A day of some devices, as stored."""

    source: str
    grid: Grid
    uuids: tuple[str, ...]
    """All fetched devices, including those without samples."""
    until: Nanoseconds
    """Time up to which samples could exist when it was fetched."""
    frames: Mapping[str, bytes]
    holdings: Mapping[str, tuple[DeviceHolding, ...]]

    @classmethod
    def of(
        cls, source: str, grid: Grid, uuids: Sequence[str], until: Nanoseconds, day: FleetDay
    ) -> Self:
        """Pack what a source returned."""
        frames = {uuid: pack(frame) for uuid, frame in day.frames.items()}
        return cls(source, grid, tuple(uuids), until, frames, dict(day.holdings))


def _by_day_if_partly_later(
    connection: Connection, rows: Iterable[tuple[Any, ...]]
) -> Iterator[tuple[Any, ...]]:
    """Yield rows; those of several days, of which only some were read later, day by day."""
    for row in rows:
        uuid, day, source, step, days, *rest = row
        last = day + days - 1
        if (
            days == 1
            or days == connection.execute(_COUNT_LATER, (source, uuid, day, last)).fetchone()[0]
        ):
            yield row
        elif len(rest) == 1:
            with suppress(ValueError):
                for frame in frames_by_day([unpack(Grid(day, step, days), *rest)]):
                    yield uuid, frame.grid.day, source, step, 1, pack(frame)
        else:
            held = HoldingRow(uuid, source, Grid(day, step, days), *rest)
            for part in rows_by_day([held]):
                yield uuid, part.grid.day, source, step, 1, *part[3:]


class DayCache:
    """Days in SQLite. One process writes; others may read concurrently."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        """Open the file, or create it.

        Raises:
            HistoryError: another process writes it, a newer version wrote it, or it is
                    inaccessible.
        """
        self.database = Database(
            path, DAY_CACHE_SCHEMAS, read_only=read_only, is_durable=False, called=_CALLED
        )
        self._known: dict[str, str] = {}
        """Workloads as last written."""

    def put(self, day: PackedDay) -> None:
        """Replace a day of some devices atomically.

        Raises:
            HistoryError: the disk is full, or the file was broken and replaced.
        """
        grid = day.grid
        until = day.until
        former = [(uuid, day.source, grid.day, grid.day + grid.days - 1) for uuid in day.uuids]
        held = [
            (uuid, holding)
            for uuid, device_holdings in day.holdings.items()
            for holding in device_holdings
        ]
        held_workloads = {holding.workload.key: holding.workload for _, holding in held}
        workloads = {key: codec.stored(workload) for key, workload in held_workloads.items()}
        news = {key: text for key, text in workloads.items() if self._known.get(key) != text}
        place = grid.day, day.source, grid.step, grid.days
        rows: dict[str, list[tuple[object, ...]]] = {
            "INSERT INTO track VALUES (?, ?, ?, ?, ?, ?)": [
                (uuid, *place, data) for uuid, data in day.frames.items()
            ],
            "INSERT INTO holding VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)": [
                (
                    uuid,
                    *place,
                    holding.workload.key,
                    holding.first,
                    holding.last,
                    holding.share_ratio,
                )
                for uuid, holding in held
            ],
            "INSERT OR REPLACE INTO done VALUES (?, ?, ?, ?, ?)": [
                (day.source, part.day, uuid, part.step, until)
                for part in grid.parts()
                for uuid in day.uuids
            ],
            "INSERT OR REPLACE INTO workload VALUES (?, ?)": list(news.items()),
        }
        with self.database.transaction() as connection:
            for query in _FORGET:
                connection.executemany(query, former)
            for query, values in rows.items():
                connection.executemany(query, values)
        self._known |= news

    def take_over(self, other: Self, late: Nanoseconds) -> Nanoseconds:
        """Copy the days that another cache has read later; return when it last read, 0 if never.

        Days that this one has read `late` after their end are complete and stay.

        Raises:
            HistoryError: one of the files cannot be read or written.
        """
        self._known.clear()
        with self.database.transaction() as connection:
            for statement in _LATER:
                connection.execute(statement)
            every = other.database.stream("SELECT * FROM done")
            connection.executemany("INSERT INTO later VALUES (?, ?, ?, ?, ?)", every)
            (last,) = connection.execute("SELECT max(until) FROM later").fetchone()
            connection.execute(_ONLY_LATER, (DAY, late))
            (first,) = connection.execute("SELECT min(day) FROM later").fetchone()
            for table, columns in _COLUMNS.items() if first is not None else ():
                connection.execute(_FORGET_LATER.format(table))
                rows = other.database.stream(_SINCE.format(table), (first,))
                parts = _by_day_if_partly_later(connection, rows)
                values = ", ".join("?" * columns)
                connection.executemany(_COPY_LATER.format(table, values), parts)
            facts = other.database.stream("SELECT * FROM workload")
            connection.executemany("INSERT OR REPLACE INTO workload VALUES (?, ?)", facts)
            connection.execute("INSERT OR REPLACE INTO done SELECT * FROM later")
        return last or 0

    def done(self, source: str, days: Sequence[int]) -> dict[tuple[int, str], Nanoseconds]:
        """Return by day and uuid up to when a source was read, for consecutive days."""
        query = "SELECT day, uuid, until FROM done WHERE source = ? AND day BETWEEN ? AND ?"
        rows = self.database.rows(query, (source, days[0], days[-1]))
        return {(day, uuid): until for day, uuid, until in rows}

    def frames(self, uuids: Sequence[str], first: int, last: int) -> dict[str, list[CachedFrame]]:
        """Return the days of devices, oldest first; both ends inclusive.

        Unreadable rows are skipped: their time counts as unknown.
        """
        frames: dict[str, list[CachedFrame]] = {}
        for uuid, day, source, step, days, data in self.database.rows(
            _FRAMES, (first, last, codec.encode(list(uuids)).decode())
        ):
            of_device = frames.setdefault(uuid, [])
            with suppress(ValueError):
                of_device.append(CachedFrame(source, unpack(Grid(day, step, days), data)))
        return frames

    def holdings(
        self, first: int, last: int, uuids: Sequence[str] | None = None
    ) -> list[HoldingRow]:
        """Return the holdings of some or all devices, by device, oldest first; days inclusive."""
        chosen = ""
        values = list[Any]((first, last))
        if uuids is not None:
            chosen = "AND uuid IN (SELECT value FROM json_each(?))"
            values = [*values, codec.encode(list(uuids)).decode()]
        return [
            HoldingRow(uuid, source, Grid(day, step, days), *rest)
            for uuid, source, day, step, days, *rest in self.database.rows(
                _HELD.format(chosen), values
            )
        ]

    def workloads(self) -> dict[str, Workload]:
        """Return all workloads that ever held a device, by key, as last seen."""
        rows = self.database.rows("SELECT key, facts FROM workload", ())
        return {key: codec.decode(text, Workload) for key, text in rows}

    def forget(self, before: int) -> int:
        """Delete what is older than a day; return the number of deleted frames."""
        with self.database.transaction() as connection:
            counts = [
                connection.execute(statement, {"before": before}).rowcount
                for statement in _FORGET_BEFORE
            ]
        self._known.clear()
        with self.database.transaction() as connection:
            connection.execute("PRAGMA incremental_vacuum").fetchall()
        return counts[0]

    def close(self) -> None:
        """Close the file, so that others can write it."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
