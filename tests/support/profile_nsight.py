"""Nsight Systems' exports and Nsight Compute's pages, written as those programs write them."""

import csv
import io
import sqlite3
import stat
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

__all__ = [
    "DETAIL_COLUMNS",
    "NsightExport",
    "details_page",
    "fake_nsys",
    "page_bomb",
    "raw_page",
]

DETAIL_COLUMNS: Final = (
    "ID",
    "Process ID",
    "Process Name",
    "Host Name",
    "Kernel Name",
    "Context",
    "Stream",
    "Block Size",
    "Grid Size",
    "Device",
    "CC",
    "Section Name",
    "Metric Name",
    "Metric Unit",
    "Metric Value",
    "Rule Name",
    "Rule Type",
    "Rule Description",
    "Estimated Speedup Type",
    "Estimated Speedup",
)
_LAUNCH: Final = (1, 7, "(256, 1, 1)", "(64, 1, 1)", 0, "9.0")


class NsightExport:
    """A SQLite export; its tables come into being with their first row, as in real ones."""

    def __init__(self, process: int = 4242) -> None:
        self.process = process
        self.tables: dict[str, list[dict[str, Any]]] = {}
        self._texts: dict[str, int] = {}
        self.row("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value="2025.5.2.266")
        self.row("META_DATA_EXPORT", name="EXPORT_SCHEMA_VERSION", value="3.24.0")

    def row(self, table: str, **columns: Any) -> None:
        """One row of any table."""
        self.tables.setdefault(table, []).append(columns)

    def text(self, value: str) -> int:
        """The number of a text."""
        return self._texts.setdefault(value, len(self._texts) + 1)

    def owner(self, process: int | None = None, thread: int = 1) -> int:
        """A serialized process or thread number."""
        return (1 << 48) | ((process or self.process) << 24) | thread

    def kernel(  # noqa: PLR0913 - what the table has.
        self,
        start: int,
        end: int,
        name: str = "gemm",
        *,
        device: int = 0,
        stream: int = 7,
        correlation: int | None = None,
        process: int | None = None,
    ) -> None:
        """A kernel."""
        self.row(
            "CUPTI_ACTIVITY_KIND_KERNEL",
            start=start,
            end=end,
            deviceId=device,
            contextId=1,
            streamId=stream,
            correlationId=correlation,
            globalPid=self.owner(process, 0),
            demangledName=self.text(name),
            shortName=self.text(name[:4]),
        )

    def graph(self, start: int, end: int, *, correlation: int | None = None) -> None:
        """A graph as a whole."""
        self.row(
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
            start=start,
            end=end,
            deviceId=0,
            streamId=7,
            correlationId=correlation,
            globalPid=self.owner(thread=0),
            graphId=3,
        )

    def copy(  # noqa: PLR0913, PLR0917 - what the table has.
        self,
        start: int,
        end: int,
        kind: int,
        source: int | None,
        target: int | None,
        size: int = 4096,
        *,
        correlation: int | None = None,
        target_device: int | None = None,
    ) -> None:
        """A copy, by the codes of the format."""
        self.row(
            "CUPTI_ACTIVITY_KIND_MEMCPY",
            start=start,
            end=end,
            deviceId=0,
            streamId=7,
            correlationId=correlation,
            globalPid=self.owner(thread=0),
            bytes=size,
            copyKind=kind,
            srcKind=source,
            dstKind=target,
            srcDeviceId=None,
            dstDeviceId=target_device,
        )

    def call(
        self, start: int, end: int, name: str, correlation: int, process: int | None = None
    ) -> None:
        """A call of CUDA."""
        self.row(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=start,
            end=end,
            eventClass=0,
            globalTid=self.owner(process),
            correlationId=correlation,
            nameId=self.text(name),
            returnValue=0,
        )

    def range(  # noqa: PLR0913 - what the table has.
        self,
        start: int,
        end: int | None,
        name: str,
        *,
        kind: int = 59,
        is_registered: bool = False,
        process: int | None = None,
    ) -> None:
        """An NVTX event."""
        self.row(
            "NVTX_EVENTS",
            start=start,
            end=end,
            eventType=kind,
            text=None if is_registered else name,
            textId=self.text(name) if is_registered else None,
            globalTid=self.owner(process),
            domainId=0,
        )

    def write(self, path: Path, scripts: Sequence[str] = ()) -> Path:
        """The file, with more SQL run on it at the end."""
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
            connection.executemany(
                "INSERT INTO StringIds VALUES (?, ?)",
                [(number, value) for value, number in self._texts.items()],
            )
            for table, rows in self.tables.items():
                names = ", ".join(f'"{name}"' for name in rows[0])
                marks = ", ".join("?" for _ in rows[0])
                connection.execute(f'CREATE TABLE "{table}" ({names})')
                connection.executemany(
                    f'INSERT INTO "{table}" VALUES ({marks})', [tuple(row.values()) for row in rows]
                )
        for script in scripts:
            connection.executescript(script)
        connection.close()
        return path


def page_bomb(path: Path, table: str) -> Path:
    """A small export in which the pages of a table stand for each other, so that it has 10^9 rows.

    Inner pages of a table each name some 50 pages below them. Here all of those of one inner page
    are the same next one.
    """
    NsightExport().write(path)
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA page_size = 512; VACUUM;")
    with connection:
        connection.execute(f'CREATE TABLE "{table}" ("start", "end", "deviceId")')
        rows = ((2**40 + row, 2**40 + row + 1, 0) for row in range(20_000))
        connection.executemany(f'INSERT INTO "{table}" VALUES (?, ?, ?)', rows)
    root = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
    first = int(root.fetchone()[0])
    connection.close()
    data = bytearray(path.read_bytes())
    chain = [first]
    for page in range(2, len(data) // 512 + 1):
        is_inner = data[(page - 1) * 512] == 5
        has_leaves = is_inner and data[(_child(data, page) - 1) * 512] == 13
        if has_leaves and page != first:
            chain.append(page)
    leaf = _child(data, chain[-1])
    for page, below in zip(chain[:7], [*chain[1:7], leaf], strict=True):
        _point_all(data, page, below)
    path.write_bytes(data)
    return path


def _cells(data: bytearray, page: int) -> Iterable[int]:
    at = (page - 1) * 512
    (count,) = struct.unpack_from(">H", data, at + 3)
    for cell in range(count):
        yield at + struct.unpack_from(">H", data, at + 12 + 2 * cell)[0]


def _child(data: bytearray, page: int) -> int:
    return int(struct.unpack_from(">I", data, next(iter(_cells(data, page))))[0])


def _point_all(data: bytearray, page: int, below: int) -> None:
    for place in (*_cells(data, page), (page - 1) * 512 + 8):
        struct.pack_into(">I", data, place, below)


def fake_nsys(folder: Path, script: str) -> Path:
    """A program `nsys` that runs Python code, with its own arguments in `words`."""
    program = folder / "nsys"
    program.write_text(f"#!{sys.executable}\nimport sys\nwords = sys.argv[1:]\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def details_page(  # noqa: PLR0913 - what varies between pages.
    metrics: Iterable[tuple[str, str, str, str]],
    *,
    kernel: str = "gemm",
    number: int = 0,
    rules: Iterable[tuple[str, str, str]] = (),
    columns: Sequence[str] = DETAIL_COLUMNS,
    has_header: bool = True,
) -> str:
    """A long page: (section, name, unit, value) and (rule, text, speed-up) of one launch."""
    begin = (number, 4711, "train.py", "host-17", kernel, *_LAUNCH)
    rows: list[tuple[Any, ...]] = [
        (*begin, section, name, unit, value, "") for section, name, unit, value in metrics
    ]
    rows += [
        (*begin, "Occupancy", "", "", "", rule, "OPT", text, "global", speedup)
        for rule, text, speedup in rules
    ]
    lines = io.StringIO()
    writer = csv.writer(lines, quoting=csv.QUOTE_ALL, lineterminator="\n")
    if has_header:
        writer.writerow(columns)
    writer.writerows(row[: len(columns)] for row in rows)
    return lines.getvalue()


def raw_page(units: Mapping[str, str], launches: Iterable[tuple[str, Mapping[str, str]]]) -> str:
    """A wide page: the row of the names, that of the units, one row a launch."""
    lines = io.StringIO()
    writer = csv.writer(lines, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow([*DETAIL_COLUMNS[:11], *units])
    writer.writerow([""] * 11 + list(units.values()))
    for number, (kernel, values) in enumerate(launches):
        begin = (number, 4711, "train.py", "host-17", kernel, *_LAUNCH)
        writer.writerow([*begin, *(values.get(name, "") for name in units)])
    return lines.getvalue()
