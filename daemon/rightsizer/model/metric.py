"""Metrics of `metrics.csv`: families of the agent, its devices and their signals."""

from collections.abc import Iterator
from typing import Final

from rightsizer.model.metric_family import (
    DEFAULT_COLLECTORS,
    Collector,
    Export,
    Level,
    MetricFamily,
    MetricKind,
    Origin,
)
from rightsizer.model.signal import Signal
from rightsizer.model.table import table_rows
from rightsizer.model.units import Unit

_READ: Final = tuple(signal for signal in Signal if signal.export is not Export.NAMED)
_DEFAULT: Final = tuple(signal for signal in _READ if signal.collector in DEFAULT_COLLECTORS)

DISTRIBUTION_SIGNALS: Final = tuple(
    signal for signal in Signal if signal.export is Export.HISTOGRAM
)
"""Ratios also exported as histograms."""

RATIO_GAUGES: Final = tuple(signal for signal in _DEFAULT if signal.unit is Unit.RATIO)
"""Ratios exported as gauges. Links are exported in bytes per second, and their ratios as need
of a resource; JPEG and optical flow engines are rare."""

QUANTITY_SIGNALS: Final = tuple(signal for signal in _DEFAULT if signal.unit is not Unit.RATIO)
"""Readings with a unit, exported as they are."""

DETAIL_SIGNALS: Final = tuple(
    signal for signal in _READ if signal.collector not in DEFAULT_COLLECTORS
)
"""Signals exported only with details enabled, to limit the number of series."""
_SIGNALS: Final = "(signals)"
"""Row of `metrics.csv` that is replaced by the metrics of signals."""


def _reading(signal: Signal) -> MetricFamily:
    kind = MetricKind.COUNTER if signal.export is Export.COUNTER else MetricKind.GAUGE
    about = ("uuid",), signal.origin, signal.collector, signal.level
    return MetricFamily(signal.metric_name, kind, signal.meaning, *about)


def _distribution(signal: Signal) -> MetricFamily:
    help_text = f"Seconds by {signal}, one observation a second: {signal.meaning}"
    about = ("uuid",), signal.origin, Collector.DISTRIBUTIONS
    return MetricFamily(signal.distribution_metric_name, MetricKind.HISTOGRAM, help_text, *about)


def _families() -> Iterator[MetricFamily]:
    for row in table_rows(__file__, "metrics.csv"):
        if row["name"] == _SIGNALS:
            yield from map(_distribution, DISTRIBUTION_SIGNALS)
            yield from map(_reading, (*RATIO_GAUGES, *QUANTITY_SIGNALS, *DETAIL_SIGNALS))
            continue
        yield MetricFamily(
            row["name"],
            MetricKind(row["kind"]),
            row["help"],
            tuple(row["labels"].split()),
            Origin(row["origin"]),
            Collector(row["collector"]),
            Level(row["level"]),
        )


METRICS: Final[dict[str, MetricFamily]] = {family.name: family for family in _families()}
"""By name, in exposition order."""
