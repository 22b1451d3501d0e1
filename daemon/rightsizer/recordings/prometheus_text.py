"""Prometheus metrics as text with timestamps, or as answers of its API."""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rightsizer.model.dcgm_fields import DIVIDED_DCGM_FIELDS
from rightsizer.model.values import (
    BY_INDEX,
    EPOCH_UNITS,
    Missing,
    Nanoseconds,
    RecordingError,
    Signal,
    parse_epoch,
)
from rightsizer.recordings.nvidia_smi_columns import SIGNAL_COLUMNS, exported_spellings
from rightsizer.recordings.row import SUMMED, RecordingNotes, RecordingRow, on_node
from rightsizer.recordings.text_file import TextFile, json_objects
from rightsizer.recordings.timestamps import page_time
from rightsizer.telemetry.dcgm.series import (
    DcgmSeries,
    UnusedSeries,
    holdings_of,
    interpret,
    interpret_labels,
    wanted,
)
from rightsizer.telemetry.device_description import DeviceDescription

_SAMPLE: Final = re.compile(r"(?:[a-zA-Z_:][\w:]*\{.*|\{.*\b__name__=\".*)\}\s+\S")
_NAME_AMONG_LABELS: Final = re.compile(r'(?<=[{ ,])__name__="(?P<name>[\w:]+)"(?:,\s*)?')
_COMMENT: Final = re.compile(r"# (HELP|TYPE|UNIT|EOF)\b")
_REMEMBERED: Final = 100_000
_START: Final = re.compile(
    r'\s*(?!\{\s*"timeSeries")[\[{].*?"(?:metric"\s*:\s*\{|resultType"\s*:)', re.DOTALL
)
_SERIES: Final = re.compile(r'\{\s*"(?:metric|values?|timestamps)"\s*:')
_ERROR: Final = re.compile(r'\s*\{\s*"status"\s*:\s*"error"')
_SHOWN: Final = 200
_SMI: Final = "nvidia_smi_"
_SMI_ENDINGS: Final = {"%": "_ratio", "MiB": "_bytes", "W": "_watts", "MHz": "_clock_hz"}
_SMI_SIGNALS: Final = {
    _SMI + spelling + _SMI_ENDINGS.get(column.unit, ""): column
    for name, column in SIGNAL_COLUMNS.items()
    for spelling in exported_spellings(name)
}
"""Metrics of nvidia_gpu_exporter: the columns of nvidia-smi in base units."""
_SMI_FACTS: Final = {
    f"{_SMI}index": "index",
    f"{_SMI}power_default_limit_watts": "power_limit_watts",
    f"{_SMI}pcie_link_gen_max": "pcie_generation_maximum",
    f"{_SMI}pcie_link_width_max": "pcie_width_maximum",
}
_NODES: Final = ("Hostname", "hostname", "instance")
"""Labels with a GPU's node, best first."""
_REMEDY: Final = "ask for the metrics themselves, like query=DCGM_FI_DEV_GPU_UTIL"


class TimedSample(NamedTuple):
    """A sample's line, number and head, which is its name with labels."""

    number: int
    head: str
    value: float
    time: Nanoseconds


def is_known(line: str) -> bool:
    """Whether a line begins with a metric of an exporter whose metrics are read by name."""
    return wanted(line) or line.startswith(_SMI)


def text_samples(
    text: TextFile, notes: RecordingNotes, is_wanted: Callable[[str], bool]
) -> Iterator[TimedSample]:
    """Yield the samples of wanted lines; one without a time has that of its page."""
    of_page: Nanoseconds | None = None
    for number, written in text.lines(notes):
        line = named_line(written) if written.startswith("{") else written
        if not is_wanted(line):
            of_page = page_time(line) or of_page
            continue
        labelled, closing, rest = line.partition(" # {")[0].rpartition("}")
        sample = _parsed(rest)
        if not closing or sample is None:
            notes.count("unreadable sample", number, line.strip())
            continue
        value, time = sample
        if time is None and not line.endswith("\n"):
            notes.skip(number, line)
            continue
        time = of_page if time is None else time
        if time is None:
            raise RecordingError(
                f"{text.name}:{number}: the sample has no timestamp; write the date before each "
                "page (date +%s; curl ...), or record with 'rightsizer record'"
            )
        yield TimedSample(number, labelled + closing, value, time)


def known_rows(
    samples: Callable[[TextFile, RecordingNotes, Callable[[str], bool]], Iterator[TimedSample]],
) -> Callable[[TextFile, RecordingNotes], Iterator[RecordingRow]]:
    """Return the reader of a row per sample of known metrics, which may have different times."""

    def rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
        series_of_head: dict[str, DcgmSeries | None] = {}
        for number, head, value, time in samples(text, notes, is_known):
            if head not in series_of_head:
                if len(series_of_head) >= _REMEMBERED:
                    series_of_head.clear()
                series_of_head[head] = _learned(head, value, time, number, notes)
            series = series_of_head[head]
            if series is not None and series.signal is not None:
                yield sample_row(series, series.signal, time, value, text.name)
        if not series_of_head:
            notes.remark(
                "none of its metrics is DCGM_FI_*, rightsizer_* or nvidia_smi_*, or says by its "
                "name how busy a GPU is"
            )

    return rows


def is_text(head: Sequence[str]) -> bool:
    """Whether lines are of Prometheus or OpenMetrics text."""
    return any(_COMMENT.match(line) or _SAMPLE.match(line) for line in head)


def named_line(line: str) -> str:
    """Convert a `promtool tsdb dump` line, whose name is a label, to the usual form."""
    match = _NAME_AMONG_LABELS.search(line)
    if match is None:
        return line
    return f"{match['name']}{line[: match.start()]}{line[match.end() :]}".replace(", }", "}", 1)


def interpreted(name: str, labels: Mapping[str, str]) -> DcgmSeries | UnusedSeries:
    """Interpret a name and its labels, those of nvidia_gpu_exporter too.

    A GPU without a uuid, as in sums by index, is one of its node.
    """
    uuid = labels.get("UUID") or labels.get("uuid") or ""
    if not name.startswith(_SMI):
        node = next(filter(None, map(labels.get, _NODES)), None)
        index = labels.get("gpu")
        if node and index and not uuid:
            labels = {**labels, "UUID": on_node(f"{BY_INDEX}{index}", node)}
        return interpret_labels(name, labels)
    column = _SMI_SIGNALS.get(name)
    if not uuid or (column is None and name not in (f"{_SMI}gpu_info", *_SMI_FACTS)):
        return UnusedSeries(name, "it is not read")
    return DcgmSeries(
        metric=name,
        device=f"GPU-{uuid.removeprefix('GPU-')}",
        signal=None if column is None else column.signal,
        factor=1.0,
        rank=0 if column is None else column.rank,
        holder=None,
        facts=DeviceDescription(name=labels.get("name")),
    )


def _parsed(rest: str) -> tuple[float, Nanoseconds | None] | None:
    parts = rest.split()
    try:
        return float(parts[0]), parse_epoch(parts[1]) if len(parts) > 1 else None
    except (ValueError, IndexError):
        return None


def _learned(
    head: str, value: float, time: Nanoseconds, line: int, notes: RecordingNotes
) -> DcgmSeries | None:
    try:
        series = interpret(head, interpreted)
    except ValueError:
        notes.count("unreadable sample", line, head)
        return None
    if not isinstance(series, DcgmSeries):
        return None
    teach(series, value, time, notes)
    return series


def teach(series: DcgmSeries, value: float, time: Nanoseconds, notes: RecordingNotes) -> None:
    """Add the facts that a sample tells of its device."""
    facts = notes.of(series.device)
    series.teach(facts, series.read(value), time)
    if (fact := _SMI_FACTS.get(series.metric)) and math.isfinite(value):
        fact_values: dict[str, Any] = {fact: value if "watts" in fact else int(value)}
        facts.learn(DeviceDescription(**fact_values))


def json_samples(
    text: TextFile, notes: RecordingNotes, is_wanted: Callable[[str], bool]
) -> Iterator[TimedSample]:
    """Yield the samples of wanted series, at most one of which is in memory."""
    if _ERROR.match("\n".join(text.head)):
        raise RecordingError(
            f"{text.name}:1: holds an error in the place of an answer: "
            f"'{text.head[0][:_SHOWN]}'; ask again"
        )
    for number, series in json_objects(text, _SERIES, notes):
        labels = series.get("metric")
        if not isinstance(labels, dict):
            notes.count("series without labels", number)
            continue
        if not (name := str(labels.pop("__name__", ""))):
            notes.count(f"series without a metric's name; {_REMEDY}", number, json.dumps(labels))
        elif not is_wanted(name):
            notes.count("series that says nothing of a GPU here", number, name)
        else:
            texts = (
                f"{label}={json.dumps(str(value), ensure_ascii=False)}"
                for label, value in labels.items()
            )
            head = f"{name}{{{','.join(texts)}}}"
            for time, value in _series_samples(series, number, notes):
                yield TimedSample(number, head, value, time)


def is_json(head: Sequence[str]) -> bool:
    """Whether lines are of answers of Prometheus's API."""
    return any(pattern.match("\n".join(head)) for pattern in (_START, _ERROR))


def _series_samples(
    result: Mapping[str, Any], number: int, notes: RecordingNotes
) -> Iterator[tuple[Nanoseconds, float]]:
    """Yield times and values of a series."""
    values = result.get("values") or ()
    times = result.get("timestamps")
    unit = EPOCH_UNITS["s" if times is None else "ms"]
    pairs = (values or [result.get("value")]) if times is None else zip(times, values, strict=False)
    for pair in pairs:
        try:
            time, value = pair
            yield parse_epoch(str(time), unit), float("nan" if value is None else value)
        except (ValueError, TypeError):
            notes.count("unreadable sample", number, json.dumps(pair))


def sample_row(
    series: DcgmSeries, signal: Signal, time: Nanoseconds, number: float, file: str
) -> RecordingRow:
    """Return the row of a sample; each metric of a file is a stream with times of its own."""
    value = series.read(number)
    values: dict[Signal, float] = {}
    missing: dict[Signal, Missing] = {}
    if isinstance(value, Missing):
        missing[signal] = value
    else:
        values[signal] = value
    stream = f"{file}:{series.metric}"
    if series.holder is None:
        return RecordingRow(time, series.device, values, missing, stream, series.rank, ())
    holdings = holdings_of({series.holder})
    rank = series.rank
    if series.metric in DIVIDED_DCGM_FIELDS:
        # Perhaps a part, which counts only where there is no value of the GPU.
        stream = f"{stream}:{series.holder.pod}"
        rank = rank + SUMMED - 1
    return RecordingRow(time, series.device, values, missing, stream, rank, holdings)
