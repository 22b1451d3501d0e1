"""The metrics of `metrics.csv`: families of the agent, its devices and their signals."""

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

_READ: Final = tuple(each for each in Signal if each.export is not Export.NAMED)
_DEFAULT: Final = tuple(each for each in _READ if each.collector in DEFAULT_COLLECTORS)

DISTRIBUTION_SIGNALS: Final = tuple(each for each in Signal if each.export is Export.HISTOGRAM)
"""The ratios that are exported as histograms too."""

RATIO_GAUGES: Final = tuple(each for each in _DEFAULT if each.unit is Unit.RATIO)
"""The ratios that are exported as gauges. Links have theirs as bytes per second, their shares as
the need of a resource; JPEG and optical flow engines are rare."""

QUANTITY_SIGNALS: Final = tuple(each for each in _DEFAULT if each.unit is not Unit.RATIO)
"""The readings with a unit that are exported as they are."""

DETAIL_SIGNALS: Final = tuple(each for each in _READ if each.collector not in DEFAULT_COLLECTORS)
"""The rest, exported only where details are asked for: series are not free."""
_SIGNALS: Final = "(signals)"
"""The row where the metrics of the signals stand."""


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
"""By name, in the order of the exposition."""
