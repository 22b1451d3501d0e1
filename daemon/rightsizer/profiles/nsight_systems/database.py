"""Nsight Systems export, opened as an untrusted SQLite file, and its GPUs."""

import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np

from rightsizer.model.values import ProfileError
from rightsizer.profiles.columns import CodedColumn, Values, coded, integers
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.reader import unreadable
from rightsizer.profiles.recorder import Recorder
from rightsizer.profiles.timeline import Numbers

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
"""A row takes about 15 of SQLite's steps and at least 20 bytes. Shared pages can make a small
file expand without end, so the budget is proportional to the file size."""
_INSTRUCTIONS_A_LOOK: Final = 10_000

_BATCH: Final = 4096
"""Rows that are fetched at once."""
_WHOLE: Final = frozenset({int})
_SECRET: Final = frozenset({"TARGET_INFO_SYSTEM_ENV", "META_DATA_CAPTURE"})
"""Tables with the profiled program's whole environment and its command line."""
_KNOWN_PREFIXES = ("GPU-", "MIG-")


@contextmanager
def open_export(path: Path, limits: ReadLimits) -> Iterator["ExportDatabase"]:
    """Open a file; SQLite's faults become errors of the file.

    Raises:
        ProfileError: it is no database, broken, larger than allowed, or exceeds the step budget.
    """
    connection = None
    try:
        size = path.stat().st_size
        limits.check_size(size)
        # Immutable: no lock, no journal replay, nothing written beside the file.
        uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        yield ExportDatabase(connection, size, limits)
    except OSError as error:
        raise unreadable(error) from None
    except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
        # SQLite's message may contain the invalid names.
        said = "its names are no text" if isinstance(error, UnicodeError) else str(error)
        raise ProfileError(
            f"not a sound SQLite database: {said}; export it again with `nsys export --type sqlite`"
        ) from None
    finally:
        if connection is not None:
            connection.close()


class ExportDatabase:
    """Tables and columns by name; rows are streamed in file order."""

    def __init__(self, connection: sqlite3.Connection, size: int, limits: ReadLimits) -> None:
        self._connection = connection
        self._left = _INSTRUCTIONS_ALLOWED + _INSTRUCTIONS_A_BYTE * size
        self._texts: dict[int, str] = {}
        self._texts_maximum = 2 * limits.kernel_names_maximum
        self.unread: Counter[str] = Counter()
        """Unusable rows by reason."""
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.event_maximum_bytes)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.set_progress_handler(self._is_out_of_budget, _INSTRUCTIONS_A_LOOK)
        for statement in _HARDENING:
            connection.execute(statement)
        encoding = connection.execute("PRAGMA encoding").fetchone()[0]
        if encoding != "UTF-8":
            raise ProfileError(
                f"its text is {encoding}, which Nsight Systems does not write; export it again "
                "with `nsys export --type sqlite`"
            )
        self.tables = self._plain_tables()
        """Plain tables; no views or virtual tables."""
        self._columns: dict[str, frozenset[str]] = {}
        connection.set_authorizer(_authorize)

    def columns(self, table: str) -> frozenset[str]:
        """Return the columns of a table, without computed ones; empty if it does not exist."""
        if table not in self.tables:
            return frozenset()
        if table not in self._columns:
            rows = self._connection.execute(f"PRAGMA table_info({_quoted(table)})")
            self._columns[table] = frozenset(row[1] for row in rows)
        return self._columns[table]

    def batches(
        self,
        table: str,
        required: Sequence[str],
        optional: Sequence[str] = (),
        text: str | None = None,
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the columns of some thousand rows of a table at once.

        Required columns are arrays of integers: rows without them, or all if a column is missing,
        are counted as unread. Optional columns are `None` if missing. The column of a text, if one
        is asked for, comes last, as bytes; `None` for what is no text.
        """
        there = self.columns(table)
        if not there:
            return
        if absent := [column for column in required if column not in there]:
            self.unread[f"{table} without {absent[0]}"] += self.count(table)
            return
        columns = [
            _quoted(column) if column in there else "NULL" for column in (*required, *optional)
        ]
        if text is not None:
            # Decoding each by itself would take a fifth of the time.
            of_text = _quoted(text) if text in there else "NULL"
            columns.append(f"CASE typeof({of_text}) WHEN 'text' THEN CAST({of_text} AS BLOB) END")
        named = ", ".join(columns)
        query = f"SELECT {named} FROM {_quoted(table)} NOT INDEXED"  # noqa: S608 - both quoted.
        size = len(required)
        cursor = self._connection.execute(query)
        while rows := cursor.fetchmany(_BATCH):
            try:
                batch = _columns(rows, size)
            except TypeError:
                whole = [row for row in rows if _WHOLE.issuperset(map(type, row[:size]))]
                self.unread[f"{table} row of another form"] += len(rows) - len(whole)
                batch = _columns(whole, size)
            if batch:
                yield batch

    def rows(
        self, table: str, required: Sequence[str], optional: Sequence[str] = ()
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the same rows one by one."""
        size = len(required)
        for columns in self.batches(table, required, optional):
            numbers = (column.tolist() for column in columns[:size])
            yield from zip(*numbers, *columns[size:], strict=True)

    def count(self, table: str) -> int:
        """Return the number of rows."""
        # A plain count(*) walks all pages in one SQLite step, which cannot be interrupted.
        rows = f"SELECT 1 FROM {_quoted(table)} NOT INDEXED LIMIT -1"  # noqa: S608 - quoted.
        query = f"SELECT count(*) FROM ({rows})"  # noqa: S608 - the same.
        return int(self._connection.execute(query).fetchone()[0])

    def text(self, number: Any) -> str:
        """Return a text by its number in the string table; empty if absent."""
        if (stored_text := self._texts.get(number)) is not None:
            return stored_text
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
        """Whether SQLite must stop."""
        self._left -= _INSTRUCTIONS_A_LOOK
        return self._left < 0


def _authorize(
    action: int, first: str | None, second: str | None, _database: str | None, _by: str | None
) -> int:
    """Allow only reading of non-secret tables: no functions that do more, views or triggers."""
    is_allowed = (
        action == sqlite3.SQLITE_SELECT
        or (action == sqlite3.SQLITE_READ and first not in _SECRET)
        or (action == sqlite3.SQLITE_FUNCTION and second in {"count", "typeof"})
        or (action == sqlite3.SQLITE_PRAGMA and first == "table_info")
    )
    return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY


def _columns(rows: Iterable[tuple[Any, ...]], required: int) -> tuple[Any, ...]:
    """Return the columns of rows; raises `TypeError` if any of the first is not of integers."""
    columns = [*zip(*rows, strict=True)]
    numbers = (np.frombuffer(array("q", column), np.int64) for column in columns[:required])
    return (*numbers, *columns[required:])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def processes_of(numbers: Values) -> Numbers:
    """Extract the processes from serialized process or thread ids; 0 if absent."""
    return (integers(numbers) >> 24) & 0xFFFFFF


class Gpus:
    """Devices of an export, registered with the recorder when first seen."""

    def __init__(self, database: ExportDatabase, recorder: Recorder) -> None:
        self._recorder = recorder
        self._facts = _gpu_facts(database)
        self._mapped = _mapped(database, self._facts)
        self._keys: dict[tuple[int, int], str] = {}
        self.is_ambiguous = False
        """Whether device numbers of processes clash and cannot be mapped to GPUs."""

    def keys(self, owners: Sequence[Any], devices: Numbers) -> CodedColumn:
        """Return the keys of devices of processes, which are given by serialized ids."""
        pairs = coded([*zip(owners, devices.tolist(), strict=True)])
        return pairs.mapped(lambda pair: self.key(*pair))

    def key(self, owner: Any, device: int) -> str:
        """Return the key of a device of a process, which is given by its serialized id."""
        pair = int(processes_of([owner])[0]), device
        if pair not in self._keys:
            self._keys[pair] = self._made(*pair)
        return self._keys[pair]

    def of_process(self, process: int) -> tuple[str, ...]:
        """Return the devices that a process has used so far."""
        return tuple(sorted({key for (owner, _), key in self._keys.items() if owner == process}))

    def _made(self, process: int, device: int) -> str:
        gpu = self._mapped.get((process, device), self._mapped.get((0, device)))
        if gpu is None and device == 0 and len(self._facts) == 1:
            gpu = next(iter(self._facts))
        index = device if gpu is None else gpu
        key = str(index)
        facts = self._facts.get(index, {})
        if gpu is None and (self._mapped or key in self._keys.values()):
            # Processes may each number their devices from 0, so keep them apart.
            self.is_ambiguous = True
            key = f"{device} of process {process}"
            facts = {}
        self._recorder.device(key, index=index, **facts)
        return key


def _gpu_facts(database: ExportDatabase) -> dict[int, dict[str, Any]]:
    """Return fields of `ProfiledDevice` by GPU number."""
    facts: dict[int, dict[str, Any]] = {}
    named = ("name", "uuid")
    # Table until 2021, with CUDA's numbering.
    former = (*named, "globalMemorySize", "numMultiprocessors")
    for number, name, uuid, memory, multiprocessors in chain(
        database.rows("TARGET_INFO_GPU", ("id",), (*named, "totalMemory", "smCount")),
        database.rows("TARGET_INFO_CUDA_GPU", ("deviceId",), former),
    ):
        gpu_facts = {"name": _text(name), "uuid": _uuid(uuid), "memory_bytes": _count(memory)}
        facts.setdefault(number, {**gpu_facts, "multiprocessors": _count(multiprocessors)})
    return facts


def _mapped(
    database: ExportDatabase, facts: dict[int, dict[str, Any]]
) -> dict[tuple[int, int], int]:
    """Map processes' device numbers to GPUs; fill in facts that the GPU table lacks."""
    mapped: dict[tuple[int, int], int] = {}
    rows = database.rows(
        "TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId"), ("pid", "uuid", "numMultiprocessors")
    )
    for gpu, device, process, uuid, multiprocessors in rows:
        mapped[process if type(process) is int else 0, device] = gpu
        gpu_facts = facts.setdefault(gpu, {})
        gpu_facts["uuid"] = gpu_facts.get("uuid") or _uuid(uuid)
        gpu_facts["multiprocessors"] = gpu_facts.get("multiprocessors") or _count(multiprocessors)
    return mapped


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None


def _uuid(value: Any) -> str:
    """Return the driver's form of a uuid; exports lack the prefix."""
    text = _text(value)
    return text if not text or text.startswith(_KNOWN_PREFIXES) else f"GPU-{text}"
