"""Queries of dcgm-exporter metrics by interval: from samples, and from recorded series.

A recorded sample covers the same five minutes of the clock as a step of a raw query, so that both
give the same values.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from rightsizer.fleet.cache.grid import FINE_STEP
from rightsizer.fleet.sources.dcgm_exporter import probe as dcgm
from rightsizer.fleet.sources.series import SCRAPER_LABELS
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

_MINUTE: Final[Nanoseconds] = 60 * NANOSECONDS_PER_SECOND
RECORDED_STEP: Final[Nanoseconds] = FINE_STEP
"""Between two recorded samples, each over the same time."""
GRACE: Final[Nanoseconds] = _MINUTE
"""Time for samples to reach the store before a rule evaluates them."""
_AHEAD: Final = (RECORDED_STEP + GRACE) // (NANOSECONDS_PER_SECOND // 1000) - 1
"""Milliseconds from the end of five minutes to the last moment at which they are recorded."""


def _recorded(selector: str, step: Nanoseconds) -> str:
    """Return the selector of samples recorded for the interval that ends at each step."""
    return f"{selector}[{step // NANOSECONDS_PER_SECOND}s] offset -{_AHEAD}ms"


def times_recorded(selector: str, step: Nanoseconds) -> str:
    """Return the query of how often a device's interval was recorded, by its largest series."""
    by = ", ".join(dcgm.DEVICE_LABELS)
    return f"max by ({by}) (count_over_time({_recorded(selector, step)}))"


class IntervalQuery(Struct, frozen=True):
    """Reduction of a metric's samples to a value per interval."""

    text: str
    """PromQL, with `{by}`, `{scraped}`, `{held}` and `{samples}`."""
    operation: str
    """As in the name of the recorded series."""
    hourly: str
    """Function that combines recorded intervals into longer ones, exactly or approximately."""
    by: tuple[str, ...] = dcgm.DEVICE_LABELS
    level: str = "uuid"
    around: str = "max"
    """Aggregation over several scrapes, or rulers, of one device."""

    def raw(self, samples: str, more: Iterable[str] = ()) -> str:
        """Return the query, with further labels; `samples` is a selector with its range."""
        by = dict.fromkeys((*self.by, *more))
        scraped = dict.fromkeys((*by, *SCRAPER_LABELS))
        held = dict.fromkeys((*scraped, *dcgm.HOLDER_LABELS))
        labels = {"by": by, "scraped": scraped, "held": held}
        lists = {name: ", ".join(label) for name, label in labels.items()}
        return self.text.format(samples=samples, **lists)

    def name(self, metric: str) -> str:
        """Return the name of a metric's recorded series."""
        return f"{self.level}:{metric}:{self.operation}"

    def rule(self, metric: str, more: Iterable[str]) -> str:
        """Return the expression that records a metric.

        Groups are evaluated at arbitrary moments; the subquery selects the last whole five minutes
        of the clock, once late samples have arrived.
        """
        span, grace = (length // _MINUTE for length in (RECORDED_STEP, GRACE))
        inside = self.raw(f"{metric}[{span}m]", more)
        return f"last_over_time(({inside})[{span}m:{span}m] offset {grace}m)"

    def recorded(self, selector: str, step: Nanoseconds) -> str:
        """Return the query of what was recorded for the interval that ends at each step."""
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
    "max by ({by}) (sum by ({scraped}) (max by ({held}) (increase({samples}))))",
    "increase5m",
    "sum_over_time",
)
"""Increase of a counter per interval, over the series of holders; replicas count once, whatever
label tells them apart."""
COUNTED: Final = IntervalQuery(
    "max by ({by}) (count_over_time({samples}))",
    "count5m",
    "sum_over_time",
    (*dcgm.DEVICE_LABELS, *dcgm.HOLDER_LABELS),
    "uuid_pod",
)
"""Number of samples per interval, by holder."""
