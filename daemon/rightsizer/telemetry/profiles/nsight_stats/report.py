"""Kinds of reports of `nsys stats`, told by their columns, and names of operations."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from rightsizer.model.profile import CopyKind, HostMemory
from rightsizer.telemetry.profiles.printed_text import (
    LARGEST,
    DecimalMark,
    bytes_in,
    printed_number,
    seconds_in,
)

_COPY: Final = re.compile(r"\[CUDA (Unified Memory )?memcpy ([\w-]+)\]", re.IGNORECASE)
_FILL: Final = re.compile(r"\[CUDA memset\]", re.IGNORECASE)
_DIRECTIONS: Final[Mapping[str, CopyKind]] = {
    "host-to-device": CopyKind.HOST_TO_DEVICE,
    "device-to-host": CopyKind.DEVICE_TO_HOST,
    "device-to-device": CopyKind.DEVICE_TO_DEVICE,
    "peer-to-peer": CopyKind.PEER,
    "htod": CopyKind.HOST_TO_DEVICE,
    "dtoh": CopyKind.DEVICE_TO_HOST,
    "dtod": CopyKind.DEVICE_TO_DEVICE,
    "ptop": CopyKind.PEER,
}


def copy_of(name: str) -> tuple[CopyKind, HostMemory] | None:
    """What an operation copies; `None` where it is no copy."""
    found = _COPY.fullmatch(name.strip())
    if not found:
        return None
    memory = HostMemory.MANAGED if found[1] else HostMemory.UNKNOWN
    return _DIRECTIONS.get(found[2].lower(), CopyKind.OTHER), memory


def is_fill(name: str) -> bool:
    """Whether an operation sets memory."""
    return _FILL.fullmatch(name.strip()) is not None


def is_operation(name: str) -> bool:
    """Whether a name is that of no kernel."""
    return name.startswith("[CUDA ")


_COLUMN: Final = re.compile(r"(.*?)\s*\(([^()]*)\)")
_FORMER_NAMES: Final[Mapping[str, str]] = {
    "average": "avg",
    "minimum": "min",
    "maximum": "max",
    "operations": "count",
    "calls": "num calls",
}


class StatsReport(StrEnum):
    """The reports that are told apart, by their names in the vendor's program."""

    KERNELS = "cuda_gpu_kern_sum"
    KERNELS_BY_GRID = "cuda_gpu_kern_gb_sum"
    GPU_SUMS = "cuda_gpu_sum"
    CALLS = "cuda_api_sum"
    COPY_TIMES = "cuda_gpu_mem_time_sum"
    COPY_SIZES = "cuda_gpu_mem_size_sum"
    RANGES = "nvtx_sum"
    GPU_TRACE = "cuda_gpu_trace"
    CALL_TRACE = "cuda_api_trace"
    RANGE_TRACE = "nvtx_pushpop_trace"
    OTHER = "table of another report"


_NEEDED: Final[tuple[tuple[StatsReport, frozenset[str], frozenset[str]], ...]] = (
    (
        StatsReport.CALL_TRACE,
        frozenset({"start", "duration", "name", "corrid", "tid"}),
        frozenset(),
    ),
    (
        StatsReport.GPU_TRACE,
        frozenset({"start", "duration", "name", "corrid"}),
        frozenset({"result"}),
    ),
    (StatsReport.RANGE_TRACE, frozenset({"start", "end", "name", "lvl", "rangeid"}), frozenset()),
    (
        StatsReport.GPU_SUMS,
        frozenset({"total time", "instances", "category", "operation"}),
        frozenset(),
    ),
    (StatsReport.RANGES, frozenset({"total time", "instances", "range"}), frozenset()),
    (
        StatsReport.KERNELS_BY_GRID,
        frozenset({"total time", "instances", "name", "gridxyz"}),
        frozenset(),
    ),
    (StatsReport.KERNELS, frozenset({"total time", "instances", "name"}), frozenset({"style"})),
    (StatsReport.CALLS, frozenset({"total time", "num calls", "name"}), frozenset()),
    (
        StatsReport.COPY_TIMES,
        frozenset({"total time", "count", "operation"}),
        frozenset({"category"}),
    ),
    (StatsReport.COPY_SIZES, frozenset({"total", "count", "operation"}), frozenset()),
)
"""Reports with the columns that they have, and those that they do not; the first match counts."""
_LONGEST_HEADER: Final = 100


@dataclass(frozen=True, slots=True)
class StatsHeader:
    """The columns of a table."""

    report: StatsReport
    names: tuple[str, ...]
    units: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StatsRow:
    """One row of a table."""

    header: StatsHeader
    cells: Sequence[Any]
    mark: DecimalMark

    @property
    def report(self) -> StatsReport:
        """Of which report it is."""
        return self.header.report

    def text(self, *names: str) -> str:
        """The text in the first of these columns that is there."""
        value = self._value(*names)[0]
        return value.strip() if isinstance(value, str) else ""

    def number(self, *names: str) -> float | None:
        """The number in the first of these columns that is there, as it is printed."""
        value = self._value(*names)[0]
        if isinstance(value, str):
            return printed_number(value, self.mark)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if abs(value) <= LARGEST else None

    def seconds(self, *names: str) -> float | None:
        """The time in the first of these columns; nanoseconds where no unit is given."""
        value, unit = self.number(*names), self._value(*names)[1]
        factor = seconds_in(unit or "ns")
        return None if value is None or factor is None else value * factor

    def nanoseconds(self, name: str) -> int | None:
        """The time in a column, whole."""
        value, unit = self.number(name), self._value(name)[1]
        if value is None or (factor := seconds_in(unit or "ns")) is None:
            return None
        return round(value * round(factor * 1e9))

    def bytes(self, name: str) -> int | None:
        """The size in a column; `None` where it, or its unit, is not there."""
        value, factor = self.number(name), bytes_in(self._value(name)[1])
        return None if value is None or factor is None else round(value * factor)

    def _value(self, *names: str) -> tuple[Any, str]:
        for name in names:
            if name in self.header.names:
                place = self.header.names.index(name)
                return self.cells[place], self.header.units[place]
        return None, ""


@lru_cache(maxsize=64)
def header_of(titles: tuple[str, ...]) -> StatsHeader | None:
    """The header that these column titles make; `None` where they are no header."""
    if not 3 <= len(titles) <= _LONGEST_HEADER:  # noqa: PLR2004 - no report has fewer columns.
        return None
    columns = [_column(title) for title in titles]
    names = tuple(name for name, _ in columns)
    units = tuple(unit for _, unit in columns)
    there = frozenset(names)
    for report, needed, absent in _NEEDED:
        if needed <= there and not absent & there:
            return StatsHeader(report, names, units)
    if "time" in there and "%" in units and any(map(seconds_in, units)):
        return StatsHeader(StatsReport.OTHER, names, units)
    if any(name in {"start", "duration"} and seconds_in(unit) for name, unit in columns):
        return StatsHeader(StatsReport.OTHER, names, units)
    return None


def _column(title: str) -> tuple[str, str]:
    found = _COLUMN.fullmatch(title.strip())
    name, unit = (found[1], found[2]) if found else (title.strip(), "")
    plain = name.lower()
    return _FORMER_NAMES.get(plain, plain), unit.strip()
