"""Export of Nsight Systems opened as an untrusted SQLite file, and the GPUs it names."""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Final

from rightsizer.model.errors import ProfileError
from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.profiles.reader import unreadable
from rightsizer.telemetry.profiles.recorder import Recorder

MAGIC: Final = b"SQLite format 3\0"
_HARDENING: Final = (
    "PRAGMA trusted_schema=OFF",
    "PRAGMA query_only=ON",
    "PRAGMA cell_size_check=ON",
    "PRAGMA mmap_size=0",
    "PRAGMA cache_size=-8192",
)
_TABLES_MAXIMUM: Final = 2000
_INSTRUCTIONS_ALLOWED: Final = 20_000_000
_INSTRUCTIONS_A_BYTE: Final = 8
"""A row takes some 15 of SQLite's steps and at least 20 bytes. Pages that stand for each other
can make a small file unfold without end; what is allowed grows with the file alone."""
_INSTRUCTIONS_A_LOOK: Final = 10_000

_WHOLE: Final = frozenset({int})
_SECRET: Final = frozenset({"TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE"})
"""The whole environment of the profiled program, and how it was called."""
_KNOWN_PREFIXES = ("GPU-", "MIG-")


@contextmanager
def open_export(path: Path, limits: ReadLimits) -> Iterator["ExportDatabase"]:
    """A file for reading; whatever SQLite finds wrong with it names the file.

    Raises:
        ProfileError: it is no database, broken, larger than allowed, or unfolds without end.
    """
    connection = None
    try:
        size = path.stat().st_size
        if size > limits.unpacked_maximum_bytes:
            raise ProfileError(
                f"{path.name}: larger than {limits.unpacked_maximum_bytes} bytes; record a shorter "
                "time, or raise unpacked_maximum"
            )
        # Immutable: no lock, no journal is replayed and nothing is written beside the file.
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        yield ExportDatabase(connection, size, limits)
    except OSError as error:
        raise unreadable(path, error) from None
    except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
        # What SQLite says of broken names is as broken as they are.
        said = "its names are no text" if isinstance(error, UnicodeError) else str(error)
        raise ProfileError(
            f"{path.name}: not a sound SQLite database: {said}; export it again with "
            "`nsys export --type sqlite`"
        ) from None
    finally:
        if connection is not None:
            connection.close()


class ExportDatabase:
    """Tables by name, columns by name, rows one at a time in the order in which they lie."""

    def __init__(self, connection: sqlite3.Connection, size: int, limits: ReadLimits) -> None:
        self._connection = connection
        self._left = _INSTRUCTIONS_ALLOWED + _INSTRUCTIONS_A_BYTE * size
        self._texts: dict[int, str] = {}
        self._texts_maximum = 2 * limits.kernel_names_maximum
        self.unread: Counter[str] = Counter()
        """Rows that are of no use, by what they are."""
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.event_maximum_bytes)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_progress_handler(self._is_out_of_budget, _INSTRUCTIONS_A_LOOK)
        for statement in _HARDENING:
            connection.execute(statement)
        self.tables = self._plain_tables()
        """What is a table, and neither a view nor virtual."""
        self._columns: dict[str, frozenset[str]] = {}
        connection.set_authorizer(_authorize)

    def columns(self, table: str) -> frozenset[str]:
        """Of one table, computed ones left out; none where there is no such table."""
        if table not in self.tables:
            return frozenset()
        if table not in self._columns:
            rows = self._connection.execute(f"PRAGMA table_info({_quoted(table)})")
            self._columns[table] = frozenset(row[1] for row in rows)
        return self._columns[table]

    def rows(
        self, table: str, required: Sequence[str], optional: Sequence[str] = ()
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of a table as far as it has them.

        Required columns hold whole numbers: rows without are counted as unread, and all are where
        such a column is not there. Optional ones are `None` where they are not there.
        """
        there = self.columns(table)
        if not there:
            return
        if absent := [column for column in required if column not in there]:
            self.unread[f"{table} without {absent[0]}"] += self.count(table)
            return
        named = ", ".join(
            _quoted(column) if column in there else "NULL" for column in (*required, *optional)
        )
        query = f"SELECT {named} FROM {_quoted(table)} NOT INDEXED"  # noqa: S608 - both quoted.
        size = len(required)
        for row in self._connection.execute(query):
            if _WHOLE.issuperset(map(type, row[:size])):
                yield row
            else:
                self.unread[f"{table} row of another form"] += 1

    def count(self, table: str) -> int:
        """Rows in a table."""
        # A plain count(*) walks all pages in one of SQLite's steps, which nothing can stop.
        rows = f"SELECT 1 FROM {_quoted(table)} NOT INDEXED LIMIT -1"  # noqa: S608 - quoted.
        query = f"SELECT count(*) FROM ({rows})"  # noqa: S608 - the same.
        return int(self._connection.execute(query).fetchone()[0])

    def text(self, number: Any) -> str:
        """What stands in the table of texts under a number; nothing where nothing does."""
        if (known := self._texts.get(number)) is not None:
            return known
        if type(number) is not int or not {"id", "value"} <= self.columns("StringIds"):
            return ""
        query = "SELECT value FROM StringIds WHERE id = ?"
        try:
            row = self._connection.execute(query, (number,)).fetchone()
        except sqlite3.DataError:  # Longer than is allowed.
            row = None
        text = row[0] if row and isinstance(row[0], str) else ""
        if len(self._texts) < self._texts_maximum:
            self._texts[number] = text
        return text

    def _plain_tables(self) -> frozenset[str]:
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
        rows = self._connection.execute(query).fetchmany(_TABLES_MAXIMUM)
        return frozenset(
            name
            for name, sql in rows
            if isinstance(name, str)
            and isinstance(sql, str)
            and sql.lstrip()[:12].upper() == "CREATE TABLE"
            and name not in _SECRET
        )

    def _is_out_of_budget(self) -> bool:
        """Whether SQLite has to stop."""
        self._left -= _INSTRUCTIONS_A_LOOK
        return self._left < 0


def _authorize(
    action: int, first: str | None, second: str | None, _database: str | None, _by: str | None
) -> int:
    """Reading of tables that are no secret, and nothing else: no function, no view, no trigger."""
    is_allowed = (
        action == sqlite3.SQLITE_SELECT
        or (action == sqlite3.SQLITE_READ and first not in _SECRET)
        or (action == sqlite3.SQLITE_FUNCTION and second == "count")
        or (action == sqlite3.SQLITE_PRAGMA and first == "table_info")
    )
    return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def process_of(number: Any) -> int:
    """The process of a serialized process or thread number; 0 where there is none."""
    return (number >> 24) & 0xFFFFFF if type(number) is int else 0


class Gpus:
    """The devices of an export, made known to the recorder as they come up."""

    def __init__(self, database: ExportDatabase, recorder: Recorder) -> None:
        self._recorder = recorder
        self._facts = _gpu_facts(database)
        self._mapped = _mapped(database, self._facts)
        self._keys: dict[tuple[int, int], str] = {}
        self.is_ambiguous = False
        """Whether processes have the same device number and nothing tells whose is which."""

    def key(self, process: int, device: int) -> str:
        """The key of a process's device."""
        if (process, device) not in self._keys:
            self._keys[process, device] = self._made(process, device)
        return self._keys[process, device]

    def of_process(self, process: int) -> tuple[str, ...]:
        """The devices that a process has used so far."""
        return tuple(sorted({key for (owner, _), key in self._keys.items() if owner == process}))

    def _made(self, process: int, device: int) -> str:
        gpu = self._mapped.get((process, device), self._mapped.get((0, device)))
        if gpu is None and device == 0 and len(self._facts) == 1:
            gpu = next(iter(self._facts))
        index = device if gpu is None else gpu
        key, facts = str(index), self._facts.get(index, {})
        if gpu is None and (self._mapped or key in self._keys.values()):
            # Each process may count its own devices from 0, so they are kept apart.
            self.is_ambiguous = True
            key, facts = f"{device} of process {process}", {}
        self._recorder.device(key, index=index, **facts)
        return key


def _gpu_facts(database: ExportDatabase) -> dict[int, dict[str, Any]]:
    """Fields of `ProfiledDevice` by a GPU's number."""
    facts: dict[int, dict[str, Any]] = {}
    named = ("name", "uuid")
    # Until 2021, as CUDA numbers them.
    former = (*named, "globalMemorySize", "numMultiprocessors")
    for number, name, uuid, memory, multiprocessors in chain(
        database.rows("TARGET_INFO_GPU", ("id",), (*named, "totalMemory", "smCount")),
        database.rows("TARGET_INFO_CUDA_GPU", ("deviceId",), former),
    ):
        found = {"name": _text(name), "uuid": _uuid(uuid), "memory_bytes": _count(memory)}
        facts.setdefault(number, {**found, "multiprocessors": _count(multiprocessors)})
    return facts


def _mapped(
    database: ExportDatabase, facts: dict[int, dict[str, Any]]
) -> dict[tuple[int, int], int]:
    """Processes and their device numbers to GPUs; fills in what the GPUs' own table lacks."""
    mapped: dict[tuple[int, int], int] = {}
    rows = database.rows(
        "TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId"), ("pid", "uuid", "numMultiprocessors")
    )
    for gpu, device, process, uuid, multiprocessors in rows:
        mapped[process if type(process) is int else 0, device] = gpu
        known = facts.setdefault(gpu, {})
        known["uuid"] = known.get("uuid") or _uuid(uuid)
        known["multiprocessors"] = known.get("multiprocessors") or _count(multiprocessors)
    return mapped


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None


def _uuid(value: Any) -> str:
    """As the driver writes it; the export leaves the prefix away."""
    text = _text(value)
    return text if not text or text.startswith(_KNOWN_PREFIXES) else f"GPU-{text}"
