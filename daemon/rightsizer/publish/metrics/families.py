"""Collects samples by metric from the table of metrics, cheaply, once a generation."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from rightsizer.domain.histogram import Histogram
from rightsizer.domain.metric import METRICS
from rightsizer.domain.metric_collector import Collector
from rightsizer.domain.metric_family import MetricFamily
from rightsizer.domain.units import NANOSECONDS_PER_SECOND
from rightsizer.publish.metrics.series import Series, number_text, series_of

__all__ = ["BUCKET_EDGES", "Families", "Family", "empty_family", "family_of"]

BUCKET_EDGES: Final = (0.0, 0.02, 0.05, 0.1, 0.25, 0.5, 0.65, 0.8, 0.9, 0.95, 1.0)
"""Whole percents, so that each follows from the 101 bins exactly; `+Inf` is the twelfth.
They hold the classifier's own thresholds, and 0 alone, which tells idle from nearly idle."""

_EDGE_PERCENTS: Final = tuple(round(100 * edge) for edge in BUCKET_EDGES)
_EDGE_TEXTS: Final = (*map(number_text, BUCKET_EDGES), "+Inf")
_HISTOGRAMS_KEPT: Final = 1024


@dataclass(slots=True)
class Family:
    """The samples of one metric, and what is said of it above them."""

    name: str
    """Without the suffix that its samples have."""
    help: str
    kind: str
    unit: str
    collector: Collector
    samples: list[tuple[Series, float]] = field(default_factory=list)

    def restricted(self, names: Collection[str]) -> "Family":
        """The family with the samples of these names alone."""
        chosen = [each for each in self.samples if each[0].name in names]
        return Family(self.name, self.help, self.kind, self.unit, self.collector, chosen)

    def metric(self) -> Metric:
        """The family as prometheus_client has it."""
        metric = Metric(self.name, self.help, self.kind, self.unit)
        metric.samples = [
            Sample(series.name, series.labels, value) for series, value in self.samples
        ]
        return metric


def family_of(metric: Metric, collector: Collector) -> Family:
    """The family of one of prometheus_client's own metrics."""
    samples = [
        (series_of(each.name, tuple(each.labels), tuple(each.labels.values())), each.value)
        for each in metric.samples
    ]
    return Family(metric.name, metric.documentation, metric.type, metric.unit, collector, samples)


def empty_family(metric: MetricFamily) -> Family:
    """A family of the table without samples."""
    return Family(metric.stem, metric.help, metric.kind, metric.unit, metric.collector)


class Families:
    """Collects samples by metric; only metrics of the table can be added.

    Those of a collector that is off are left out.
    """

    def __init__(self, collectors: Collection[Collector] = frozenset(Collector)) -> None:
        self._collectors = collectors
        self._samples: dict[str, list[tuple[Series, float]] | None] = {
            name: [] if metric.collector in collectors else None for name, metric in METRICS.items()
        }

    def collects(self, collector: Collector) -> bool:
        """Whether a collector is on, so that it is worth making its samples."""
        return collector in self._collectors

    def add(self, name: str, value: float | None, *labels: str) -> None:
        """Add a series; nothing where the value is missing.

        Args:
            name: A metric of the table.
            value: Its value, `None` where nobody knows it.
            labels: The values of the table's labels, in the table's order.
        """
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

    def __iter__(self) -> Iterator[Family]:
        for name, samples in self._samples.items():
            if samples:
                family = empty_family(METRICS[name])
                family.samples = samples
                yield family


@lru_cache(maxsize=_HISTOGRAMS_KEPT)
def _histogram_series(
    name: str, labels: tuple[str, ...], values: tuple[str, ...]
) -> tuple[Series, ...]:
    buckets = (
        series_of(f"{name}_bucket", (*labels, "le"), (*values, text)) for text in _EDGE_TEXTS
    )
    ends = (series_of(f"{name}_{end}", labels, values) for end in ("count", "sum"))
    return (*buckets, *ends)
