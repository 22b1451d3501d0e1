"""Metric families and series of a generation, and their text as Prometheus and OpenMetrics."""

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from rightsizer.model.histogram import Histogram
from rightsizer.model.metric import METRICS
from rightsizer.model.metric_family import DEFAULT_COLLECTORS, Collector, Level
from rightsizer.model.units import NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_WHOLE_DIGITS: Final = 6
"""Of a number that Go writes without an exponent."""
_SERIES_KEPT: Final = 32768
"""Twice those of the largest node that is planned for; the oldest give way."""


def number_text(value: float) -> str:
    """A number as Go writes it, and with it Prometheus."""
    text = repr(float(value))
    if not math.isfinite(value):
        return {"inf": "+Inf", "-inf": "-Inf"}.get(text, "NaN")
    whole, _, rest = text.partition(".")
    if value <= 0 or len(whole) <= _WHOLE_DIGITS:
        return text
    # Go switches to exponents sooner than Python.
    mantissa = f"{whole[0]}.{whole[1:]}{rest}".rstrip("0.")
    return f"{mantissa}e+{len(whole) - 1:02d}"


class MetricSeries:
    """A series, which lives long: what does not change of its line is written once.

    There are thousands on a large node, so that nothing is kept twice.
    """

    __slots__ = ("_label_names", "_label_values", "_last", "_start_length", "name")

    def __init__(
        self, name: str, label_names: tuple[str, ...], label_values: tuple[str, ...]
    ) -> None:
        self.name = name
        self._label_names, self._label_values = label_names, label_values
        labels = self.labels
        pairs = ",".join(f'{label}="{escaped(labels[label])}"' for label in sorted(labels))
        start = f"{name}{{{pairs}}} " if pairs else f"{name} "
        self._start_length = len(start)
        self._last: tuple[float | None, str] = (None, start)

    @property
    def labels(self) -> dict[str, str]:
        """The values of its labels by their names."""
        return dict(zip(self._label_names, map(str, self._label_values), strict=True))

    def line(self, value: float) -> str:
        """The line of a sample; that of the last value is kept, for few values change."""
        last = self._last  # One read, since renderings of two threads share the series.
        if last[0] == value:
            return last[1]
        line = f"{last[1][: self._start_length]}{number_text(value)}\n"
        self._last = (value, line)
        return line


@lru_cache(maxsize=_SERIES_KEPT)
def series_of(name: str, labels: tuple[str, ...], values: tuple[str, ...]) -> MetricSeries:
    """The one series of this name with these labels."""
    return MetricSeries(name, labels, values)


def escaped(value: str) -> str:
    """A label's value as it stands between quotes."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


BUCKET_EDGES: Final = (0.0, 0.02, 0.05, 0.1, 0.25, 0.5, 0.65, 0.8, 0.9, 0.95, 1.0)
"""Whole percents, so that each follows from the 101 bins exactly; `+Inf` is the twelfth.
They hold the classifier's own thresholds, and 0 alone, which tells idle from nearly idle."""

_EDGE_PERCENTS: Final = tuple(round(100 * edge) for edge in BUCKET_EDGES)
_EDGE_TEXTS: Final = (*map(number_text, BUCKET_EDGES), "+Inf")
_HISTOGRAMS_KEPT: Final = 1024


@dataclass(slots=True)
class SampleFamily:
    """The samples of one metric, and what is said of it above them."""

    name: str
    """Without the suffix that its samples have."""
    help: str
    kind: str
    unit: str
    collector: Collector
    samples: list[tuple[MetricSeries, float]] = field(default_factory=list)

    def restricted(self, names: Collection[str]) -> "SampleFamily":
        """The family with the samples of these names alone."""
        chosen = [each for each in self.samples if each[0].name in names]
        return SampleFamily(self.name, self.help, self.kind, self.unit, self.collector, chosen)

    def metric(self) -> "Metric":
        """The family as prometheus_client has it."""
        # With the library come its servers and TLS, which few agents need.
        from prometheus_client.core import Metric  # noqa: PLC0415
        from prometheus_client.samples import Sample  # noqa: PLC0415

        metric = Metric(self.name, self.help, self.kind, self.unit)
        metric.samples = [
            Sample(series.name, series.labels, value) for series, value in self.samples
        ]
        return metric


class Families:
    """Collects samples by metric; only metrics of the table can be added.

    Those of a collector that is off are left out, and those of a level above the chosen one.
    A collector that is off by default was asked for by name, so that it exports all it has.
    """

    def __init__(
        self, collectors: Collection[Collector] = frozenset(Collector), level: Level = Level.FULL
    ) -> None:
        self._collectors = collectors
        exported = _exported(frozenset(collectors), level)
        self._samples: dict[str, list[tuple[MetricSeries, float]] | None] = {
            name: [] if name in exported else None for name in METRICS
        }

    def collects(self, collector: Collector) -> bool:
        """Whether a collector is on, so that it is worth making its samples."""
        return collector in self._collectors

    def add(self, name: str, value: float | None, *labels: str) -> None:
        """Add a series with values of the table's labels, in their order; nothing for `None`."""
        samples = self._samples[name]
        if value is not None and samples is not None:
            samples.append((series_of(name, METRICS[name].labels, labels), value))

    def add_info(self, name: str, *labels: str) -> None:
        """Add a series of an info metric."""
        self.add(name, 1.0, *labels)

    def add_histogram(
        self, name: str, histogram: Histogram, sum_seconds: float, *labels: str
    ) -> None:
        """Add a histogram whose weights are nanoseconds; it counts whole seconds."""
        samples = self._samples[name]
        if samples is None:
            return
        weights = histogram.cumulative()
        counts = [weights[percent] // NANOSECONDS_PER_SECOND for percent in _EDGE_PERCENTS]
        # Ratios end at 1, so the last edge has counted all there is.
        total = counts[-1]
        series = _histogram_series(name, METRICS[name].labels, labels)
        samples.extend(zip(series, (*counts, total, total, sum_seconds), strict=True))

    def __iter__(self) -> Iterator[SampleFamily]:
        for name, samples in self._samples.items():
            if samples:
                of = METRICS[name]
                yield SampleFamily(of.stem, of.help, of.kind, of.unit, of.collector, samples)


@lru_cache(maxsize=8)
def _exported(collectors: frozenset[Collector], level: Level) -> frozenset[str]:
    """The metrics of some collectors up to a level."""
    return frozenset(
        name
        for name, metric in METRICS.items()
        if metric.collector in collectors
        and (metric.level.rank <= level.rank or metric.collector not in DEFAULT_COLLECTORS)
    )


@lru_cache(maxsize=_HISTOGRAMS_KEPT)
def _histogram_series(
    name: str, labels: tuple[str, ...], values: tuple[str, ...]
) -> tuple[MetricSeries, ...]:
    buckets = (
        series_of(f"{name}_bucket", (*labels, "le"), (*values, text)) for text in _EDGE_TEXTS
    )
    ends = (series_of(f"{name}_{end}", labels, values) for end in ("count", "sum"))
    return (*buckets, *ends)


_TEXT_SUFFIXES: Final = {"counter": "_total", "info": "_info"}
_TEXT_TYPES: Final = {"info": "gauge"}
_HEADS_KEPT: Final = 1024


def prometheus_text(families: Iterable[SampleFamily]) -> bytes:
    """Prometheus's text format, versions 0.0.4 and 1.0.0."""
    lines: list[str] = []
    for family in families:
        lines.append(_text_head(family.name, family.kind, family.help))
        lines += [series.line(value) for series, value in family.samples]
    return "".join(lines).encode()


def open_metrics_text(families: Iterable[SampleFamily]) -> bytes:
    """OpenMetrics, version 1.0.0."""
    lines: list[str] = []
    for family in families:
        lines.append(_open_metrics_head(family.name, family.kind, family.unit, family.help))
        lines += [series.line(value) for series, value in family.samples]
    lines.append("# EOF\n")
    return "".join(lines).encode()


@lru_cache(maxsize=_HEADS_KEPT)
def _text_head(name: str, kind: str, sentence: str) -> str:
    whole = name + _TEXT_SUFFIXES.get(kind, "")
    said = sentence.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {whole} {said}\n# TYPE {whole} {_TEXT_TYPES.get(kind, kind)}\n"


@lru_cache(maxsize=_HEADS_KEPT)
def _open_metrics_head(name: str, kind: str, unit: str, sentence: str) -> str:
    unit_line = f"# UNIT {name} {unit}\n" if unit else ""
    return f"# HELP {name} {escaped(sentence)}\n# TYPE {name} {kind}\n{unit_line}"
