"""Kernel launches and their metrics from CSV pages of Nsight Compute: long, summarized, wide."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

from rightsizer.io.yaml import load_beside
from rightsizer.model.frozen import dataclass, field
from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.profiles.printed_text import (
    DecimalMark,
    PrintedText,
    bytes_in,
    decimal_mark,
    printed_number,
    ratio_in,
    seconds_in,
)

MetricKey: TypeAlias = tuple[str, str]
"""Section and name: one name can occur in two sections with different units."""

_RAW: Final = "__"
"""Occurs in names of hardware metrics, which mean the same in every section."""
_KERNEL: Final = "Kernel Name"
_METRIC: Final = "Metric Name"
_FIRST: Final = frozenset({"ID", "Process ID", _KERNEL})
_LAUNCH: Final = ("ID", "Process ID", _KERNEL, "Block Size", "Grid Size", "Device")
"""Columns that identify a launch."""
_RULE_CHARACTERS: Final = 2000
DEVICE_NAME: Final = "device__attribute_display_name"
_ERROR_CODE: Final = re.compile(r"==(?:ERROR|WARNING)==.*?\b(ERR_[A-Z_]+|No kernels were profiled)")
_SAMPLED_LINES: Final = 2000


@dataclass(frozen=True, slots=True)
class LaunchMetric:
    """A measured value in its unit; with extremes over several launches."""

    value: float
    unit: str
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True)
class ProfilerRule:
    """Advice of the profiler."""

    text: str
    speedup_percent: float = 0.0
    """Estimated speed-up; 0 without an estimate."""


@dataclass(slots=True)
class KernelLaunch:
    """A launch, or several summarized by the profiler."""

    kernel: str
    device: str = "0"
    count: int = 1
    metrics: dict[MetricKey, LaunchMetric] = field(default_factory=dict)
    device_name: str = ""
    rules: list[ProfilerRule] = field(default_factory=list)

    def first(
        self,
        keys: Iterable[MetricKey],
        factor_of: Callable[[str], float | None],
        part: str = "value",
    ) -> float | None:
        """Return the first available of the metrics in the base unit, by `factor_of`.

        `part` may be `least` or `most`, which default to the value.
        """
        for key in keys:
            if (figure := self.metrics.get(key)) is None:
                continue
            known = getattr(figure, part)
            value = figure.value if known is None else known
            is_percent = key[1].endswith((".pct", "_pct")) or ".pct_of_" in key[1]
            factor = factor_of(figure.unit or ("%" if is_percent else ""))
            if factor is not None and value >= 0:
                return float(value * factor)
        return None


def _keys(*texts: str) -> tuple[MetricKey, ...]:
    """Parse `section/name`, or a hardware metric's name; `SOL/` stands for both its sections."""
    keys: list[MetricKey] = []
    for text in texts:
        section, _, name = text.rpartition("/")
        keys += [(each, name) for each in (_SPEED_OF_LIGHT if section == "SOL" else (section,))]
    return tuple(keys)


_SPEED_OF_LIGHT: Final = ("GPU Speed Of Light Throughput", "GPU Speed Of Light")
"""Name of the section, and its name until 2021."""
_LOADED: Final = load_beside(__file__, "metrics.yaml")
_STALLS: Final[Mapping[str, str]] = _LOADED["stalls"]
_METRICS: Final[Mapping[str, Mapping[str, tuple[MetricKey, ...]]]] = {
    section: {name: _keys(*texts) for name, texts in named.items()}
    for section, named in _LOADED.items()
    if named is not _STALLS
}
_OTHERS: Final = _METRICS["others"]
DURATION: Final = _OTHERS["duration"]
MULTIPROCESSORS: Final = _OTHERS["multiprocessors"]
_DRAM_BYTES: Final = ("dram_bytes", "dram_bytes_by_way", "dram_bytes_by_operation")
_COALESCED_SECTORS: Final = 16.0
"""Maximum for a coalesced request: 32 threads read 16 adjacent bytes each."""
_STALL: Final = re.compile(
    r"smsp__average_warps?_(?:latency_)?issue_stalled_(\w+?)(?:_per_issue_active)?\.ratio"
)
"""Warps stalled for a reason, or their cycles, between two instructions."""
_STALL_RULE: Final = re.compile(
    r"cycles being stalled (?P<why>[^.]+)\..*?represents about (?P<share>[\d.]+)%", re.DOTALL
)
_EXCESS_RULE: Final = re.compile(
    r"excessive sectors \((\d+)% of the total|"
    r"global access, expected (\d+) transactions, got (\d+)"
)
"""Text of the profiler's access rule, and the one until 2020."""
_TENSOR: Final = re.compile(r"sm(?:sp)?__(?:inst_executed_pipe_tensor|pipe_tensor|ops_path_tensor)")
_ALL_TENSOR: Final = re.compile(
    r"sm(?:sp)?__(?:inst_executed_pipe_tensor|pipe_tensor(?:_cycles_active|_inst)?)\."
)
"""Metrics of the whole pipe; others count one number format, and may be 0 beside it."""
_PERCENT: Final = ".pct_of_peak"
_LEAST_PERCENT: Final = 2.0
"""On an H100 the whole pipe reads .5% in a layer norm and 1.3% in a random number generator, with
every format at 0."""
_OPERATIONS: Final[Mapping[str, int]] = {
    f"smsp__sass_thread_inst_executed_op_{kind}{name}_pred_on.sum": weight
    for kind in "fhd"
    for name, weight in (("add", 1), ("mul", 1), ("fma", 2))
}
"""Operations per executed thread instruction, for fp32, fp16 and fp64."""
_TENSOR_OPERATIONS: Final = re.compile(r"sm__ops_path_tensor_src_(?!\w*sparsity)\w+\.sum")
_PER_CYCLE: Final = ".per_cycle_elapsed"
_CLOCKS: Final = ("smsp__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second")
_HERTZ: Final[Mapping[str, float]] = {
    **dict.fromkeys(("hz", "cycle/second", "cycle/s"), 1.0),
    **dict.fromkeys(("mhz", "cycle/usecond", "cycle/us"), 1e6),
    **dict.fromkeys(("ghz", "cycle/nsecond", "cycle/ns"), 1e9),
}
_PEAK: Final = ".peak_"
"""Occurs in names of the hardware's maximum."""
_TENSOR_RULE: Final = re.compile(
    r"\bTensor\b[^.]{0,40} is the highest-utilized pipeline|dominated by its Tensor"
)
_WANTED: Final = frozenset(
    key for named in _METRICS.values() for keys in named.values() for key in keys
)


def is_wanted(key: MetricKey) -> bool:
    """Whether a metric is read; profiles can have thousands."""
    counted = key[1].removesuffix(_PER_CYCLE)
    is_named = key in _WANTED or counted in _OPERATIONS or counted in _CLOCKS
    return is_named or bool(_TENSOR.match(key[1]) or _STALL.fullmatch(key[1]))


def measured(launch: KernelLaunch) -> dict[str, float]:
    """Return the measurements except time, by field name in `KernelUse` or its counters."""
    found = {name: launch.first(keys, ratio_in) for name, keys in _METRICS["ratios"].items()}
    found |= {name: launch.first(keys, _as_it_is) for name, keys in _METRICS["numbers"].items()}
    found["excess_sectors_ratio"] = _excess_sectors(launch)
    found["dram_bytes_per_second"] = _dram_rate(launch)
    found["flops_per_second"] = _operations_rate(launch)
    return {name: value for name, value in found.items() if value is not None}


def stalls(launch: KernelLaunch) -> dict[str, float]:
    """Return the stall reasons of warps, by share of the cycles between two instructions."""
    counted = {
        found[1]: figure.value
        for (_, name), figure in launch.metrics.items()
        if (found := _STALL.fullmatch(name))
    }
    if whole := sum(counted.values()):
        known = ((_STALLS.get(name), value) for name, value in counted.items())
        return {why: value / whole for why, value in known if why is not None}
    told = (found for rule in launch.rules if (found := _STALL_RULE.search(rule.text)))
    return {found["why"]: min(1.0, float(found["share"]) / 100) for found in told}


def extremes(launch: KernelLaunch) -> tuple[float, float] | None:
    """Return the shortest and longest time; `None` if not measured."""
    shortest, longest = (launch.first(DURATION, seconds_in, part) for part in ("least", "most"))
    return None if shortest is None or longest is None else (shortest, longest)


def _dram_rate(launch: KernelLaunch) -> float | None:
    duration = launch.first(DURATION, seconds_in)
    if (rate := launch.first(_OTHERS["dram_rate"], bytes_in)) is not None or not duration:
        return rate
    for name in _DRAM_BYTES:
        parts = [launch.first((key,), bytes_in) for key in _OTHERS[name]]
        if None not in parts:
            return sum(filter(None, parts)) / duration
    return None


def _operations_rate(launch: KernelLaunch) -> float | None:
    """Compute from counts per launch or per cycle; `None` if not measured."""
    duration = launch.first(DURATION, seconds_in)
    clock = launch.first([("", name) for name in _CLOCKS], lambda unit: _HERTZ.get(unit.lower()))
    rates: dict[str, float] = {}
    for (_, name), figure in launch.metrics.items():
        counted = name.removesuffix(_PER_CYCLE)
        weight = 1 if _TENSOR_OPERATIONS.fullmatch(counted) else _OPERATIONS.get(counted, 0)
        if weight and name != counted and clock:
            rates.setdefault(counted, figure.value * weight * clock)
        elif weight and name == counted and duration:
            rates[counted] = figure.value * weight / duration
    return sum(rates.values()) if rates else None


def _as_it_is(_: str) -> float:
    return 1.0


def _excess_sectors(launch: KernelLaunch) -> float | None:
    """Return the share from its own metrics, else from a rule, else from sectors per request."""
    excess, whole = (launch.first((key,), _as_it_is) for key in _OTHERS["excess_sectors"])
    if excess is not None and whole:
        return min(1.0, excess / whole)
    # The ratio is 0 for loads or stores that do not occur.
    if used := [each for key in _OTHERS["bytes_used"] if (each := launch.first((key,), ratio_in))]:
        return 1.0 - min(1.0, *used)
    if said := [found for each in launch.rules if (found := _EXCESS_RULE.search(each.text))]:
        return max(
            float(each[1]) / 100 if each[1] else 1.0 - int(each[2]) / max(1, int(each[3]))
            for each in said
        )
    sectors, requests = (
        sum(launch.first((key,), _as_it_is) or 0.0 for key in _OTHERS[name])
        for name in ("sectors", "requests")
    )
    return max(0.0, 1.0 - _COALESCED_SECTORS * requests / sectors) if sectors and requests else None


def counts_tensor_cores(launch: KernelLaunch) -> bool | None:
    """By counters, else by a rule on the pipes; `None` if only parts are counted."""
    counted = {
        name: figure.value
        for (section, name), figure in launch.metrics.items()
        if not section and _TENSOR.match(name) and _PEAK not in name
    }
    least = {name: _LEAST_PERCENT if _PERCENT in name else 0.0 for name in counted}
    if any(value > least[name] for name, value in counted.items()):
        return True
    if any(map(_ALL_TENSOR.match, counted)):
        return False
    return True if any(_TENSOR_RULE.search(rule.text) for rule in launch.rules) else None


@dataclass(frozen=True, slots=True)
class LaunchTable:
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
        self.error_codes: set[str] = set()
        """Error codes printed by the profiler."""
        self.events = 0
        """Rows that were read."""

    def launches(self) -> Iterator[KernelLaunch]:
        """Yield the launches of all pages; raises `ProfileError` if the file is unreadable."""
        self._mark = decimal_mark(self._sampled_values())
        self.unread.clear()
        self.error_codes.clear()
        current, key = None, None
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
                current, key = self._begun(table, cells), this
            self._add(table, cells, current)
        if current is not None:
            yield current

    def _rows(self) -> Iterator[tuple[LaunchTable, list[str]]]:
        """Yield the rows of tables; other lines are the program's output."""
        table: LaunchTable | None = None
        lines = self._text.lines()
        for line in lines:
            if code := _ERROR_CODE.match(line):
                self.error_codes.add(code[1])
            if _KERNEL in line and (found := table_of(self._text.record(line, lines) or ())):
                table, self._units = found, None
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
                launch.rules.append(ProfilerRule(text[:_RULE_CHARACTERS], speedup or 0.0))
            else:
                self.unread["row without a metric or a rule"] += 1
        elif not is_wanted(key):
            self.unread["metric of no use here"] += 1
        elif (value := printed_number(table.value(cells), self._mark)) is None:
            self.unread["metric without a value"] += 1
        else:
            unit, *ends = (
                table.cell(cells, each) for each in ("Metric Unit", "Minimum", "Maximum")
            )
            least, most = (printed_number(each, self._mark) for each in ends)
            launch.metrics[key] = LaunchMetric(value, unit, least, most)

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
