"""What is said of a metric family before any value is: name, kind, help, labels, origin."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from rightsizer.model.metric_collector import Collector

_UNITS: Final = (
    "bytes_per_second",
    "dollars_per_hour",
    "seconds",
    "bytes",
    "watts",
    "joules",
    "hertz",
    "celsius",
    "ratio",
    "gpus",
)


class MetricKind(StrEnum):
    """What a metric is to Prometheus; an info metric is a gauge that is always 1."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


class Origin(StrEnum):
    """Where a metric's value comes from; for a reading, the telemetry tier that it needs."""

    DRIVER = "driver"
    BASIC = "basic tier"
    POWER = "power tier"
    PROFILING = "profiling tier"
    HOST = "host"
    SERVING = "serving engine"
    ACCOUNTING = "accounting"
    ADVICE = "advice"
    AGENT = "agent"
    FLEET = "fleet"


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """One metric; its name is that of Prometheus's text format, suffix and all."""

    name: str
    kind: MetricKind
    help: str
    """A sentence with its full stop."""
    labels: tuple[str, ...]
    origin: Origin
    collector: Collector = Collector.AGENT
    """The group that it is switched on and off with."""

    @property
    def stem(self) -> str:
        """The name without its suffix, which OpenMetrics gives to samples alone."""
        return self.name.removesuffix("_total").removesuffix("_info")

    @property
    def unit(self) -> str:
        """The base unit that ends the name; empty for a number without one."""
        stem = self.name.removesuffix("_total")
        return next((unit for unit in _UNITS if stem.endswith(f"_{unit}")), "")


def series_key(name: str, **labels: str) -> str:
    """How `AgentReport.counters` and `gauges` name a series that has labels.

    Without labels it is the metric's name alone.
    """
    pairs = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{name}{{{pairs}}}" if pairs else name


def gauge(name: str, origin: Origin, sentence: str, *labels: str) -> MetricFamily:
    """A value that goes up and down, by its name without the prefix."""
    return MetricFamily(f"rightsizer_{name}", MetricKind.GAUGE, sentence, labels, origin)


def counter(name: str, origin: Origin, sentence: str, *labels: str) -> MetricFamily:
    """A value that only grows, by its name without prefix and `_total`."""
    return MetricFamily(f"rightsizer_{name}_total", MetricKind.COUNTER, sentence, labels, origin)


def info(name: str, origin: Origin, sentence: str, *labels: str) -> MetricFamily:
    """Facts as labels, by its name without prefix and `_info`."""
    return MetricFamily(f"rightsizer_{name}_info", MetricKind.INFO, sentence, labels, origin)


def collected_by(collector: Collector, *metrics: MetricFamily) -> tuple[MetricFamily, ...]:
    """The metrics as a part of a collector."""
    return tuple(replace(metric, collector=collector) for metric in metrics)
