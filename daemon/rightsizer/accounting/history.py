"""Repository of windows and devices in SQLite, rolled up by age."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from sqlite3 import Connection
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import astuple, replace

from rightsizer.accounting.device_record import DeviceRecord
from rightsizer.accounting.window_builder import WindowBuilder
from rightsizer.accounting.window_codec import encode_window, parse_window_row
from rightsizer.host.pcie import kernel_address
from rightsizer.io.codec import decode, stored
from rightsizer.io.database import Database
from rightsizer.model.values import HOUR, NANOSECONDS_PER_SECOND, Nanoseconds, Window

_PAGE: Final = 500
_OVERLAP: Final = NANOSECONDS_PER_SECOND
"""Tolerated overlap of consecutive windows, since two clocks are not read at once."""


class _Row(Struct, frozen=True):
    id: int
    start: Nanoseconds
    finish: Nanoseconds
    data: bytes

    def follows(self, last: "_Row") -> bool:
        """Whether it continues the hour of a previous row."""
        return self.start // HOUR == last.start // HOUR and self.start >= last.finish - _OVERLAP


def roll_up_device(database: Database, uuid: str, before: Nanoseconds) -> int:
    """Merge a device's windows into hours before a time; return the number of rows removed.

    Uses one transaction per page, so that a long history neither fills memory nor holds the lock.
    An hour repeated after a clock change becomes two.
    """
    removed = 0
    place = 0
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
            hours: list[list[_Row]] = []
            for row in rows:
                if hours and row.follows(hours[-1][-1]):
                    hours[-1].append(row)
                else:
                    hours.append([row])
            if len(rows) == _PAGE and len(hours) > 1:
                hours.pop()  # It may continue on the next page.
            removed += sum(_merge(connection, uuid, hour) for hour in hours)
        if len(rows) < _PAGE:
            return removed
        place = hours[-1][-1].id


def _merge(connection: Connection, uuid: str, hour: Sequence[_Row]) -> int:
    parts = {
        row.id: window for row in hour if (window := parse_window_row(uuid, row.data)) is not None
    }
    if not parts:
        return 0
    merged = WindowBuilder(uuid, parts.values()).window()
    # Keep the first row's id, so that rows stay in the order of recording.
    first, *others = parts
    connection.execute(
        "UPDATE window SET start = ?, finish = ?, is_hourly = 1, data = ? WHERE id = ?",
        (merged.start, merged.end, encode_window(merged), first),
    )
    connection.executemany("DELETE FROM window WHERE id = ?", [(other,) for other in others])
    return len(others)


_ROWS_FORGOTTEN: Final = 64
"""Rows deleted at once; a page of the file becomes free with its last row."""
_VACUUM: Final = "PRAGMA incremental_vacuum(1000)"
_VACUUMS: Final = 64
_PAGE_OF_WINDOWS: Final = """
SELECT start, id, finish, uuid, data FROM window
  WHERE (start, id) > (?, ?) AND (? IS NULL OR start < ?) ORDER BY start, id LIMIT ?
"""
_SAVE_DEVICE: Final = """
INSERT INTO device VALUES (?, ?, ?)
  ON CONFLICT (uuid) DO UPDATE SET facts = excluded.facts, seen = max(seen, excluded.seen)
"""
_TAKE_OVER_DEVICE: Final = """
INSERT INTO device VALUES (?, ?, ?)
  ON CONFLICT (uuid) DO UPDATE SET
    facts = CASE WHEN excluded.seen < seen THEN facts ELSE excluded.facts END,
    seen = max(seen, excluded.seen)
"""
_SAVE_HOLDING: Final = """
INSERT INTO holding VALUES (?, ?, ?, ?)
  ON CONFLICT (uuid, since, workload) DO UPDATE SET seen = max(seen, excluded.seen)
"""


class PackedWindow(Struct, frozen=True):
    """Encoded window; a tenth of its size."""

    uuid: str
    start: Nanoseconds
    end: Nanoseconds
    data: bytes

    @classmethod
    def of(cls, window: "Window | PackedWindow") -> "PackedWindow":
        """Encode a window."""
        if isinstance(window, PackedWindow):
            return window
        return cls(window.uuid, window.start, window.end, encode_window(window))


class HolderPeriod(Struct, frozen=True):
    """Tenancy of a device: holder, start, and last confirmation."""

    uuid: str
    since: Nanoseconds
    workload: str
    seen: Nanoseconds

    def overlaps(self, window: Window) -> bool:
        """Whether the workload held the device during part of a window."""
        return self.uuid == window.uuid and self.since < window.end and self.seen > window.start


class DamagedWindow(NamedTuple):
    """Window whose content cannot be decoded."""

    uuid: str
    start: Nanoseconds
    end: Nanoseconds


class HistoryRepository:
    """Windows in a database. A growing window is updated in place."""

    def __init__(self, database: Database, maximum_bytes: int | None = None) -> None:
        self._database = database
        self._maximum = maximum_bytes
        self._growing: dict[str, int] = {}
        self._breaks = database.breaks
        self.forgotten = 0
        """Windows deleted early to stay within the size limit."""
        self.damaged: dict[int, DamagedWindow] = {}
        """Undecodable windows that were met so far, by row."""

    def save(
        self,
        windows: Iterable[Window | PackedWindow],
        devices: Iterable[DeviceRecord] = (),
        *,
        running: Iterable[Window] = (),
        replaces_all: bool = False,
    ) -> None:
        """Write windows and device records in one transaction.

        The first closed window of a device replaces its running row. A running window replaces its
        previous row, or with `replaces_all` everything saved.

        Raises:
            HistoryError: the transaction failed; nothing was written.
        """
        breaks = self._database.breaks
        latest = dict[str, Nanoseconds]()
        before = {} if replaces_all or self._breaks != breaks else dict(self._growing)
        growing: dict[str, int] = {}
        closed, open_now = (list(map(PackedWindow.of, group)) for group in (windows, running))
        for window in (*closed, *open_now):
            latest[window.uuid] = max(latest.get(window.uuid, 0), window.end)
        with self._database.transaction() as connection:
            if replaces_all:
                connection.execute("DELETE FROM window")
            for window in closed:
                _put(connection, window, before.pop(window.uuid, None))
            for window in open_now:
                growing[window.uuid] = _put(connection, window, before.get(window.uuid))
            _put_devices(connection, devices, latest)
            forgotten = self._make_room(connection)
        # Only after the commit: otherwise windows not written are inserted again next time.
        self._growing = growing
        self._breaks = breaks
        self.forgotten += forgotten

    def load(self, since: Nanoseconds = 0, until: Nanoseconds | None = None) -> Iterator[Window]:
        """Iterate over windows that begin in a time range, oldest first.

        An hour repeated after a clock change yields both its windows; windows with the same start
        come in the order of recording. Undecodable rows are skipped and counted.
        """
        place = (since, 0)
        # In pages, so that a reader that is slow or stops early holds no lock.
        while rows := self._database.rows(_PAGE_OF_WINDOWS, (*place, until, until, _PAGE)):
            for start, row, end, uuid, data in rows:
                if (window := parse_window_row(uuid, data)) is not None:
                    yield window
                else:
                    self.damaged[row] = DamagedWindow(uuid, start, end)
            place = rows[-1][:2]

    def extent(self) -> tuple[Nanoseconds, Nanoseconds] | None:
        """Start of the first window and end of the last; `None` if empty."""
        ((first, last),) = self._database.rows("SELECT min(start), max(finish) FROM window")
        return None if first is None else (first, last)

    def devices(self) -> tuple[DeviceRecord, ...]:
        """Known devices, by index; undecodable rows are skipped."""
        records = []
        for (text,) in self._database.rows("SELECT facts FROM device"):
            with suppress(ValueError):
                records.append(decode(text, DeviceRecord))
        return tuple(sorted(records, key=lambda device: (device.device.index, device.device.uuid)))

    def present_devices(self) -> tuple[DeviceRecord, ...]:
        """Devices without those that were forgotten, and GPUs that others replaced in their slots.

        Of two GPUs at one PCI address, the one that was seen last is there.
        """
        places: dict[str, Nanoseconds] = {}
        records: list[tuple[DeviceRecord, str | None, Nanoseconds]] = []
        for text, seen in self._database.rows("SELECT facts, seen FROM device"):
            with suppress(ValueError):
                record = decode(text, DeviceRecord)
                address = kernel_address(record.device.pci_bus_id)
                if address is not None:
                    places[address] = max(seen, places.get(address, 0))
                records.append((record, address, seen))
        present = (
            record
            for record, address, seen in records
            if not record.is_forgotten and (address is None or seen == places[address])
        )
        return tuple(sorted(present, key=lambda device: (device.device.index, device.device.uuid)))

    def forget(self, uuid: str) -> bool:
        """Mark a GPU and its MIG instances as gone; return whether one was known and not marked.

        Raises:
            HistoryError: the transaction failed; nothing was written.
        """
        records = [
            device
            for device in self.devices()
            if uuid in {device.device.uuid, device.device.board_uuid}
        ]
        marked = [
            replace(device, is_forgotten=True) for device in records if not device.is_forgotten
        ]
        with self._database.transaction() as connection:
            for record in marked:
                connection.execute(
                    "UPDATE device SET facts = ? WHERE uuid = ?",
                    (stored(record), record.device.uuid),
                )
        return bool(marked)

    def tenures(self) -> tuple[HolderPeriod, ...]:
        """Tenancies of all devices, oldest first per device."""
        query = "SELECT uuid, since, workload, seen FROM holding ORDER BY uuid, since, workload"
        return tuple(HolderPeriod(*row) for row in self._database.rows(query))

    def roll_up(self, before: Nanoseconds) -> int:
        """Merge windows into hours before a time; return the number of rows removed."""
        before -= before % HOUR
        uuids = self._database.rows("SELECT DISTINCT uuid FROM window WHERE NOT is_hourly")
        return sum(roll_up_device(self._database, uuid, before) for (uuid,) in uuids)

    def prune(self, before: Nanoseconds) -> int:
        """Delete windows that ended before a time and devices not seen since; return the count."""
        with self._database.transaction() as connection:
            gone = connection.execute(
                "DELETE FROM window WHERE start < ? AND finish < ?", (before, before)
            ).rowcount
            connection.execute("DELETE FROM device WHERE seen < ?", (before,))
            connection.execute("DELETE FROM holding WHERE seen < ?", (before,))
        self._give_back()
        return gone

    @property
    def size_bytes(self) -> int:
        """Size on disk after the last change, without a system call."""
        return self._database.size_bytes

    def replace(self, source: "HistoryRepository") -> None:
        """Import another history in one transaction, replacing the same windows.

        A device record seen later than anything in the other history is kept.

        Raises:
            HistoryError: the transaction failed; nothing was written.
        """
        windows = source.load()
        begun: set[tuple[str, Nanoseconds]] = set()
        latest: dict[str, Nanoseconds] = {}
        with self._database.transaction() as connection:
            while page := list(islice(windows, _PAGE)):
                # An hour that the source contains twice is inserted twice.
                new = {(window.uuid, window.start) for window in page} - begun
                connection.executemany("DELETE FROM window WHERE uuid = ? AND start = ?", new)
                for window in map(PackedWindow.of, page):
                    _put(connection, window, None)
                begun = {begin for begin in new | begun if begin[1] == page[-1].start}
                latest.update((window.uuid, window.end) for window in page)
            if latest:
                _put_devices(connection, source.devices(), latest, _TAKE_OVER_DEVICE)
            tenures = [astuple(tenure) for tenure in source.tenures()]
            connection.executemany(_SAVE_HOLDING, tenures)
            self.forgotten += self._make_room(connection)

    def _make_room(self, connection: Connection) -> int:
        """Delete the oldest windows until within the size limit; return their number."""
        forgotten = 0
        while self._maximum is not None and _used_bytes(connection) > self._maximum:
            gone = connection.execute(
                "DELETE FROM window WHERE id IN (SELECT id FROM window ORDER BY start, id LIMIT ?)",
                (_ROWS_FORGOTTEN,),
            ).rowcount
            if not gone:
                break
            forgotten += gone
        return forgotten

    def _give_back(self) -> None:
        for _ in range(_VACUUMS):
            with self._database.transaction() as connection:
                if not _pragma(connection, "freelist_count"):
                    return
                # As a script: `execute` would make one step, which frees a single page.
                connection.executescript(_VACUUM)


def _put(connection: Connection, window: PackedWindow, row: int | None) -> int:
    """Update a window's row, or insert a new one; return its id."""
    values = (window.start, window.end, window.data)
    if row is not None:
        # A growing window only ever covers more; otherwise it is a new run of the device.
        changed = connection.execute(
            "UPDATE window SET start = ?, finish = ?, data = ? "
            "WHERE id = ? AND uuid = ? AND start >= ? AND finish <= ?",
            (*values, row, window.uuid, window.start, window.end),
        )
        if changed.rowcount:
            return row
    added = connection.execute(
        "INSERT INTO window (uuid, start, finish, data) VALUES (?, ?, ?, ?)", (window.uuid, *values)
    )
    return int(added.lastrowid or 0)


def _put_devices(
    connection: Connection,
    devices: Iterable[DeviceRecord],
    latest: Mapping[str, Nanoseconds],
    save: str = _SAVE_DEVICE,
) -> None:
    newest = max(latest.values(), default=0)
    for device in devices:
        uuid = device.device.uuid
        connection.execute(save, (uuid, stored(device), newest))
        if device.holder is not None:
            seen = latest.get(uuid, device.holder_since)
            connection.execute(_SAVE_HOLDING, (uuid, device.holder_since, device.holder.key, seen))


def _used_bytes(connection: Connection) -> int:
    pages = _pragma(connection, "page_count") - _pragma(connection, "freelist_count")
    return pages * _pragma(connection, "page_size")


def _pragma(connection: Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
