"""Export of a history: columns, and writers of CSV, JSON and Parquet."""

import csv
from codecs import getwriter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache, partial
from itertools import islice
from typing import IO, Final, TypeAlias

from msgspec import Struct

from rightsizer.io.codec import encode
from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    Blocks,
    Cause,
    Condition,
    Device,
    Measure,
    Observation,
    Resource,
    State,
    Tier,
    UnknownReason,
    Window,
    seconds,
)
from rightsizer.report.blocks import Block, Cell, Heading, number_column, table_of
from rightsizer.report.labels import first_names, readable_name
from rightsizer.report.table_file import TableColumnKind, write_parquet_table


class ExportRow(Struct, frozen=True):
    """One device over one span."""

    window: Window
    device: Device | None
    """`None` if the history no longer knows it."""
    holders: tuple[str, ...] = ()
    """Keys of the workloads that held it within the span."""


ExportValue: TypeAlias = str | tuple[str, ...] | int | float | None


class ExportColumn(Struct, frozen=True):
    """A column; its name is stable, since other programs depend on it."""

    name: str
    help: str
    value: Callable[[ExportRow], ExportValue]
    """Returns the value of a row; `None` if unknown."""
    kind: TableColumnKind = TableColumnKind.NUMBER


_QUANTILES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", None))
_NANOSECOND_DIGITS: Final = 9


def _identity() -> Iterator[ExportColumn]:
    text = TableColumnKind.TEXT
    whole = TableColumnKind.INTEGER
    ends = (("start", "When the row begins"), ("end", "When it ends"))
    for end, does in ends:
        yield ExportColumn(end, f"{does}, ISO 8601 in UTC.", partial(_iso, end), text)
    for end, does in ends:
        help_text = f"{does}, seconds since the epoch."
        yield ExportColumn(f"{end}_seconds", help_text, partial(_epoch_seconds, end))

    def of_device(value: Callable[[Device], ExportValue]) -> Callable[[ExportRow], ExportValue]:
        return lambda row: None if row.device is None else value(row.device)

    yield ExportColumn("uuid", "The device.", lambda row: row.window.uuid, text)
    index = of_device(lambda device: device.stated_index)
    name = of_device(lambda device: device.name or None)
    yield ExportColumn("gpu", "The device's index.", index, whole)
    yield ExportColumn("model", "The device's name.", name, text)
    profile = of_device(lambda device: device.mig.profile if device.mig else None)
    yield ExportColumn("mig_profile", "The profile of a MIG instance.", profile, text)
    help_text = "The workloads that held the device during the row."
    yield ExportColumn("holders", help_text, lambda row: row.holders, TableColumnKind.TEXTS)


def _epoch_seconds(end: str, row: ExportRow) -> float:
    return seconds(getattr(row.window, end))


def _iso(end: str, row: ExportRow) -> str:
    """Format start or end to the nanosecond, without trailing zeros."""
    whole, rest = divmod(getattr(row.window, end), NANOSECONDS_PER_SECOND)
    text = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{rest:0{_NANOSECOND_DIGITS}d}".rstrip("0").rstrip(".")
    return f"{text}{fraction}Z"


def _seconds(name: str, help_text: str, times: str, key: StrEnum) -> ExportColumn:
    """Create a column of a key's time in one of the window's mappings."""

    def value(row: ExportRow) -> float:
        return seconds(getattr(row.window, times).get(key, 0))

    return ExportColumn(f"{name}_seconds", help_text, value)


_OBSERVED: Final = {
    Observation.LOAD_CYCLES: "readings were close enough together to tell cycles of load",
    Observation.RANKS: "the GPUs of the job were compared with one another",
}


def _time() -> Iterator[ExportColumn]:
    help_text = "Time that has a state; the states' seconds sum to it."
    yield ExportColumn("accounted_seconds", help_text, lambda row: seconds(row.window.accounted))
    for state in State:
        yield _seconds(state, f"Time in the state `{state}`.", "states", state)
    for state in State:
        help_text = f"Known time in which `{state}` was the next most likely state."
        yield _seconds(f"second_cause_{state}", help_text, "second_causes", state)
    for reason in UnknownReason:
        help_text = f"Time in the state `unknown` for the reason `{reason}`."
        yield _seconds(f"unknown_{reason}", help_text, "unknown_reasons", reason)
    for condition in Condition:
        yield _seconds(condition, f"Time in which `{condition}` held.", "conditions", condition)
    for observation, what in _OBSERVED.items():
        name = f"{observation}_observed"
        yield _seconds(name, f"Time in which {what}.", "observed", observation)
    for tier in Tier:
        help_text = f"Time that was read with the telemetry tier `{tier}`."
        yield _seconds(f"{tier}_tier", help_text, "tiers", tier)


def _waste() -> Iterator[ExportColumn]:
    def joules(row: ExportRow, part: float) -> float | None:
        return part if row.window.energy_joules else None

    def wasted_seconds(cause: Cause, row: ExportRow) -> float:
        return row.window.waste_seconds.get(cause, 0.0)

    def wasted_joules(cause: Cause, row: ExportRow) -> float | None:
        return joules(row, row.window.waste_joules.get(cause, 0.0))

    used = "The used part of the known time; with the wasted seconds it sums to all of it."
    yield ExportColumn("used_seconds", used, lambda row: row.window.used_seconds)
    for cause in Cause:
        help_text = f"The part of the time that was wasted for the cause `{cause}`."
        yield ExportColumn(f"waste_{cause}_seconds", help_text, partial(wasted_seconds, cause))
    drawn = "What the device drew; missing where its power was not known."
    yield ExportColumn("energy_joules", drawn, lambda row: row.window.energy_joules or None)
    used = "The used part of the energy."
    yield ExportColumn("used_joules", used, lambda row: joules(row, row.window.used_joules))
    for cause in Cause:
        help_text = f"The part of the energy that was wasted for the cause `{cause}`."
        yield ExportColumn(f"waste_{cause}_joules", help_text, partial(wasted_joules, cause))


def _use() -> Iterator[ExportColumn]:
    for resource in Resource:
        name = readable_name(resource)
        over = "held" if resource is Resource.MEMORY else "active"
        of = f"share of {name} in use, while the device was {over}; 0 to 1."
        for word, share in _QUANTILES:
            which = "The largest" if share is None else f"P{word[1:]} of the"
            value = partial(_demand, resource, share)
            yield ExportColumn(f"{resource}_{word}_ratio", f"{which} {of}", value)
        at_limit = f"Time in which {name} was at its limit."
        short = f"Time in which the application was short of {name}."
        yield _seconds(f"{resource}_saturated", at_limit, "saturated", resource)
        yield _seconds(f"{resource}_pressed", short, "pressed", resource)
    for measure in Measure:
        is_memory = measure is Measure.MEMORY_BYTES
        stem = measure.removesuffix("_bytes")
        unit = "bytes" if is_memory else "ratio"
        what = "device memory in use" if is_memory else f"`{measure}`"
        mean = f"Mean of {what} over the known time, idle or not."
        yield ExportColumn(f"{stem}_mean_{unit}", mean, partial(_figure, measure, 0))
        peak = f"The largest reading of {what}."
        yield ExportColumn(f"{stem}_peak_{unit}", peak, partial(_figure, measure, 1))


def _cycles() -> Iterator[ExportColumn]:
    count = "Cycles of load of one pace."
    whole = TableColumnKind.INTEGER
    yield ExportColumn("cycles", count, lambda row: round(row.window.cycles), whole)
    length = "The length of all these cycles together."
    yield ExportColumn("cycle_seconds", length, lambda row: row.window.cycle_seconds)
    busy = "The busy part of them."
    yield ExportColumn("cycle_busy_seconds", busy, lambda row: row.window.cycle_busy_seconds)


def _demand(resource: Resource, share: float | None, row: ExportRow) -> float | None:
    if (distribution := row.window.demands.get(resource)) is None:
        return None
    return distribution.maximum() if share is None else distribution.quantile(share)


def _figure(measure: Measure, place: int, row: ExportRow) -> float | None:
    return _mean_and_peak(row.window.blocks, measure)[place]


@lru_cache(len(Measure))
def _mean_and_peak(blocks: Blocks, measure: Measure) -> tuple[float | None, float | None]:
    """Return mean and peak over a row's blocks; cached, as two columns need them."""
    measured = blocks.of(measure)
    known_seconds = sum(block.known_seconds for block in measured)
    mean = (
        sum(block.mean * block.known_seconds for block in measured) / known_seconds
        if known_seconds
        else None
    )
    return mean, max((block.peak for block in measured), default=None)


COLUMNS: Final = (*_identity(), *_time(), *_waste(), *_use(), *_cycles())
_MOST_ROWS: Final = 100
_SHOWN: Final = ("start", "gpu", "holders", "accounted_seconds", "used_seconds", "energy_joules")
"""Columns that a terminal has room for."""


def export_blocks(rows: Iterable[ExportRow]) -> Iterator[Block]:
    """Yield what a person reads of it: the first rows, and the columns that matter."""
    shown: dict[Heading, Callable[[ExportRow], Cell]] = {
        column.name
        if column.kind is not TableColumnKind.NUMBER
        else number_column(column.name): partial(_cell, column)
        for column in COLUMNS
        if column.name in _SHOWN
    }
    first = [*islice(rows, _MOST_ROWS)]
    more = sum(1 for _ in rows)
    yield table_of(first, shown, note=f"and {more:,} more rows" if more else "")
    yield f"{len(COLUMNS)} columns in all: name a file, or give --format csv"


def _cell(column: ExportColumn, row: ExportRow) -> Cell:
    value = column.value(row)
    return first_names(value, 1) if isinstance(value, tuple) else value


def _write_csv(rows: Iterable[ExportRow], stream: IO[bytes]) -> None:
    """Write a line for each row; lists are joined by semicolons."""
    writer = csv.writer(getwriter("utf-8")(stream), lineterminator="\n")
    writer.writerow(column.name for column in COLUMNS)
    for row in rows:
        cells = (column.value(row) for column in COLUMNS)
        writer.writerow(";".join(cell) if isinstance(cell, tuple) else cell for cell in cells)


def _write_json(rows: Iterable[ExportRow], stream: IO[bytes]) -> None:
    """Write an object a line, so that a long table can be read as a stream."""
    before = b"[\n"
    for row in rows:
        stream.write(before + encode(_values(row)))
        before = b",\n"
    stream.write(b"[]\n" if before == b"[\n" else b"\n]\n")


def _write_parquet(rows: Iterable[ExportRow], stream: IO[bytes]) -> None:
    """Write typed columns; `UsageError` without pyarrow."""
    write_parquet_table(
        {column.name: column.kind for column in COLUMNS}, map(_values, rows), stream
    )


def _values(row: ExportRow) -> dict[str, ExportValue]:
    return {column.name: column.value(row) for column in COLUMNS}


EXPORT_FORMATS: Final[Mapping[str, Callable[[Iterable[ExportRow], IO[bytes]], None]]] = {
    "csv": _write_csv,
    "json": _write_json,
    "parquet": _write_parquet,
}
