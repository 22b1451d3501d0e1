"""Profiled kernel launch, its metrics, and those of use here."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from rightsizer.telemetry.profiles.printed_text import bytes_in, ratio_in, seconds_in

MetricKey: TypeAlias = tuple[str, str]
"""Section and name: the same name can stand in two sections, in two units."""

_RAW: Final = "__"
"""In the names of metrics as the hardware has them, which mean the same in every section."""


@dataclass(frozen=True, slots=True)
class LaunchMetric:
    """A measured value in its unit; over several launches, with the extremes."""

    value: float
    unit: str
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True)
class ProfilerRule:
    """What the profiler advises."""

    text: str
    speedup_percent: float = 0.0
    """That it estimates; 0 where it does not."""


@dataclass(slots=True)
class KernelLaunch:
    """A launch, or several alike where the profiler summed them up."""

    kernel: str
    device: str = "0"
    count: int = 1
    metrics: dict[MetricKey, LaunchMetric] = field(default_factory=dict)
    device_name: str = ""
    rules: list[ProfilerRule] = field(default_factory=list)

    def first(
        self, keys: Iterable[MetricKey], convert: Callable[[LaunchMetric, str], float | None]
    ) -> float | None:
        """The first of these metrics that is there and in a unit that can be converted."""
        for key in keys:
            figure = self.metrics.get(key)
            if figure is not None and (value := convert(figure, key[1])) is not None:
                return value
        return None

    def raw(self) -> Iterator[tuple[str, LaunchMetric]]:
        """Metrics by the hardware's own names."""
        for (section, name), figure in self.metrics.items():
            if not section:
                yield name, figure


def metric_key(section: str, name: str) -> MetricKey:
    """Where a metric is kept."""
    return ("", name) if _RAW in name else (section, name)


_SPEED_OF_LIGHT: Final = ("GPU Speed Of Light Throughput", "GPU Speed Of Light")
"""The section's name, and the one it had until 2021."""
_DURATION: Final[tuple[MetricKey, ...]] = (
    *((section, "Duration") for section in _SPEED_OF_LIGHT),
    ("", "gpu__time_duration.sum"),
    ("", "gpu__time_duration.avg"),
)
_COMPUTE: Final[tuple[MetricKey, ...]] = (
    *((section, "Compute (SM) Throughput") for section in _SPEED_OF_LIGHT),
    ("GPU Speed Of Light", "SOL SM"),
    ("", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
)
_DRAM: Final[tuple[MetricKey, ...]] = (
    *((section, "DRAM Throughput") for section in _SPEED_OF_LIGHT),
    ("GPU Speed Of Light", "SOL DRAM"),
    ("GPU Speed Of Light", "SOL FB"),
    ("", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"),
    ("", "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
)
_OCCUPANCY: Final[tuple[MetricKey, ...]] = (
    ("Occupancy", "Achieved Occupancy"),
    ("", "sm__warps_active.avg.pct_of_peak_sustained_active"),
)
_DRAM_RATE: Final[tuple[MetricKey, ...]] = (
    ("Memory Workload Analysis", "Memory Throughput"),
    ("", "dram__bytes.sum.per_second"),
)
_DRAM_BYTES: Final[tuple[tuple[MetricKey, ...], ...]] = (
    (("", "dram__bytes.sum"),),
    (("", "dram__bytes_read.sum"), ("", "dram__bytes_write.sum")),
    (("", "dram__bytes_op_read.sum"), ("", "dram__bytes_op_write.sum")),
)
_MULTIPROCESSORS: Final[tuple[MetricKey, ...]] = (
    ("Launch Statistics", "# SMs"),
    ("", "device__attribute_multiprocessor_count"),
)
_TENSOR: Final = re.compile(r"sm(?:sp)?__(?:inst_executed_pipe_tensor|pipe_tensor|ops_path_tensor)")
_ALL_TENSOR: Final = re.compile(
    r"sm(?:sp)?__(?:inst_executed_pipe_tensor|pipe_tensor(?:_cycles_active|_inst)?)\."
)
"""Of the whole pipe, where others are of one kind of number and may be 0 beside another."""
_PEAK: Final = ".peak_"
"""In the names of what the hardware could do at most."""
_TENSOR_RULE: Final = re.compile(
    r"\bTensor\b[^.]{0,40} is the highest-utilized pipeline|dominated by its Tensor"
)
_WANTED: Final = frozenset(
    key
    for keys in (
        _DURATION,
        _COMPUTE,
        _DRAM,
        _OCCUPANCY,
        _DRAM_RATE,
        *_DRAM_BYTES,
        _MULTIPROCESSORS,
    )
    for key in keys
)


@dataclass(frozen=True, slots=True)
class LaunchFigures:
    """Of one launch; `None` for what was not measured."""

    seconds: float | None
    compute_ratio: float | None
    dram_ratio: float | None
    dram_bytes_per_second: float | None
    occupancy_ratio: float | None
    uses_tensor_cores: bool | None


def is_wanted(key: MetricKey) -> bool:
    """Whether a metric is read at all; profiles can have thousands."""
    return key in _WANTED or _TENSOR.match(key[1]) is not None


def figures_of(launch: KernelLaunch) -> LaunchFigures:
    """What a launch's metrics come to."""
    duration = launch.first(_DURATION, _seconds)
    return LaunchFigures(
        seconds=duration,
        compute_ratio=launch.first(_COMPUTE, _ratio),
        dram_ratio=launch.first(_DRAM, _ratio),
        dram_bytes_per_second=_dram_rate(launch, duration),
        occupancy_ratio=launch.first(_OCCUPANCY, _ratio),
        uses_tensor_cores=_uses_tensor_cores(launch),
    )


def duration_figure(launch: KernelLaunch) -> tuple[float, float] | None:
    """The shortest and the longest time; `None` where no time was measured."""
    shortest = launch.first(_DURATION, lambda figure, _: _in_seconds(figure, figure.least))
    longest = launch.first(_DURATION, lambda figure, _: _in_seconds(figure, figure.most))
    return None if shortest is None or longest is None else (shortest, longest)


def multiprocessors_of(launch: KernelLaunch) -> int | None:
    """How many the device has."""
    count = launch.first(_MULTIPROCESSORS, lambda figure, _: figure.value)
    return round(count) if count is not None and count >= 1 else None


def _seconds(figure: LaunchMetric, _name: str) -> float | None:
    return _in_seconds(figure, figure.value)


def _in_seconds(figure: LaunchMetric, value: float | None) -> float | None:
    factor = seconds_in(figure.unit)
    value = figure.value if value is None else value
    return None if factor is None or value < 0 else value * factor


def _ratio(figure: LaunchMetric, name: str) -> float | None:
    factor = ratio_in(figure.unit)
    if factor is None and not figure.unit and ".pct_of_" in name:
        factor = 0.01
    return None if factor is None or figure.value < 0 else figure.value * factor


def _bytes(figure: LaunchMetric, _name: str) -> float | None:
    factor = bytes_in(figure.unit)
    return None if factor is None or figure.value < 0 else figure.value * factor


def _dram_rate(launch: KernelLaunch, duration: float | None) -> float | None:
    if (rate := launch.first(_DRAM_RATE, _bytes)) is not None:
        return rate
    if not duration:
        return None
    for keys in _DRAM_BYTES:
        parts = [launch.first((key,), _bytes) for key in keys]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts):
            return sum(known) / duration
    return None


def _uses_tensor_cores(launch: KernelLaunch) -> bool | None:
    """By counters, else by what a rule says of the pipes; unknown where only a part is counted."""
    counted = [
        (name, figure.value)
        for name, figure in launch.raw()
        if _TENSOR.match(name) and _PEAK not in name
    ]
    if any(value > 0 for _, value in counted):
        return True
    if any(_ALL_TENSOR.match(name) for name, _ in counted):
        return False
    return True if any(_TENSOR_RULE.search(rule.text) for rule in launch.rules) else None
