"""Prometheus and OpenMetrics text with times: dcgm-exporter's metrics, and our own gauges."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rightsizer.domain.errors import RecordingError
from rightsizer.domain.reading import Missing
from rightsizer.domain.signal import Signal
from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.dcgm.labels import holdings_of
from rightsizer.telemetry.dcgm.series import Series, parse_sample, wanted
from rightsizer.telemetry.recorded.row import Notes, Row
from rightsizer.telemetry.recorded.text import TextFile
from rightsizer.telemetry.recorded.timestamps import parse_epoch

__all__ = ["Exposition"]

_SAMPLE: Final = re.compile(r"[a-zA-Z_:][\w:]*\{.*\}\s+\S")
_COMMENT: Final = re.compile(r"# (HELP|TYPE|UNIT|EOF)\b")
_REMEMBERED: Final = 100_000


class Exposition:
    """Scrapes one after the other, or series one after the other; every sample with its time."""

    name = "Prometheus or OpenMetrics text"

    def recognizes(self, head: Sequence[str]) -> bool:
        """A comment of that format, or a sample."""
        return any(_COMMENT.match(line) or _SAMPLE.match(line) for line in head)

    def rows(self, text: TextFile, notes: Notes) -> Iterator[Row]:
        """One row a sample: the metrics of a device need not share their times.

        Raises:
            RecordingError: a sample has no time.
        """
        known: dict[str, Series | None] = {}
        for number, line in text.lines(notes):
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
                yield _row(series, series.signal, time, value, text.name)


def _parsed(rest: str) -> tuple[float, Nanoseconds | None] | None:
    parts = rest.split()
    try:
        return float(parts[0]), parse_epoch(parts[1]) if len(parts) > 1 else None
    except (ValueError, IndexError):
        return None


def _learned(head: str, value: float, line: int, notes: Notes) -> Series | None:
    try:
        series = parse_sample(head)
    except ValueError:
        notes.count("unreadable sample", line, head)
        return None
    if series is not None:
        notes.learn(series.device, series.learned(value))
    return series


def _row(series: Series, signal: Signal, time: Nanoseconds, number: float, file: str) -> Row:
    value = series.read(number)
    values: dict[Signal, float] = {}
    missing: dict[Signal, Missing] = {}
    if isinstance(value, Missing):
        missing[signal] = value
    else:
        values[signal] = value
    holdings = () if series.holder is None else holdings_of({series.holder})
    stream = f"{file}:{series.metric}"
    return Row(time, series.device, values, missing, stream, series.rank, holdings)
