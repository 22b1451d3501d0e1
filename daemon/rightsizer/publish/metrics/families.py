"""Builds prometheus_client's families from the table of metrics, cheaply, once a generation."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from prometheus_client.core import Metric
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from rightsizer.domain.histogram import Histogram
from rightsizer.domain.metric import METRICS, MetricFamily
from rightsizer.domain.units import NANOSECONDS_PER_SECOND

__all__ = ["BUCKET_EDGES", "Families", "LabelSet", "empty_family", "number_text"]

BUCKET_EDGES: Final = (0.0, 0.02, 0.05, 0.1, 0.25, 0.5, 0.65, 0.8, 0.9, 0.95, 1.0)
"""Whole percents, so that each follows from the 101 bins exactly; `+Inf` is the twelfth.
They hold the classifier's own thresholds, and 0 alone, which tells idle from nearly idle."""

_LABEL_SETS_KEPT: Final = 32768
"""Twice the series of the largest node that is planned for; the oldest give way."""


def number_text(value: float) -> str:
    """A number as Go writes it, and with it Prometheus."""
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]


_EDGES: Final = tuple((edge, number_text(edge)) for edge in BUCKET_EDGES)


class LabelSet(dict[str, str]):
    """A series' labels, with the text that both exposition formats have for them."""

    __slots__ = ("text",)

    def __init__(self, labels: dict[str, str]) -> None:
        super().__init__(labels)
        pairs = ",".join(f'{name}="{_escaped(labels[name])}"' for name in sorted(labels))
        self.text = f"{{{pairs}}}" if pairs else ""


@lru_cache(maxsize=_LABEL_SETS_KEPT)
def label_set(names: tuple[str, ...], values: tuple[str, ...]) -> LabelSet:
    """The one label set of these names and values; series live long, so it is kept."""
    return LabelSet(
        {name: str(value) for name, value in zip(names, values, strict=True)},
    )


def empty_family(metric: MetricFamily) -> Metric:
    """A family without samples; the library names it without its suffix."""
    stem = metric.name.removesuffix("_total").removesuffix("_info")
    return Metric(stem, metric.help, metric.kind, metric.unit)


class Families:
    """Collects samples by metric; only metrics of the table can be added."""

    def __init__(self) -> None:
        self._samples: dict[str, list[Sample]] = {name: [] for name in METRICS}

    def add(self, name: str, value: float | None, *labels: str) -> None:
        """Add a series; nothing where the value is missing.

        Args:
            name: A metric of the table.
            value: Its value, `None` where nobody knows it.
            labels: The values of the table's labels, in the table's order.
        """
        if value is None:
            return
        self._samples[name].append(Sample(name, label_set(METRICS[name].labels, labels), value))

    def add_info(self, name: str, *labels: str) -> None:
        """Add a series of an info metric."""
        self.add(name, 1.0, *labels)

    def add_histogram(
        self, name: str, histogram: Histogram, sum_seconds: float, *labels: str
    ) -> None:
        """Add a histogram whose weights are nanoseconds; it counts whole seconds."""
        names = METRICS[name].labels
        samples = self._samples[name]
        bucket = f"{name}_bucket"
        for edge, text in _EDGES:
            count = histogram.at_most(edge) // NANOSECONDS_PER_SECOND
            samples.append(Sample(bucket, label_set((*names, "le"), (*labels, text)), count))
        # Ratios end at 1, so the last edge has counted all there is.
        total = samples[-1].value
        samples.append(Sample(bucket, label_set((*names, "le"), (*labels, "+Inf")), total))
        plain = label_set(names, labels)
        samples.append(Sample(f"{name}_count", plain, total))
        samples.append(Sample(f"{name}_sum", plain, sum_seconds))

    def __iter__(self) -> Iterator[Metric]:
        for name, samples in self._samples.items():
            if samples:
                family = empty_family(METRICS[name])
                family.samples = samples
                yield family


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
