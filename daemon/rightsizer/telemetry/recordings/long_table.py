"""CSV with one value a row: its metric, labels, time and number are columns."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Final, NamedTuple

from rightsizer.model.dcgm_fields import holder_of
from rightsizer.model.device import BY_INDEX
from rightsizer.model.units import Unit, convert
from rightsizer.telemetry.dcgm.series import DcgmSeries, UnusedSeries, interpret, sample_row
from rightsizer.telemetry.recordings.heading_words import (
    DEVICES,
    LABELS,
    METRICS,
    NAMES,
    NODES,
    SAMPLED_ROWS,
    UUIDS,
    VALUES,
    gpu_index,
    heading_line,
    heading_of,
    likely_unit,
    place_of,
    table_cells,
    time_places,
    words_of,
)
from rightsizer.telemetry.recordings.prometheus_text import interpreted, named_line, teach
from rightsizer.telemetry.recordings.row import RecordingDeviceFacts, RecordingNotes, RecordingRow
from rightsizer.telemetry.recordings.table import missing_cell
from rightsizer.telemetry.recordings.text_file import (
    RecordingFormat,
    TextFile,
    delimiter_of,
    split_csv_line,
)
from rightsizer.telemetry.recordings.timestamps import parse_timestamp

_LABEL: Final = re.compile(r'"?([\w.]+)"?\s*[=:]\s*"?([^",;{}]*)')
"""As Prometheus, Datadog, Azure and JSON write them."""
_OURS: Final = ((UUIDS, "UUID"), (DEVICES, "gpu"), (NODES, "Hostname"), (NAMES, "modelName"))
"""Labels of dcgm-exporter, by headings with their meaning."""

_Labels = tuple[tuple[str, str], ...]


class _Sample(NamedTuple):
    """A row: metric, labels, and cells of time and value."""

    metric: str
    labels: _Labels
    time: str
    value: str


class _SampleColumns:
    """Columns of a table by their headings."""

    def __init__(self, headings: Sequence[str]) -> None:
        self._times = time_places(headings)
        self._metric, self._value = place_of(headings, METRICS), place_of(headings, VALUES)
        self._label_list = place_of(headings, LABELS)
        special = {*self._times, self._metric, self._value, self._label_list}
        self._labels = [(at, text) for at, text in enumerate(headings) if at not in special]
        self.count = len(headings)

    @property
    def are_complete(self) -> bool:
        """Whether there are a time, a metric and a value."""
        return bool(self._times) and self._metric is not None and self._value is not None

    def sample(self, cells: Sequence[str]) -> _Sample:
        """Return a row's sample, with its labels by their own and dcgm-exporter's names."""
        cells = [cell.strip() for cell in cells]
        found: dict[str, str] = {}
        written = "" if self._label_list is None else cells[self._label_list]
        stated = _LABEL.findall(written) or [("", written)]
        for name, value in (*((text, cells[at]) for at, text in self._labels), *stated):
            if value := value.strip():
                found.setdefault(*_label(name, value))
                found.setdefault(name, value)
        time = " ".join(cells[at] for at in self._times)
        metric = "" if self._metric is None else cells[self._metric]
        value = "" if self._value is None else cells[self._value]
        return _Sample(metric, tuple(found.items()), time, value)


def _label(name: str, value: str) -> tuple[str, str]:
    """Return a label with dcgm-exporter's name; a GPU by its number."""
    words = " ".join(words_of(name))
    ours = next((label for names, label in _OURS if words in names), name)
    index = gpu_index(value) if ours == "gpu" else None
    return (ours, value if index is None else str(index))


def _series(metric: str, labels: _Labels, unit: str | None) -> DcgmSeries | UnusedSeries:
    """Interpret a metric by its name, else by its words with a unit."""

    def meaning(name: str, own: Mapping[str, str]) -> DcgmSeries | UnusedSeries:
        all_labels = {**dict(labels), **own}
        known = interpreted(name, all_labels)
        if isinstance(known, DcgmSeries):
            return known
        return _by_words(metric, all_labels, unit) or known

    try:
        return interpret(named_line(metric), meaning)
    except ValueError:
        return _by_words(metric, dict(labels), unit) or UnusedSeries(metric, "it is not read")


def _by_words(metric: str, labels: Mapping[str, str], unit: str | None) -> DcgmSeries | None:
    heading = heading_of(metric)
    if heading is None or heading.is_bare or unit is None:
        return None
    index, node = labels.get("gpu", ""), labels.get("Hostname", "")
    named = labels.get("UUID") or heading.device or ("" if index.isdecimal() else index)
    # Labels of an unknown kind keep GPUs apart that they may name.
    others = {value: None for value in labels.values() if value != labels.get("modelName")}
    others.pop(node, None)
    if not named and not index:
        named = " ".join(others)
    by_index = f"{node} GPU {index or 0}" if node else f"{BY_INDEX}{index or 0}"
    return DcgmSeries(
        metric=metric,
        device=named or by_index,
        signal=heading.signal,
        factor=convert(unit)[1],
        rank=0,
        holder=holder_of(labels),
        facts=heading.facts
        or RecordingDeviceFacts(
            index=int(index) if index.isdecimal() else None, name=labels.get("modelName") or None
        ),
    )


def _recognizes(head: Sequence[str]) -> bool:
    line, headings = heading_line(head)
    columns = _SampleColumns(headings)
    if not columns.are_complete:
        return False
    rows = (split_csv_line(each, delimiter_of(line)) for each in head)
    found = (columns.sample(cells) for cells in rows if len(cells) == columns.count)
    return any(
        isinstance(_series(each.metric, each.labels, Unit.RATIO), DcgmSeries) for each in found
    )


def _samples(text: TextFile, notes: RecordingNotes) -> Iterator[tuple[int, _Sample]]:
    _, headings = heading_line(text.head)
    columns = _SampleColumns(headings)
    for number, cells in table_cells(text, notes):
        yield number, columns.sample(cells)


def _rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    """Yield a row a sample: metrics of a device may have different times."""
    units = _units(text, notes)
    series_of = cache(_series)
    for number, each in _samples(text, notes):
        series = series_of(each.metric, each.labels, units.get(each.metric))
        if not isinstance(series, DcgmSeries):
            continue
        if missing_cell(each.value) is not None:
            continue
        try:
            time, value = parse_timestamp(each.time), float(each.value.replace(",", "."))
        except ValueError:
            notes.count("unreadable sample", number, f"{each.time} {each.value}")
            continue
        teach(series, value, time, notes)
        if series.signal is not None:
            yield sample_row(series, series.signal, time, value, text.name)


LONG_TABLE: Final = RecordingFormat("CSV with a metric a row", _recognizes, _rows)
"""Metrics of dcgm-exporter, nvidia_gpu_exporter and Rightsizer, others by the words of their names;
GPU, node and board are in columns or in a list of labels."""


def _units(text: TextFile, notes: RecordingNotes) -> dict[str, str]:
    """Return units of metrics by their names, else infer them from their first values."""
    values: dict[str, list[float]] = {}
    rows = 0
    for _, each in islice(_samples(text, RecordingNotes(text.name)), SAMPLED_ROWS):
        rows += 1
        try:
            value = float(each.value.replace(",", "."))
        except ValueError:
            continue
        if math.isfinite(value):
            values.setdefault(each.metric, []).append(value)
    found: dict[str, str] = {}
    for metric, numbers in values.items():
        heading = heading_of(metric)
        if heading is None:
            continue
        are_all = rows < SAMPLED_ROWS
        unit = heading.unit or likely_unit(heading.signal, numbers, are_all=are_all)
        if unit is not None:
            found[metric] = unit
        elif not heading.is_bare:
            notes.remark(
                f"the unit of '{metric}' is not known, it is left out; add it to the name, like "
                "gpu_util_pct or gpu_memory_used_mib"
            )
    return found
