"""Prometheus and OpenMetrics text with times: dcgm-exporter's metrics, and our own gauges."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rightsizer.model.errors import RecordingError
from rightsizer.model.units import Nanoseconds
from rightsizer.telemetry.dcgm.series import DcgmSeries, parse_sample, sample_row, wanted
from rightsizer.telemetry.recordings.row import RecordingNotes, RecordingRow
from rightsizer.telemetry.recordings.text_file import TextFile
from rightsizer.telemetry.recordings.timestamps import parse_epoch

_SAMPLE: Final = re.compile(r"(?:[a-zA-Z_:][\w:]*\{.*|\{.*\b__name__=\".*)\}\s+\S")
_NAME_AMONG_LABELS: Final = re.compile(r'(?<=[{ ,])__name__="(?P<name>[\w:]+)"(?:,\s*)?')
_COMMENT: Final = re.compile(r"# (HELP|TYPE|UNIT|EOF)\b")
_REMEMBERED: Final = 100_000


class PrometheusText:
    """Scrapes one after the other, or series one after the other; every sample with its time."""

    name = "Prometheus or OpenMetrics text"

    def recognizes(self, head: Sequence[str]) -> bool:
        """A comment of that format, or a sample."""
        return any(_COMMENT.match(line) or _SAMPLE.match(line) for line in head)

    def rows(self, text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
        """One row a sample: the metrics of a device need not share their times.

        Raises:
            RecordingError: a sample has no time.
        """
        known: dict[str, DcgmSeries | None] = {}
        for number, written in text.lines(notes):
            line = _named(written) if written.startswith("{") else written
            if not wanted(line):
                continue
            labelled, closing, rest = line.partition(" # {")[0].rpartition("}")
            sample = _parsed(rest)
            if not closing or sample is None:
                notes.count("unreadable sample", number, line.strip())
                continue
            value, time = sample
            if time is None:
                if not line.endswith("\n"):
                    notes.skip(number, line)
                    continue
                raise RecordingError(
                    f"{text.name}:{number}: the sample has no timestamp; write one behind each "
                    "value (milliseconds since the epoch), or record with 'rightsizer record'"
                )
            head = labelled + closing
            if head not in known:
                if len(known) >= _REMEMBERED:
                    known.clear()
                known[head] = _learned(head, value, number, notes)
            series = known[head]
            if series is not None and series.signal is not None:
                yield sample_row(series, series.signal, time, value, text.name)


def _named(line: str) -> str:
    """A line of `promtool tsdb dump`, where the name is one of the labels, as others write it."""
    found = _NAME_AMONG_LABELS.search(line)
    if found is None:
        return line
    return f"{found['name']}{line[: found.start()]}{line[found.end() :]}".replace(", }", "}", 1)


def _parsed(rest: str) -> tuple[float, Nanoseconds | None] | None:
    parts = rest.split()
    try:
        return float(parts[0]), parse_epoch(parts[1]) if len(parts) > 1 else None
    except (ValueError, IndexError):
        return None


def _learned(head: str, value: float, line: int, notes: RecordingNotes) -> DcgmSeries | None:
    try:
        series = parse_sample(head)
    except ValueError:
        notes.count("unreadable sample", line, head)
        return None
    if series is not None:
        notes.learn(series.device, series.learned(value))
    return series
