"""One profiled kernel launch and what was measured of it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

__all__ = ["Figure", "Launch", "MetricKey", "Rule", "metric_key"]

MetricKey: TypeAlias = tuple[str, str]
"""Section and name: the same name can stand in two sections, in two units."""

_RAW: Final = "__"
"""In the names of metrics as the hardware has them, which mean the same in every section."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value in its unit; over several launches, with the extremes."""

    value: float
    unit: str
    least: float | None = None
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """What the profiler advises."""

    text: str
    speedup_percent: float = 0.0
    """That it estimates; 0 where it does not."""


@dataclass(slots=True)
class Launch:
    """A launch, or several alike where the profiler summed them up."""

    kernel: str
    device: str = "0"
    count: int = 1
    metrics: dict[MetricKey, Figure] = field(default_factory=dict)
    device_name: str = ""
    rules: list[Rule] = field(default_factory=list)

    def first(
        self, keys: Iterable[MetricKey], convert: Callable[[Figure, str], float | None]
    ) -> float | None:
        """The first of these metrics that is there and in a unit that can be converted."""
        for key in keys:
            figure = self.metrics.get(key)
            if figure is not None and (value := convert(figure, key[1])) is not None:
                return value
        return None

    def raw(self) -> Iterator[tuple[str, Figure]]:
        """Metrics by the hardware's own names."""
        for (section, name), figure in self.metrics.items():
            if not section:
                yield name, figure


def metric_key(section: str, name: str) -> MetricKey:
    """Where a metric is kept."""
    return ("", name) if _RAW in name else (section, name)
