"""Layout of tables with one value a row: its metric, labels, time and number are columns."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Final

from rightsizer.model.dcgm_fields import holder_of
from rightsizer.model.values import BY_INDEX, Unit, convert
from rightsizer.recordings.headed_table import (
    HeadedTable,
    TimeColumns,
    UnitSample,
)
from rightsizer.recordings.heading_words import (
    DEVICES,
    LABELS,
    METRICS,
    NAMES,
    NODES,
    UUIDS,
    VALUES,
    Heading,
    gpu_index,
    heading_of,
    names_host,
    place_of,
    time_places,
    words_of,
)
from rightsizer.recordings.prometheus_text import interpreted, named_line, sample_row, teach
from rightsizer.recordings.row import RecordingNotes, RecordingRow, on_node
from rightsizer.recordings.table import local_number, missing_cell
from rightsizer.telemetry.dcgm.series import DcgmSeries, UnusedSeries, interpret
from rightsizer.telemetry.device_description import DeviceDescription

_LABEL: Final = re.compile(r'"?([\w.]+)"?\s*[=:]\s*"?([^",;{}]*)')
"""As Prometheus, Datadog, Azure and JSON write them."""
_OURS: Final = ((UUIDS, "UUID"), (DEVICES, "gpu"), (NODES, "Hostname"), (NAMES, "modelName"))
"""Labels of dcgm-exporter, by headings with their meaning."""
_OF_GPU: Final = ("UUID", "gpu")

_Labels = tuple[tuple[str, str], ...]
_Metrics = dict[str, tuple[Heading, UnitSample] | None]


class SampleColumns:
    """Columns of a table by their headings."""

    def __init__(self, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        times = time_places(headings)
        self._value = place_of(headings, VALUES)
        self._label_list = place_of(headings, LABELS)
        used = {*times, self._value, self._label_list}
        self._labels = [(at, text) for at, text in enumerate(headings) if at not in used]
        self._metric: int | None = None
        if times and self._value is not None:
            self._metric = self._metric_place(rows)
        self._labels = [(at, text) for at, text in self._labels if at != self._metric]
        self.are_complete = self._metric is not None
        """Whether there are a time, a value and metrics of GPUs."""

    def _metric_place(self, rows: Iterable[Sequence[str]]) -> int | None:
        """Return the column in which a row has a metric of a GPU."""
        places = [at for at, text in self._labels if " ".join(words_of(text)) in METRICS]
        for cells in rows if places else ():
            for at in places:
                if isinstance(
                    _series(cells[at].strip(), self.labels(cells), Unit.RATIO), DcgmSeries
                ):
                    return at
        return None

    def sample(self, cells: Sequence[str]) -> tuple[str, str]:
        """Return metric and number of a row as written."""
        return cells[self._metric or 0].strip(), cells[self._value or 0].strip()

    def labels(self, cells: Sequence[str]) -> _Labels:
        """Return a row's labels by their own and dcgm-exporter's names."""
        label_values: dict[str, str] = {}
        written = "" if self._label_list is None else cells[self._label_list].strip()
        stated = _LABEL.findall(written) or [("", written)]
        for name, value in (*((text, cells[at]) for at, text in self._labels), *stated):
            if value := value.strip():
                label_values.setdefault(*_label(name, value))
                label_values.setdefault(name, value)
        return tuple(label_values.items())


def _label(name: str, value: str) -> tuple[str, str]:
    """Return a label with dcgm-exporter's name; a GPU by its number."""
    words = " ".join(words_of(name))
    ours = next((label for names, label in _OURS if words in names), name)
    index = gpu_index(value) if ours in ("gpu", "modelName") else None
    return (ours, value) if index is None else ("gpu", str(index))


def _series(
    metric: str, labels: _Labels, unit: str | None, *, has_hosts: bool = False
) -> DcgmSeries | UnusedSeries:
    """Interpret a metric by its name, else by its words with a unit.

    Beside metrics of hosts, one whose name and labels name no GPU may be the host's.
    """

    def meaning(name: str, row_labels: Mapping[str, str]) -> DcgmSeries | UnusedSeries:
        all_labels = {**dict(labels), **row_labels}
        series = interpreted(name, all_labels)
        if isinstance(series, DcgmSeries):
            return series
        return _by_words(name, all_labels, unit, has_hosts=has_hosts) or series

    try:
        return interpret(named_line(metric), meaning)
    except ValueError:
        series = _by_words(metric, dict(labels), unit, has_hosts=has_hosts)
        return series or UnusedSeries(metric, "it is not read")


def _by_words(
    metric: str, labels: Mapping[str, str], unit: str | None, *, has_hosts: bool
) -> DcgmSeries | None:
    heading = heading_of(metric, is_of_host=has_hosts and labels.keys().isdisjoint(_OF_GPU))
    if heading is None or heading.is_bare or unit is None:
        return None
    index = labels.get("gpu", "")
    node = labels.get("Hostname", "")
    named = labels.get("UUID") or heading.device or ("" if index.isdecimal() else index)
    # Labels of an unknown kind keep GPUs apart that they may name.
    others = {value: None for value in labels.values() if value != labels.get("modelName")}
    others.pop(node, None)
    if not named and not index:
        named = " ".join(others)
    return DcgmSeries(
        metric=metric,
        device=on_node(named or f"{BY_INDEX}{index or 0}", node),
        signal=heading.signal,
        factor=convert(unit)[1],
        rank=heading.rank,
        holder=holder_of(labels),
        facts=heading.facts
        or DeviceDescription(
            index=int(index) if index.isdecimal() else None, name=labels.get("modelName") or None
        ),
    )


def long_rows(
    table: HeadedTable,
    columns: SampleColumns,
    times: TimeColumns,
    notes: RecordingNotes,
) -> Iterator[RecordingRow]:
    """Yield a row a sample: metrics of a device may have different times."""
    metrics = _metrics(columns, table)
    units = _units(metrics, notes)
    has_hosts = any(map(names_host, metrics))
    series_of = cache(partial(_series, has_hosts=has_hosts))
    for number, cells in table.rows(notes):
        metric, value = columns.sample(cells)
        series = series_of(metric, columns.labels(cells), units.get(metric))
        if not isinstance(series, DcgmSeries) or missing_cell(value) is not None:
            continue
        try:
            time = times.parse(cells)
            reading = local_number(value)
        except ValueError:
            notes.count("unreadable sample", number, f"{times.text(cells)} {value}")
            continue
        teach(series, reading, time, notes)
        if series.signal is not None:
            yield sample_row(series, series.signal, time, reading, table.text.name)


def _metrics(columns: SampleColumns, table: HeadedTable) -> _Metrics:
    """Return the metrics of a table with their values, where they are of GPUs by their words."""
    metrics: _Metrics = {}
    for cells in table.cells():
        metric, value = columns.sample(cells)
        if metric not in metrics:
            heading = heading_of(metric)
            metrics[metric] = None if heading is None else (heading, UnitSample())
        if (of_metric := metrics[metric]) is not None:
            of_metric[1].add(of_metric[0], value)
    return metrics


def _units(metrics: _Metrics, notes: RecordingNotes) -> dict[str, str]:
    """Return units of metrics by their names, else infer them from their values."""
    units: dict[str, str] = {}
    for metric, of_metric in metrics.items():
        if of_metric is None:
            continue
        heading, values = of_metric
        if (unit := values.unit_of(heading)) is not None:
            units[metric] = unit
        elif not heading.is_bare:
            notes.remark(
                f"the unit of '{metric}' is not known, it is left out; add it to the name, like "
                "gpu_util_pct or gpu_memory_used_mib"
            )
    return units
