"""Reader of CSV pages of Nsight Compute: long, summarized, wide."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct

from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.nsight_compute.launch import (
    DEVICE_NAME,
    KernelLaunch,
    LaunchMetric,
    MetricKey,
    ProfilerRule,
    is_wanted,
)
from rightsizer.profiles.nsight_compute.printed import as_pages
from rightsizer.profiles.printed_text import (
    DecimalMark,
    PrintedText,
    decimal_mark,
    plain_words,
    printed_number,
)

_RAW: Final = "__"
"""Occurs in names of hardware metrics, which mean the same in every section."""
_KERNEL: Final = "Kernel Name"
_METRIC: Final = "Metric Name"
_FIRST: Final = frozenset({"ID", "Process ID", _KERNEL})
_LAUNCH: Final = ("ID", "Process ID", _KERNEL, "Block Size", "Grid Size", "Device")
"""Columns that identify a launch."""
_RULE_CHARACTERS: Final = 2000
_ERROR: Final = re.compile(r"==(ERROR|WARNING)== *(.*)")
_ERROR_CODE: Final = re.compile(r"\bERR_[A-Z_]+|No kernels were profiled")
_ERRORS_MAXIMUM: Final = 100
_SAMPLED_LINES: Final = 2000


class LaunchTable(Struct, frozen=True):
    """Columns of a page."""

    columns: tuple[str, ...]
    places: Mapping[str, int]
    is_long: bool
    """One row per metric; wide pages have one row per launch."""

    def cell(self, cells: Sequence[str], name: str) -> str:
        """Return the cell of a column; empty if the column or cell is absent."""
        place = self.places.get(name, len(cells))
        return cells[place].strip() if place < len(cells) else ""

    def takes(self, cells: list[str]) -> bool:
        """Whether the cells are a row; on long pages trailing cells may be missing."""
        columns = len(self.columns)
        if any(cells[columns:]):
            return False
        del cells[columns:]
        return len(cells) > self.places[_METRIC] if self.is_long else len(cells) == columns

    def metric(self, cells: Sequence[str]) -> MetricKey:
        """Return the metric of a long page's row; without a name for a rule."""
        name = self.cell(cells, _METRIC)
        return ("" if _RAW in name else self.cell(cells, "Section Name"), name)

    def value(self, cells: Sequence[str]) -> str:
        """Return the measured value as printed; the mean for summarized launches."""
        return self.cell(cells, "Metric Value") or self.cell(cells, "Average")


def table_of(cells: Sequence[str]) -> LaunchTable | None:
    """Return the page with these column titles, or `None`."""
    columns = tuple(map(str.strip, cells))
    if _KERNEL not in columns or columns[0] not in _FIRST:
        return None
    is_long = {_METRIC, "Metric Unit"} <= set(columns)
    if not is_long and not any(_RAW in column for column in columns):
        return None
    return LaunchTable(columns, {name: place for place, name in enumerate(columns)}, is_long)


class ComputePages:
    """Launches of a file, in order."""

    def __init__(self, path: Path, limits: ReadLimits) -> None:
        self._text = PrintedText(path, limits)
        self._mark: DecimalMark = "."
        self._units: Sequence[str] | None = None
        self.unread: Counter[str] = self._text.unread
        """Lines and metrics that were skipped."""
        self.errors: set[str] = set()
        """Errors printed by the profiler, by their codes where they have one."""
        self.events = 0
        """Rows that were read."""

    def launches(self) -> Iterator[KernelLaunch]:
        """Yield the launches of all pages; raises `ProfileError` if the file is unreadable."""
        self._mark = decimal_mark(self._sampled_values())
        self.unread.clear()
        self.errors.clear()
        current = None
        key = None
        for table, cells in self._rows():
            if not table.is_long:
                if launch := self._wide(table, cells):
                    yield launch
                continue
            this = [table.cell(cells, name) for name in _LAUNCH]
            # Without launch numbers, a repeated metric begins the next launch.
            again = current is not None and table.metric(cells) in current.metrics
            if current is None or key != this or (again and "ID" not in table.places):
                if current is not None:
                    yield current
                current = self._begun(table, cells)
                key = this
            self._add(table, cells, current)
        if current is not None:
            yield current

    def _rows(self) -> Iterator[tuple[LaunchTable, list[str]]]:
        """Yield the rows of tables; other lines are the program's output."""
        table: LaunchTable | None = None
        lines = self._text.lines(as_pages)
        for line in lines:
            if error := _ERROR.match(line):
                code = _ERROR_CODE.search(error[2])
                if code or (error[1] == "ERROR" and len(self.errors) < _ERRORS_MAXIMUM):
                    self.errors.add(code[0] if code else plain_words(error[2]))
            if _KERNEL in line and (launch_table := table_of(self._text.record(line, lines) or ())):
                table = launch_table
                self._units = None
            elif table is not None and line.strip() and not line.startswith("=="):
                cells = self._text.record(line, lines)
                if cells and table.takes(cells):
                    yield table, cells
                elif cells:
                    self.unread["line that is no row of its table"] += 1

    def _sampled_values(self) -> Iterator[str]:
        for table, cells in islice(self._rows(), _SAMPLED_LINES):
            if table.is_long:
                yield table.value(cells)
            else:
                pairs = zip(table.columns, cells, strict=True)
                yield from (cell for column, cell in pairs if _RAW in column)

    def _begun(self, table: LaunchTable, cells: Sequence[str]) -> KernelLaunch:
        count = printed_number(table.cell(cells, "Invocations"), self._mark)
        return KernelLaunch(
            kernel=table.cell(cells, _KERNEL) or "(no name)",
            device=table.cell(cells, "Device") or "0",
            count=round(count) if count and count >= 1 else 1,
        )

    def _add(self, table: LaunchTable, cells: Sequence[str], launch: KernelLaunch) -> None:
        self.events += 1
        key = table.metric(cells)
        if not key[1]:
            if text := table.cell(cells, "Rule Description"):
                speedup = printed_number(table.cell(cells, "Estimated Speedup"), self._mark)
                section = table.cell(cells, "Section Name")
                launch.rules.append(ProfilerRule(text[:_RULE_CHARACTERS], speedup or 0.0, section))
            else:
                self.unread["row without a metric or a rule"] += 1
        elif not is_wanted(key):
            self.unread["metric of no use here"] += 1
        elif (value := printed_number(table.value(cells), self._mark)) is None:
            self.unread["metric without a value"] += 1
        else:
            unit, *ends = (
                table.cell(cells, column) for column in ("Metric Unit", "Minimum", "Maximum")
            )
            least, greatest = (printed_number(end, self._mark) for end in ends)
            launch.metrics[key] = LaunchMetric(value, unit, least, greatest)

    def _wide(self, table: LaunchTable, cells: Sequence[str]) -> KernelLaunch | None:
        """Return a launch of a wide page; `None` for the row of units."""
        if self._units is None and not table.cell(cells, _KERNEL):
            self._units = cells
            return None
        self.events += 1
        launch = self._begun(table, cells)
        units = self._units or [""] * len(cells)
        for column, cell, unit in zip(table.columns, cells, units, strict=True):
            if column == DEVICE_NAME:
                launch.device_name = cell.strip()
            elif is_wanted(("", column)):
                if (value := printed_number(cell, self._mark)) is not None:
                    launch.metrics["", column] = LaunchMetric(value, unit.strip())
                else:
                    self.unread["metric without a value"] += 1
        return launch
