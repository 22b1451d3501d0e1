"""Totals of profilers' files straight from their raw events, in as few lines as each takes.

Nothing here knows how the product reads them: whole files in memory, and the words of the formats.
"""

import csv
import gzip
import io
import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Final

from msgspec import Struct

Interval = tuple[float, float] | tuple[Decimal, Decimal]
_STREAM_EVENT: Final = ("kernel_details", "correlation_id")
_SCALES: Final = {"ns": 1e-9, "nsecond": 1e-9, "us": 1e-6, "usecond": 1e-6, "ms": 1e-3, "s": 1.0}
_RESULTS: Final = {
    r"^Samples per second *: *([\d.e+]+)": ("samples_per_second", 1.0),
    r"^Completed samples per second *: *([\d.e+]+)": ("samples_per_second", 1.0),
    r"^Scheduled samples per second *: *([\d.e+]+)": ("scheduled_samples_per_second", 1.0),
    r"^Samples per query *: *(\d+)": ("samples_per_query", 1.0),
    r"^90th percentile latency \(ns\) *: *(\d+)": ("latency_p90_seconds", 1e-9),
    r"^99th percentile latency \(ns\) *: *(\d+)": ("latency_p99_seconds", 1e-9),
}


class Raw(Struct, frozen=True):
    """Contents of a file."""

    events: int | None
    """`None` where the format has no one thing that is an event."""
    devices: Mapping[str, Iterable[Interval]] = {}
    """Kernels and graphs of each device that has any, in seconds."""
    kernel_seconds: float | None = None
    """Summed, where there is no timeline."""
    figures: Mapping[str, float] = {}
    """Of a benchmark."""


def raw_totals(path: Path) -> Raw:
    """Of one file, by how its name ends."""
    for ending, read in _READERS:
        if path.name.endswith(ending):
            return read(path)
    raise ValueError(f"{path}: no raw totals are known of such a file")


def _kineto(path: Path) -> Raw:
    # Microseconds since the epoch are more digits than a double has.
    events = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)["traceEvents"]
    devices = defaultdict(list)
    for event in events:
        if event.get("ph") == "X" and str(event.get("cat", "")).lower() == "kernel":
            start = Decimal(event["ts"]) / 10**6
            interval = (start, start + Decimal(event["dur"]) / 10**6)
            devices[str(event["args"]["device"])].append(interval)
    return Raw(len(events), devices)


def _viewer(path: Path) -> Raw:
    written = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    events = [each for each in written if each]  # The last one is an empty object.
    planes = {
        each["pid"]: each["args"]["name"] for each in events if each.get("name") == "process_name"
    }
    lines = {
        (each["pid"], each["tid"]): each["args"]["name"]
        for each in events
        if each.get("name") == "thread_name"
    }
    devices = defaultdict(list)
    for event in events:
        if event["ph"] != "X":
            continue
        plane = planes[event["pid"]]
        line = lines.get((event["pid"], event["tid"]), "")
        if (
            "/device:GPU" in plane
            and line.startswith("Stream #")
            and _is_kernel(event["name"], event.get("args", {}))
        ):
            start = event["ts"] / 1e6
            devices[plane].append((start, start + event["dur"] / 1e6))
    return Raw(len(written), devices)


def _is_kernel(name: str, stats: Iterable[str]) -> bool:
    return "kernel_details" in stats and not re.match(r"mem(?:cpy|set)", name, re.IGNORECASE)


def _sqlite(path: Path) -> Raw:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        names = [
            name
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        columns = {
            name: {row[1] for row in database.execute(f"PRAGMA table_info({name})")}
            for name in names
        }
        devices = defaultdict(list)
        for name in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"):
            if name in columns:
                for device, start, end in database.execute(
                    f'SELECT deviceId, start, "end" FROM {name}'
                ):
                    devices[str(device)].append((start / 1e9, end / 1e9))
        events = sum(
            database.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
            for name in names
            if columns[name] & {"start", "startedAt", "timestamp"}
            # What the profiler says of itself is shown as notes.
            and name != "DIAGNOSTIC_EVENT"
        )
    return Raw(events, devices)


def _xplane(path: Path) -> Raw:
    devices = defaultdict(list)
    events = 0
    for plane in _all(path.read_bytes(), 1):
        name = b"".join(_all(plane, 2)).decode()
        stat_names = _names(plane, 5)
        event_names = _names(plane, 4)
        for line in _all(plane, 3):
            found = list(_all(line, 4))
            events += len(found)
            label = b"".join(_all(line, 2)).decode()
            if not name.startswith("/device:GPU") or not label.startswith("Stream #"):
                continue
            zero = _number(line, 3) / 1e9
            for event in found:
                stats = [stat_names.get(_number(stat, 1), "") for stat in _all(event, 4)]
                if _is_kernel(event_names.get(_number(event, 1), ""), stats):
                    start = zero + _number(event, 2) / 1e12
                    devices[name].append((start, start + _number(event, 3) / 1e12))
    return Raw(events, devices)


def _names(plane: bytes, number: int) -> dict[int, str]:
    return {
        _number(entry, 1): b"".join(_all(b"".join(_all(entry, 2)), 2)).decode(errors="replace")
        for entry in _all(plane, number)
    }


def _all(data: bytes, number: int) -> Iterator[bytes]:
    return (value for found, value in _fields(data) if found == number and isinstance(value, bytes))


def _number(data: bytes, number: int) -> int:
    return next(
        (value for found, value in _fields(data) if found == number and isinstance(value, int)), 0
    )


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            value, at = _varint(data, at)
            yield tag >> 3, value
            continue
        length, at = _varint(data, at) if tag & 7 == 2 else ({1: 8, 5: 4}[tag & 7], at)
        yield tag >> 3, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at = at + 1
        shift = shift + 7
        if byte < 128:
            return value, at


def _compute(path: Path) -> Raw:
    lines = path.read_text("utf-8-sig").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith('"ID"'))
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[first:]))))
    seconds = sum(
        float(row["Metric Value"].replace(",", "")) * _SCALES[row["Metric Unit"]]
        for row in rows
        if row["Metric Name"] in {"Duration", "gpu__time_duration.sum"}
    )
    return Raw(len(rows), kernel_seconds=seconds)


def _summary(path: Path) -> Raw:
    figures = {
        name: float(found[1]) * scale
        for pattern, (name, scale) in _RESULTS.items()
        if (found := re.search(pattern, path.read_text("utf-8"), re.MULTILINE))
    }
    return Raw(None, figures=figures)


def _training(path: Path) -> Raw:
    lines = [line for line in path.read_text("utf-8").splitlines() if ":::MLLOG" in line]
    logged = [json.loads(line.partition(":::MLLOG")[2]) for line in lines]
    times = {each["key"]: each["time_ms"] for each in logged}
    return Raw(
        None, figures={"time_to_train_seconds": (times["run_stop"] - times["run_start"]) / 1e3}
    )


_READERS: Final[tuple[tuple[str, Callable[[Path], Raw]], ...]] = (
    (".trace.json.gz", _viewer),
    (".json.gz", _kineto),
    (".sqlite", _sqlite),
    (".xplane.pb", _xplane),
    (".csv", _compute),
    (".log", _compute),
    ("summary.txt", _summary),
    ("result_0.txt", _training),
)
