"""Metric families and series of a generation, and their text as Prometheus and OpenMetrics."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Final

from msgspec import Struct

from rightsizer.model.metric import METRICS
from rightsizer.model.values import (
    DEFAULT_COLLECTORS,
    NANOSECONDS_PER_SECOND,
    Collector,
    Histogram,
    Level,
)

_WHOLE_DIGITS: Final = 6
"""Digits from which on Go writes an exponent."""
_EXPONENT_FROM: Final = 10.0**_WHOLE_DIGITS
_NAME_END: Final = re.compile("[{ ]")
_RENDERINGS_KEPT: Final = 16
"""Renderings for which an unused series is cached at least. Source: four minutes of scrapes."""


def number_text(value: float) -> str:
    """Format a number as Go, and with it Prometheus, does."""
    text = repr(float(value))
    if -math.inf < value < _EXPONENT_FROM:
        return text
    if not math.isfinite(value):
        return {"inf": "+Inf", "-inf": "-Inf"}.get(text, "NaN")
    # Go uses exponents for smaller numbers than Python.
    whole, _, rest = text.partition(".")
    if len(whole) <= _WHOLE_DIGITS:
        return text
    mantissa = f"{whole[0]}.{whole[1:]}{rest}".rstrip("0.")
    return f"{mantissa}e+{len(whole) - 1:02d}"


class MetricSeries:
    """A long-lived series that formats the constant part of its line once."""

    __slots__ = ("_last", "_start_length")

    def __init__(self, name: str, labels: Sequence[str] = (), values: Sequence[str] = ()) -> None:
        pairs = ",".join(
            f'{label}="{escaped(str(value))}"'
            for label, value in sorted(zip(labels, values, strict=True))
        )
        start = f"{name}{{{pairs}}} " if pairs else f"{name} "
        self._start_length = len(start)
        self._last: tuple[float | None, str] = (None, start)

    def line(self, value: float) -> str:
        """Return a sample's line; cached for the last value, since few values change."""
        last = self._last  # Read once: renderings of two threads share the series.
        if last[0] == value:
            return last[1]
        line = f"{last[1][: self._start_length]}{number_text(value)}\n"
        self._last = (value, line)
        return line


def escaped(value: str) -> str:
    """Escape a label's value for use between quotes."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


BUCKET_EDGES: Final = (0.0, 0.02, 0.05, 0.1, 0.25, 0.5, 0.65, 0.8, 0.9, 0.95, 1.0)
"""Whole percents, so that each follows exactly from the 101 bins; `+Inf` is the twelfth.
They include the classifier's thresholds, and 0, which separates idle from nearly idle."""

_EDGE_PERCENTS: Final = tuple(round(100 * edge) for edge in BUCKET_EDGES)
_EDGE_TEXTS: Final = (*map(number_text, BUCKET_EDGES), "+Inf")

_TEXT_SUFFIXES: Final = {"counter": "_total", "info": "_info"}
_TEXT_TYPES: Final = {"info": "gauge"}


class FamilyHead(Struct, frozen=True, dict=True):
    """Metadata lines of a metric, formatted once."""

    name: str
    """Without the suffix of its samples."""
    help: str
    kind: str
    collector: Collector
    unit: str = ""

    @cached_property
    def text(self) -> str:
        """Lines of Prometheus's text format."""
        whole = self.name + _TEXT_SUFFIXES.get(self.kind, "")
        said = self.help.replace("\\", r"\\").replace("\n", r"\n")
        kind = _TEXT_TYPES.get(self.kind, self.kind)
        return f"# HELP {whole} {said}\n# TYPE {whole} {kind}\n"

    @cached_property
    def open_metrics(self) -> str:
        """Lines of OpenMetrics."""
        unit = f"# UNIT {self.name} {self.unit}\n" if self.unit else ""
        return f"# HELP {self.name} {escaped(self.help)}\n# TYPE {self.name} {self.kind}\n{unit}"


@cache
def _head_of(name: str) -> FamilyHead:
    metric = METRICS[name]
    return FamilyHead(metric.stem, metric.help, metric.kind, metric.collector, metric.unit)


@dataclass(slots=True)
class SampleFamily:
    """Samples of one metric, as lines that both formats share."""

    head: FamilyHead
    lines: list[str]

    def restricted(self, names: Collection[str]) -> "SampleFamily":
        """Return the family with only the samples of these names."""
        chosen = [line for line in self.lines if _NAME_END.split(line, 1)[0] in names]
        return SampleFamily(self.head, chosen)


class SeriesCache:
    """Series that recent renderings used, in groups; the others' workloads and advice are gone."""

    def __init__(self) -> None:
        self._renderings = 0
        self.groups: dict[tuple[object, ...], tuple[MetricSeries, ...]] = {}
        self._former_groups = self.groups

    def begin_rendering(self) -> None:
        """Drop what none of the last renderings used."""
        self._renderings += 1
        if self._renderings % _RENDERINGS_KEPT == 0:
            self._former_groups = self.groups
            self.groups = {}

    def add(
        self, key: tuple[object, ...], make: Callable[[], tuple[MetricSeries, ...]]
    ) -> tuple[MetricSeries, ...]:
        """Add a group that is not in `groups`, made if former renderings did not use it, either."""
        group = self._former_groups.get(key) or make()
        self.groups[key] = group
        return group


class Families:
    """Collects samples by metric; only metrics of the table can be added.

    Metrics of disabled collectors and of levels above the chosen one are left out. Collectors that
    are off by default export all levels once enabled.
    """

    def __init__(
        self,
        collectors: Collection[Collector] = frozenset(Collector),
        level: Level = Level.FULL,
        cache: SeriesCache | None = None,
    ) -> None:
        self._cache = cache or SeriesCache()
        self._cache.begin_rendering()
        self._groups = self._cache.groups
        self._collectors = collectors
        self.exported = _exported(frozenset(collectors), level)
        """Names of the metrics that are not left out."""
        self._lines: dict[str, list[str] | None] = {
            name: [] if name in self.exported else None for name in METRICS
        }

    def collects(self, collector: Collector) -> bool:
        """Whether a collector is enabled, so that its samples are worth building."""
        return collector in self._collectors

    def add(self, name: str, value: float | None, *labels: str) -> None:
        """Add a series with label values in the table's order; nothing for `None`."""
        lines = self._lines[name]
        if value is not None and lines is not None:
            key = name, labels
            group = self._groups.get(key) or self._cache.add(key, lambda: _single(name, labels))
            lines.append(group[0].line(value))

    def add_info(self, name: str, *labels: str) -> None:
        """Add a series of an info metric."""
        self.add(name, 1.0, *labels)

    def add_each(
        self, name: str, last_values: tuple[str, ...], values: Iterable[float], *labels: str
    ) -> None:
        """Add a series for each value of the last label, after the values of the others."""
        if (lines := self._lines[name]) is not None:
            key = name, labels, last_values
            group = self._groups.get(key) or self._cache.add(key, lambda: _series_by(*key))
            lines += map(MetricSeries.line, group, values)

    def add_histogram(
        self, name: str, histogram: Histogram, sum_seconds: float, *labels: str
    ) -> None:
        """Add a histogram whose weights are nanoseconds; it counts whole seconds."""
        lines = self._lines[name]
        if lines is None:
            return
        weights = histogram.cumulative()
        counts = [weights[percent] // NANOSECONDS_PER_SECOND for percent in _EDGE_PERCENTS]
        # Ratios end at 1, so the last edge has counted everything.
        total = counts[-1]
        values = (*counts, total, total, sum_seconds)
        key = name, labels, _EDGE_TEXTS
        group = self._groups.get(key) or self._cache.add(
            key, lambda: _histogram_series(name, labels)
        )
        lines += map(MetricSeries.line, group, values)

    def __iter__(self) -> Iterator[SampleFamily]:
        for name, lines in self._lines.items():
            if lines:
                yield SampleFamily(_head_of(name), lines)


@lru_cache(maxsize=8)
def _exported(collectors: frozenset[Collector], level: Level) -> frozenset[str]:
    return frozenset(
        name
        for name, metric in METRICS.items()
        if metric.collector in collectors
        and (metric.level.rank <= level.rank or metric.collector not in DEFAULT_COLLECTORS)
    )


def _single(name: str, values: tuple[str, ...]) -> tuple[MetricSeries, ...]:
    return (MetricSeries(name, METRICS[name].labels, values),)


def _series_by(
    name: str, values: tuple[str, ...], last_values: tuple[str, ...]
) -> tuple[MetricSeries, ...]:
    labels = METRICS[name].labels
    return tuple(MetricSeries(name, labels, (*values, last)) for last in last_values)


def _histogram_series(name: str, values: tuple[str, ...]) -> tuple[MetricSeries, ...]:
    labels = METRICS[name].labels
    buckets = (
        MetricSeries(f"{name}_bucket", (*labels, "le"), (*values, text)) for text in _EDGE_TEXTS
    )
    ends = (MetricSeries(f"{name}_{end}", labels, values) for end in ("count", "sum"))
    return (*buckets, *ends)


def prometheus_text(families: Iterable[SampleFamily]) -> bytes:
    """Encode as Prometheus's text format, versions 0.0.4 and 1.0.0."""
    return "".join(
        line for family in families for line in (family.head.text, *family.lines)
    ).encode()


def open_metrics_text(families: Iterable[SampleFamily]) -> bytes:
    """Encode as OpenMetrics, version 1.0.0."""
    lines = (line for family in families for line in (family.head.open_metrics, *family.lines))
    return "".join((*lines, "# EOF\n")).encode()
