"""Tables, records and metrics of any tool: CSV, JSON, logfmt, Prometheus."""

import contextlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.model.values import EvidenceKind, Nanoseconds, Signal, count_computing
from rightsizer.recordings.headed_table import (
    HeadedTable,
    NumberedRow,
    TimeColumns,
    csv_rows,
    csv_table,
    heading_line,
    untimed_headings,
    with_clock,
)
from rightsizer.recordings.heading_words import PIDS, heading_of, place_of, time_places
from rightsizer.recordings.json_records import (
    PROCESSES,
    Record,
    records_of,
)
from rightsizer.recordings.long_table import SampleColumns, long_rows
from rightsizer.recordings.named_columns import (
    are_queried,
    are_signals,
    has_named_columns,
    named_columns,
)
from rightsizer.recordings.process_rows import (
    ProcessParts,
    listed_processes,
    process_parts,
    process_rows,
)
from rightsizer.recordings.prometheus_text import (
    TimedSample,
    is_json,
    is_text,
    json_samples,
    known_rows,
    text_samples,
)
from rightsizer.recordings.row import RecordingNotes, RecordingRow
from rightsizer.recordings.table_layout import LayoutColumns, TableLayout
from rightsizer.recordings.text_file import (
    RecordingFormat,
    TextFile,
    delimiter_of,
    json_objects,
)
from rightsizer.recordings.timestamps import (
    is_timestamp,
    leading_time,
    page_time,
    seconds_text,
)

_SAMPLED: Final = 1000
"""Records by which the columns are known."""
_SAMPLED_ROWS: Final = 10_000
"""Rows by which the layout is known."""
_OBJECT: Final = re.compile(r"\{")
_PAIR: Final = re.compile(
    r'(?<![^\s,;|])([A-Za-z_][\w.@%/-]*)(?:=|: ?)("(?:\\.|[^"\\])*"|[^\s,;"]*)'
)
_GPU: Final = re.compile(r"\bgpu\W{0,3}(\d+)\b", re.IGNORECASE)
"""The GPU that a line names before its pairs."""
_FEWEST_PAIRS: Final = 3
_REMEMBERED: Final = 10_000
"""Most names of metrics whose meanings are kept."""
Rows = Callable[[TextFile, RecordingNotes], Iterator[RecordingRow]]


def _is_of_gpus(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Whether a table, given its first rows, has readings of GPUs."""
    timed, _ = with_clock(headings, rows)
    return has_named_columns(timed, rows) or SampleColumns(timed, rows).are_complete


class _TableStudy(Struct, frozen=True):
    """What all rows of a table told; made once, for every pass over it."""

    table: HeadedTable
    notes: RecordingNotes
    samples: SampleColumns | None
    """Of a table with a metric a row."""
    times: TimeColumns
    columns: LayoutColumns
    parts: ProcessParts | None = None
    """Of a table with a process a row."""


def _study(table: HeadedTable) -> _TableStudy:
    notes = RecordingNotes(table.text.name)
    headings, clock = with_clock(table.headings, table.cells())
    if clock is not None:
        table = replace(table, headings=headings)
        notes.remark(f"its clock is '{clock}', by its values", EvidenceKind.READ)
    samples = SampleColumns(table.headings, islice(table.cells(), _SAMPLED_ROWS))
    times = TimeColumns(table.headings, notes, rows=table.cells)
    if samples.are_complete:
        return _TableStudy(table, notes, samples, times, LayoutColumns({}))
    columns = named_columns(table, times, notes)
    has_processes = place_of(table.headings, PIDS) is not None
    parts = process_parts(table, columns, times, notes) if has_processes else None
    return _TableStudy(table, notes, None, times, columns, parts)


def _table_rows(
    text: TextFile, table_of: Callable[[TextFile], HeadedTable], notes: RecordingNotes
) -> Iterator[RecordingRow]:
    """Yield the rows of a table in either layout."""
    study = text.once(lambda: _study(table_of(text)))
    notes.remarks.update(study.notes.remarks)
    table = study.table
    times = study.times.again(notes)
    if study.samples is not None:
        yield from long_rows(table, study.samples, times, notes)
        return
    if study.parts is not None:
        yield from process_rows(table, study.columns, study.parts, times, notes)
        return
    layout = TableLayout(table, study.columns, times, notes)
    processes_at = place_of(table.headings, {PROCESSES})
    for row, cells in layout.rows(table.rows(notes)):
        if processes_at is None:
            yield row
        else:
            processes = listed_processes(cells[processes_at])
            count = {Signal.PROCESS_COUNT: float(count_computing(processes))} if processes else {}
            yield replace(row, values={**row.values, **count}, processes=processes)


def _is_csv(head: Sequence[str]) -> bool:
    if untimed_headings(head)[0]:
        return True
    line, headings = heading_line(head)
    lines = ((number, f"{line}\n") for number, line in enumerate(head))
    rows = [cells for _, cells in csv_rows(lines, line, headings, "", RecordingNotes(""))]
    if are_signals(headings, rows) or are_queried(headings, rows):
        return True
    # Sentences have words between blanks too, but no times.
    times = TimeColumns(headings, RecordingNotes(""))
    is_prose = delimiter_of(line) == " " and not any(is_timestamp(times.text(e)) for e in rows)
    return not is_prose and _is_of_gpus(headings, rows)


CSV_RECORDS: Final = RecordingFormat(
    "CSV with metrics of GPUs", _is_csv, lambda text, notes: _table_rows(text, csv_table, notes)
)
"""Queries of nvidia-smi, logs of scripts, exports of stores, trackers: a row per GPU, all GPUs in
one row, or a row per metric."""


def records_table_rows(
    of: Callable[[TextFile, RecordingNotes], Iterator[tuple[int, Record]]],
    sampled: int | None = _SAMPLED,
) -> Rows:
    """Return the reader of rows by one of records, `sampled` of which have all columns."""

    def table_of(text: TextFile) -> HeadedTable:
        first = islice(of(text, RecordingNotes(text.name)), sampled)
        headings = [*dict.fromkeys(key for _, record in first for key in record)]

        def rows(notes: RecordingNotes) -> Iterator[NumberedRow]:
            for number, record in of(text, notes):
                yield number, [record.get(heading, "") for heading in headings]

        return HeadedTable(text, headings, rows, is_csv=False)

    return lambda text, notes: _table_rows(text, table_of, notes)


def _have_gpus(records: Sequence[Record]) -> bool:
    headings = [*dict.fromkeys(key for record in records for key in record)]
    return _is_of_gpus(headings, [[record.get(key, "") for key in headings] for record in records])


def _time_of(line: str) -> Nanoseconds | None:
    """Return the time that a line is, or begins with."""
    time = page_time(line)
    return leading_time(line, RecordingNotes(""))[0] if time is None else time


def _timed(record: Record, time: Nanoseconds | None) -> Record:
    """Return a record with the time before or above it, unless it has one."""
    if time is None or time_places([*record]):
        return record
    return {"time": seconds_text(time), **record}


def _json_records(text: TextFile, notes: RecordingNotes) -> Iterator[tuple[int, Record]]:
    time: Nanoseconds | None = None
    at = 0
    is_timed = any(_time_of(line) is not None for line in text.head)
    lines = text.lines(RecordingNotes(text.name)) if is_timed else iter(())
    for number, document in json_objects(text, _OBJECT, notes):
        try:
            records = [*records_of(document)]
        except RecursionError:
            notes.count("object too deep", number)
            continue
        while at < number and (read := next(lines, None)) is not None:
            at = read[0]
            line_time = _time_of(read[1])
            time = time if line_time is None else line_time
        yield from ((number, _timed(record, time)) for record in records)


def _is_json(head: Sequence[str]) -> bool:
    text = "\n".join(head)
    time = next((moment for moment in map(_time_of, head) if moment is not None), None)
    timed_records: list[Record] = []
    at = 0
    for start in islice(_OBJECT.finditer(text), len(head)):
        if start.start() >= at:
            # Others may be torn by the end of the head.
            with contextlib.suppress(ValueError, RecursionError):
                document, at = json.JSONDecoder().raw_decode(text, start.start())
                timed_records += (_timed(record, time) for record in records_of(document))
    return _have_gpus(timed_records)


JSON_RECORDS: Final = RecordingFormat(
    "JSON with keys named for GPUs", _is_json, records_table_rows(_json_records)
)
"""A record a line, a list of records, a list of GPUs or columns in each; gpustat, experiment
trackers."""


def _records_of_line(line: str, notes: RecordingNotes) -> list[Record]:
    """Return the pairs of key and value of a line; the time may precede these.

    Where keys are repeated, each of them begins a record of what is before the first.
    """
    pairs = [*_PAIR.finditer(line)]
    if len(pairs) < _FEWEST_PAIRS:
        return []
    keys = [pair[1] for pair in pairs]
    first = next((key for key in keys if keys.count(key) > 1), "")
    time, _ = leading_time(line[: pairs[0].start()], notes)
    records: list[Record] = [{} if time is None else {"time": str(time)}]
    if (gpu := _GPU.search(line, 0, pairs[0].start())) is not None:
        records[0]["gpu"] = gpu[1]
    for match in pairs:
        if match[1] == first:
            records.append(dict(records[0]))
        records[-1][match[1]] = match[2].strip('"')
    return records[1:] or records


def _line_records(text: TextFile, notes: RecordingNotes) -> Iterator[tuple[int, Record]]:
    for number, line in text.lines(notes):
        records = _records_of_line(line.strip(), notes)
        yield from ((number, record) for record in records)
        if not records and not line.endswith("\n"):
            notes.skip(number, line)


LINE_RECORDS: Final = RecordingFormat(
    "lines of key=value",
    lambda head: _have_gpus(
        [record for line in head for record in _records_of_line(line, RecordingNotes(""))]
    ),
    records_table_rows(_line_records),
)
"""As logfmt, or as scripts print them."""


@lru_cache(_REMEMBERED)
def _is_of_gpu(name: str) -> bool:
    """Whether a metric's name says that it is of a GPU, and what."""
    return heading_of(name, is_of_host=True) is not None


def _begins_with_gpu(line: str) -> bool:
    return _is_of_gpu(line.partition("{")[0].partition(" ")[0])


def _exporter_rows(
    samples: Callable[[TextFile, RecordingNotes, Callable[[str], bool]], Iterator[TimedSample]],
) -> Rows:
    """Return a reader of known metrics or, where none is there, of metrics by their words."""

    def records(text: TextFile, notes: RecordingNotes) -> Iterator[tuple[int, Record]]:
        for number, head, value, time in samples(text, notes, _begins_with_gpu):
            name, _, labels = head.partition("{")
            sample = {"metric": name, "labels": labels, "time": str(time), "value": str(value)}
            yield number, sample

    def rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
        for read in (sample_rows, records_table_rows(records)):
            if next(read(text, RecordingNotes(text.name)), None) is not None:
                return read(text, notes)
        return sample_rows(text, notes)

    sample_rows = known_rows(samples)
    return rows


PROMETHEUS_TEXT: Final = RecordingFormat(
    "Prometheus or OpenMetrics text", is_text, _exporter_rows(text_samples)
)
"""Successive scrapes or series; a sample's time is its own, or written above its page."""
PROMETHEUS_JSON: Final = RecordingFormat("Prometheus JSON", is_json, _exporter_rows(json_samples))
"""Whole answers, result lists, or a series per line; several to a file."""
