"""Parser of the rows of all tables in one file of `nsys stats`."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from rightsizer.telemetry.profiles.json_window import JsonWindow
from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.profiles.nsight_stats.report import StatsHeader, StatsRow, header_of
from rightsizer.telemetry.profiles.printed_text import (
    DecimalMark,
    PrintedText,
    decimal_mark,
    printed_number,
)
from rightsizer.telemetry.profiles.reader import open_unpacked

_NOTICE: Final = re.compile(
    r"\s*$|\s*\*\*|\s+\S|Generating |Processing |NOTICE|SKIPPED|Exporting|Using |WARNING|ERROR|"
    r"Importing|FATAL|The timeunit|Database file|\d+\.\.|\[[=\d]"
)
_PROCESSING: Final = re.compile(r"Processing \[.*\] with \[.*\]")
_SKIPPED: Final = re.compile(r"SKIPPED: .* does not contain")
_TITLE: Final = re.compile(r'"?[A-Za-z]')
"""Rows begin with a number, or with words where the program speaks."""
_HEADING: Final = re.compile(r"\s*\*\* .+ \(\w+\):\s*$")
_UNIT: Final = re.compile(r"\((?:[num]?s|[KMG]i?B|%)\)$")
_FEWEST_TITLES: Final = 3
_SAMPLED_LINES: Final = 2000
_BEGINNING_BYTES: Final = 2**16
_FILL: Final = 2**18
_NAMED_LAST: Final = frozenset({"name", "operation", "range"})


def is_notice(line: str) -> bool:
    """Whether only the vendor's program writes such a line."""
    return bool(_PROCESSING.match(line) or _SKIPPED.match(line))


def titles_in(line: str) -> tuple[str, ...]:
    """The fields of a line that may be a header, which hold no commas."""
    return tuple(field.strip().strip('"') for field in line.split(","))


def is_json(beginning: str) -> bool:
    """Whether objects come before any table does."""
    for line in beginning.splitlines():
        plain = line.strip().lstrip("\ufeff")
        if plain.startswith(("[{", "{")) or plain in {"[", "[]"}:
            return True
        if header_of(titles_in(plain)):
            return False
    return False


def _begins_another(line: str) -> bool:
    """Whether a table follows that is not known yet, or never will be: rows have numbers."""
    if not _TITLE.match(line):
        return _HEADING.match(line) is not None
    if _PROCESSING.match(line):
        return True
    titles = titles_in(line)
    return (
        len(titles) >= _FEWEST_TITLES
        and any(map(_UNIT.search, titles))
        and all(printed_number(title) is None for title in titles)
    )


class StatsTables:
    """The rows of a file, in order."""

    def __init__(self, path: Path, limits: ReadLimits) -> None:
        self._path, self._limits = path, limits
        self._text = PrintedText(path, limits)
        self.unread: Counter[str] = self._text.unread
        """What was passed over."""
        self.tables = 0
        """Headers that were found."""
        self.skipped = 0
        """Reports for which there was no data."""

    def rows(self) -> Iterator[StatsRow]:
        """Every row of every table.

        Raises:
            ProfileError: the file cannot be read.
        """
        with open_unpacked(self._path, self._limits) as file:
            beginning = file.read(_BEGINNING_BYTES)
        if is_json(beginning.decode("utf-8", "replace")):
            return self._json_rows()
        return self._csv_rows()

    def _csv_rows(self) -> Iterator[StatsRow]:
        mark = decimal_mark(self._sampled_fields())
        self.unread.clear()
        header: StatsHeader | None = None
        lines = self._text.lines()
        for line in lines:
            self.skipped += bool(_SKIPPED.match(line))
            if _TITLE.match(line) and (found := header_of(titles_in(line))):
                header = found
                self.tables += 1
            elif _begins_another(line):
                header = None
                self.unread["table of another report"] += not _NOTICE.match(line)
            elif not _NOTICE.match(line) and header:
                if cells := self._cells(line, lines, header):
                    yield StatsRow(header, cells, mark)
            elif line.strip() and not _NOTICE.match(line):
                self.unread["line outside of a table"] += 1

    def _cells(self, line: str, lines: Iterator[str], header: StatsHeader) -> list[str] | None:
        cells = self._text.record(line, lines)
        if cells is None:
            return None
        columns = len(header.names)
        if len(cells) > columns and header.names[-1] in _NAMED_LAST:
            # A name with commas that was written without quotes.
            cells[columns - 1 :] = [",".join(cells[columns - 1 :])]
        if len(cells) != columns:
            self.unread["line that is no row of its table"] += 1
            return None
        return cells

    def _sampled_fields(self) -> Iterator[str]:
        lines = self._text.lines()
        for line in islice(lines, _SAMPLED_LINES):
            yield from self._text.record(line, lines) or ()

    def _json_rows(self) -> Iterator[StatsRow]:
        last: StatsHeader | None = None
        for each in self._objects():
            header = header_of(tuple(map(str, each)))
            if header is None:
                self.unread["object that is no row of a table"] += 1
                continue
            self.tables += header != last
            last = header
            mark: DecimalMark = "."
            yield StatsRow(header, list(each.values()), mark)

    def _objects(self) -> Iterator[dict[str, Any]]:
        """Whatever is a JSON object in the file; what stands between is passed over."""
        decode = json.JSONDecoder().raw_decode
        with open_unpacked(self._path, self._limits) as file:
            window = JsonWindow(file.read)
            while self._to_object(window):
                try:
                    value, window.at = decode(window.text, window.at)
                except RecursionError:
                    self.unread["object nested too deep"] += 1
                    if not window.skip_value():
                        return
                except ValueError as error:
                    if window.ahead <= self._limits.event_maximum_bytes and window.fill(
                        max(window.ahead, _FILL)
                    ):
                        continue
                    self.unread["object that is no JSON"] += 1
                    place = getattr(error, "pos", 0)
                    window.at = max(window.at + 1, min(place, len(window.text)))
                else:
                    yield value

    def _to_object(self, window: JsonWindow) -> bool:
        while (place := window.text.find("{", window.at)) < 0:
            self.skipped += window.text.count("SKIPPED", window.at)
            window.at = len(window.text)
            if not window.fill():
                return False
        self.skipped += window.text.count("SKIPPED", window.at, place)
        window.at = place
        return True
