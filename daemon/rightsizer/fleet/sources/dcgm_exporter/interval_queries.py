"""How a metric of dcgm-exporter is asked for by interval: of its samples, and of what was recorded.

A recorded sample stands for the same five minutes of the clock as a step of a raw query, so that
each gives what the other does.
"""

from collections.abc import Iterable
from typing import Final

from rightsizer.fleet.cache.grid import FINE_STEP
from rightsizer.fleet.sources.dcgm_exporter import probe as dcgm
from rightsizer.model.frozen import dataclass
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

_MINUTE: Final[Nanoseconds] = 60 * NANOSECONDS_PER_SECOND
RECORDED_STEP: Final[Nanoseconds] = FINE_STEP
"""Between two samples of what is recorded, each over as long."""
GRACE: Final[Nanoseconds] = _MINUTE
"""That samples have to reach the store before a rule looks at them."""
_AHEAD: Final = (RECORDED_STEP + GRACE) // (NANOSECONDS_PER_SECOND // 1000) - 1
"""Milliseconds from the end of five minutes to the last moment at which they are recorded."""


def _recorded(selector: str, step: Nanoseconds) -> str:
    """The recorded samples of the interval that ends at each step."""
    return f"{selector}[{step // NANOSECONDS_PER_SECOND}s] offset -{_AHEAD}ms"


def times_recorded(selector: str, step: Nanoseconds) -> str:
    """The query of how often an interval of a device was recorded, by the most of its series."""
    by = ", ".join(dcgm.DEVICE_LABELS)
    return f"max by ({by}) (count_over_time({_recorded(selector, step)}))"


@dataclass(frozen=True, slots=True)
class IntervalQuery:
    """What is made of a metric's samples in an interval."""

    text: str
    """PromQL, with `{by}`, `{scraped}` and `{samples}`."""
    operation: str
    """As in the name of what is recorded."""
    hourly: str
    """Function that makes longer intervals of the recorded ones, exactly or nearly."""
    by: tuple[str, ...] = dcgm.DEVICE_LABELS
    level: str = "uuid"
    around: str = "max"
    """Aggregation over several scrapes, or rulers, of one device."""

    def raw(self, samples: str, more: Iterable[str] = ()) -> str:
        """The query, by further labels too; `samples` is a selector with its range."""
        by = ", ".join(dict.fromkeys((*self.by, *more)))
        scraped = ", ".join(dict.fromkeys((*self.by, *dcgm.SCRAPER_LABELS, *more)))
        return self.text.format(by=by, scraped=scraped, samples=samples)

    def name(self, metric: str) -> str:
        """Of the recorded series of a metric."""
        return f"{self.level}:{metric}:{self.operation}"

    def rule(self, metric: str, more: Iterable[str]) -> str:
        """The expression that records a metric.

        A group is evaluated at a moment of its own; the subquery is of the last whole five
        minutes of the clock, once late samples are in.
        """
        span, grace = (each // _MINUTE for each in (RECORDED_STEP, GRACE))
        inside = self.raw(f"{metric}[{span}m]", more)
        return f"last_over_time(({inside})[{span}m:{span}m] offset {grace}m)"

    def recorded(self, selector: str, step: Nanoseconds) -> str:
        """The query of what was recorded of the interval that ends at each step."""
        inside = f"{self.hourly}({_recorded(selector, step)})"
        return f"{self.around} by ({', '.join(self.by)}) ({inside})"


MEAN: Final = IntervalQuery(
    "max by ({by}) (sum by ({scraped}) (sum_over_time({samples}))"
    " / sum by ({scraped}) (count_over_time({samples})))",
    "avg5m",
    "avg_over_time",
)
"""Of a gauge, over all series of a device's holders; of several scrapes, the largest counts."""
OWN_MEAN: Final = IntervalQuery(
    "max by ({by}) (avg_over_time({samples}))", "own_avg5m", "avg_over_time"
)
PEAK: Final = IntervalQuery("max by ({by}) (max_over_time({samples}))", "max5m", "max_over_time")
LOWEST: Final = IntervalQuery(
    "min by ({by}) (min_over_time({samples}))", "min5m", "min_over_time", around="min"
)
GAINED: Final = IntervalQuery(
    "max by ({by}) (sum by ({scraped}) (increase({samples})))", "increase5m", "sum_over_time"
)
"""By a counter, in each interval."""
COUNTED: Final = IntervalQuery(
    "max by ({by}) (count_over_time({samples}))",
    "count5m",
    "sum_over_time",
    (*dcgm.DEVICE_LABELS, *dcgm.HOLDER_LABELS),
    "uuid_pod",
)
"""Samples of each interval, by holder."""
