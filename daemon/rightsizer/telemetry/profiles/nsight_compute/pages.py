"""Launches from CSV pages of Nsight Compute: long, summarized, wide."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.profiles.nsight_compute.launch import (
    KernelLaunch,
    LaunchMetric,
    ProfilerRule,
    is_wanted,
    metric_key,
)
from rightsizer.telemetry.profiles.printed_text import (
    DecimalMark,
    PrintedText,
    decimal_mark,
    printed_number,
)

_KERNEL: Final = "Kernel Name"
_METRIC: Final = "Metric Name"
_FIRST: Final = frozenset({"ID", "Process ID", _KERNEL})
_RULE_CHARACTERS: Final = 1000
_DEVICE_NAME: Final = "device__attribute_display_name"
_ERROR_CODE: Final = re.compile(r"==ERROR==.*?\b(ERR_[A-Z_]+)")
_SAMPLED_LINES: Final = 2000


@dataclass(frozen=True, slots=True)
class LaunchTable:
    """The columns of a page."""

    columns: tuple[str, ...]
    places: Mapping[str, int]
    is_long: bool
    """One row a metric, where wide pages have one row a launch."""

    def cell(self, cells: Sequence[str], name: str) -> str:
        """What stands in a column; nothing where it or the row's end is not there."""
        place = self.places.get(name, len(cells))
        return cells[place].strip() if place < len(cells) else ""


def table_of(cells: Sequence[str]) -> LaunchTable | None:
    """The page that begins with these column titles; `None` where they are none."""
    columns = tuple(cell.strip() for cell in cells)
    if _KERNEL not in columns or columns[0] not in _FIRST:
        return None
    is_long = {_METRIC, "Metric Unit"} <= set(columns)
    if not is_long and not any("__" in column for column in columns):
        return None
    return LaunchTable(columns, {name: place for place, name in enumerate(columns)}, is_long)


class ComputePages:
    """The launches of a file, in order."""

    def __init__(self, path: Path, limits: ReadLimits) -> None:
        self._text = PrintedText(path, limits)
        self._mark: DecimalMark = "."
        self._units: Sequence[str] | None = None
        self.unread: Counter[str] = self._text.unread
        """Lines and metrics that were passed over."""
        self.error_codes: set[str] = set()
        """That the profiler printed."""
        self.tables = 0
        self.events = 0
        """Rows that were taken in."""

    def launches(self) -> Iterator[KernelLaunch]:
        """Every launch of every page.

        Raises:
            ProfileError: the file cannot be read.
        """
        self._mark = decimal_mark(self._sampled_values())
        self.unread.clear()
        self.error_codes.clear()
        self.tables = 0
        current, key = None, None
        for table, cells in self._rows(counts=True):
            if not table.is_long:
                if launch := self._wide(table, cells):
                    yield launch
                continue
            this = _launch_key(table, cells)
            if current is None or key != this or self._repeats(table, cells, current):
                if current is not None:
                    yield current
                current, key = self._begun(table, cells), this
            self._add(table, cells, current)
        if current is not None:
            yield current

    def _rows(self, *, counts: bool) -> Iterator[tuple[LaunchTable, list[str]]]:
        """Rows of tables; what stands outside of them is the program's own and is let go."""
        table: LaunchTable | None = None
        lines = self._text.lines()
        for line in lines:
            if code := _ERROR_CODE.match(line):
                self.error_codes.add(code[1])
            if _KERNEL in line and (found := table_of(self._text.record(line, lines) or ())):
                table, self._units = found, None
                self.tables += 1
            elif table is not None and line.strip() and not line.startswith("=="):
                cells = self._text.record(line, lines)
                if cells and _is_row(table, cells):
                    yield table, cells
                elif counts and cells:
                    self.unread["line that is no row of its table"] += 1

    def _sampled_values(self) -> Iterator[str]:
        for table, cells in islice(self._rows(counts=False), _SAMPLED_LINES):
            if table.is_long:
                yield table.cell(cells, "Metric Value") or table.cell(cells, "Average")
            else:
                yield from (
                    cell
                    for column, cell in zip(table.columns, cells, strict=True)
                    if "__" in column
                )

    def _begun(self, table: LaunchTable, cells: Sequence[str]) -> KernelLaunch:
        count = printed_number(table.cell(cells, "Invocations"), self._mark)
        return KernelLaunch(
            kernel=table.cell(cells, _KERNEL) or "(no name)",
            device=table.cell(cells, "Device") or "0",
            count=round(count) if count and count >= 1 else 1,
        )

    def _repeats(self, table: LaunchTable, cells: Sequence[str], current: KernelLaunch) -> bool:
        """Whether a metric comes again, where launches have no number to tell them apart."""
        if "ID" in table.places:
            return False
        name = table.cell(cells, _METRIC)
        return metric_key(table.cell(cells, "Section Name"), name) in current.metrics

    def _add(self, table: LaunchTable, cells: Sequence[str], launch: KernelLaunch) -> None:
        self.events += 1
        name = table.cell(cells, _METRIC)
        key = metric_key(table.cell(cells, "Section Name"), name)
        if not name:
            self._add_rule(table, cells, launch)
        elif not is_wanted(key):
            self.unread["metric of no use here"] += 1
        else:
            text = table.cell(cells, "Metric Value") or table.cell(cells, "Average")
            value = printed_number(text, self._mark)
            if value is None:
                self.unread["metric without a value"] += 1
                return
            launch.metrics[key] = LaunchMetric(
                value,
                table.cell(cells, "Metric Unit"),
                printed_number(table.cell(cells, "Minimum"), self._mark),
                printed_number(table.cell(cells, "Maximum"), self._mark),
            )

    def _add_rule(self, table: LaunchTable, cells: Sequence[str], launch: KernelLaunch) -> None:
        text = table.cell(cells, "Rule Description")
        if not text:
            self.unread["row without a metric or a rule"] += 1
            return
        speedup = printed_number(table.cell(cells, "Estimated Speedup"), self._mark)
        launch.rules.append(ProfilerRule(text[:_RULE_CHARACTERS], speedup or 0.0))

    def _wide(self, table: LaunchTable, cells: Sequence[str]) -> KernelLaunch | None:
        """A launch of a wide page; `None` for the row of the units."""
        if self._units is None and not table.cell(cells, _KERNEL):
            self._units = cells
            return None
        self.events += 1
        launch = self._begun(table, cells)
        units = self._units or [""] * len(cells)
        for column, cell, unit in zip(table.columns, cells, units, strict=True):
            if column == _DEVICE_NAME:
                launch.device_name = cell.strip()
            elif "__" in column and is_wanted(metric_key("", column)):
                value = printed_number(cell, self._mark)
                if value is not None:
                    launch.metrics[metric_key("", column)] = LaunchMetric(value, unit.strip())
                else:
                    self.unread["metric without a value"] += 1
        return launch


def _launch_key(table: LaunchTable, cells: Sequence[str]) -> tuple[str, ...]:
    told_by = ("ID", "Process ID", _KERNEL, "Block Size", "Grid Size", "Device")
    return tuple(table.cell(cells, name) for name in told_by)


def _is_row(table: LaunchTable, cells: list[str]) -> bool:
    """Rows may end early on long pages; nothing but emptiness may follow a whole one."""
    columns = len(table.columns)
    if any(cells[columns:]):
        return False
    del cells[columns:]
    if table.is_long:
        return len(cells) > table.places[_METRIC]
    return len(cells) == columns
