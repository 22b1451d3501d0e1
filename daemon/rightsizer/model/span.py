"""Stretches of the past that people look at, and what a device did within one."""

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, TypeAlias

from rightsizer.model.block import Blocks
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.report import StripCell
from rightsizer.model.state import Cause, State
from rightsizer.model.units import DAY, HOUR, NANOSECONDS_PER_SECOND, Nanoseconds

_MINUTE: Final[Nanoseconds] = 60 * NANOSECONDS_PER_SECOND


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time that ends now, and the cells that it is divided into."""

    name: str
    """Empty for one that ends at another time than now."""
    text: str
    """In a sentence: `the last` and this."""
    length: Nanoseconds
    cell: Nanoseconds

    @property
    def words(self) -> str:
        """In a sentence."""
        return f"the last {self.text}" if self.name else self.text


SPANS: Final = (
    Span("1h", "hour", HOUR, 5 * _MINUTE),
    Span("6h", "6 hours", 6 * HOUR, 5 * _MINUTE),
    Span("24h", "24 hours", DAY, 10 * _MINUTE),
    Span("7d", "7 days", 7 * DAY, HOUR),
    Span("30d", "30 days", 30 * DAY, 4 * HOUR),
)
"""Shortest first."""

DEFAULT_SPAN: Final = SPANS[2]
"""A day: what people mean by now."""


def span_named(name: str) -> Span | None:
    """The span of a name, `None` where there is none."""
    return next((span for span in SPANS if span.name == name), None)


_FINE_DETAIL: Final = Span("2d-detail", "2 days", 2 * DAY, 5 * _MINUTE)
_COARSE_DETAIL: Final = Span("30d-detail", "30 days", 30 * DAY, HOUR)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A stretch of the past that someone looks at more closely."""

    start: Nanoseconds
    end: Nanoseconds

    def detail(self, now: Nanoseconds) -> Span:
        """The span that has it in the shortest cells that are kept so far back."""
        return _FINE_DETAIL if now - self.start < _FINE_DETAIL.length else _COARSE_DETAIL

    @property
    def span(self) -> Span:
        """What is drawn of it, where the end stands for now."""
        begin, end = (datetime.fromtimestamp(at / NANOSECONDS_PER_SECOND, UTC) for at in self)
        form = "%H:%M" if begin.date() == end.date() else "%-d %b %H:%M"
        text = f"{begin:%-d %b %H:%M} to {end.strftime(form)}"
        return Span("", text, self.end - self.start, 5 * _MINUTE)

    def __iter__(self) -> Iterator[Nanoseconds]:
        return iter((self.start, self.end))


@dataclass(frozen=True, slots=True)
class DeviceSpan:
    """What a device did over a span: its cells, oldest first, and the sums over all of them."""

    cells: tuple[StripCell, ...]
    states: Mapping[State, Nanoseconds] = field(default_factory=dict)
    used_seconds: float = 0.0
    used_joules: float = 0.0
    waste_seconds: Mapping[Cause, float] = field(default_factory=dict)
    waste_joules: Mapping[Cause, float] = field(default_factory=dict)


PastOf: TypeAlias = Callable[[Span], Mapping[str, DeviceSpan]]
"""Answers what each device did over a span, by uuid."""

BlocksOf: TypeAlias = Callable[[Collection[str], TimeRange], Mapping[str, Blocks]]
"""Answers what was measured of some devices in a stretch of the past, by uuid."""
