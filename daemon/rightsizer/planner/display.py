"""Display of plans and boards: labels, significant digits, units, notes on sources."""

import math
from typing import Final

from rightsizer.model.table import table_rows
from rightsizer.model.units import number_text, percent_text
from rightsizer.sizing.estimate import EstimateInterval

NOTHING: Final = "-"


def labels_of(subject: str) -> dict[str, str]:
    """Return the labels of the parts of something, by `labels.csv`."""
    rows = table_rows(__file__, "labels.csv")
    return {row["part"]: row["label"] for row in rows if row["subject"] == subject}


DOUBTED: Final = 0.9
"""Probability of being in time below which it is shown."""
MEMORY_PARTS: Final = labels_of("memory")
BILLING_TERMS: Final = labels_of("billing")
_DIGITS: Final = 3
_CENTS: Final = 0.1
_WHOLE_DOLLARS: Final = 1000
_WORDS: Final = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
_SCALES: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_ROUNDED: Final = 0.9995
"""Share of a unit that three digits show as a whole one."""
_WHOLE_WITHIN: Final = 0.05
_NEARLY_ALL: Final = 0.999


def large(value: float) -> str:
    """`70.6 billion`, with the word of the rounded figure."""
    size, word = next((row for row in _WORDS if value >= row[0] * _ROUNDED), (1.0, ""))
    return f"{number(value / size)} {word}".strip()


def number(value: float | None) -> str:
    """Format with three digits, or all digits of an integer."""
    if value is None:
        return NOTHING
    if math.isinf(value):
        return "never"
    return number_text(value, _DIGITS)


def hours_text(hours: float) -> str:
    """`1 hour`, `24.5 hours`."""
    shown = number(hours)
    return f"{shown} {'hour' if shown == '1' else 'hours'}"


def middle(interval: EstimateInterval | None) -> str:
    """Format the likeliest value."""
    return NOTHING if interval is None else number(interval.value)


def percent(ratio: float | None) -> str:
    """Format as `98%`; predictions are never shown as certain."""
    return NOTHING if ratio is None else percent_text(min(ratio, _NEARLY_ALL))


def interval_text(interval: EstimateInterval) -> str:
    """`1,083 to 2,551`."""
    return f"{number(interval.low)} to {number(interval.high)}"


def range_text(interval: EstimateInterval | None) -> str:
    """Format as `1.1k-2.6k`, for narrow columns."""
    if interval is None:
        return NOTHING
    scale, sign = next((row for row in _SCALES if interval.low >= row[0]), (1.0, ""))
    return f"{interval.low / scale:.3g}{sign}-{number(interval.high / scale)}{sign}"


def dollars(value: float | None) -> str:
    """Format with cents, without them for thousands, or two digits below ten cents."""
    if value is None:
        return NOTHING
    if value >= _WHOLE_DOLLARS:
        return f"{value:,.0f}"
    return f"{value:,.2f}" if value >= _CENTS or not value else f"{value:.2g}"


def priced(value: float | None, interval: EstimateInterval | None) -> str:
    """Format as `1.53 (1.2 to 4.1)`: the likeliest value, and its range if there is one."""
    value_text = dollars(value)
    if interval is None or not interval.low < interval.high:
        return value_text
    return f"{value_text} ({dollars(interval.low)} to {dollars(interval.high)})"


def short_number(value: float) -> str:
    """Format as `3350`, `62.5`: one decimal, only if significant."""
    is_whole = abs(value - round(value)) < _WHOLE_WITHIN
    return f"{value:.0f}" if is_whole else f"{value:.1f}"


class SourceNotes:
    """Sources referenced by a text, in order of first reference."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, source: str) -> str:
        """Return the reference to a source, such as `[2]`; empty without one."""
        return f"[{self._numbers.setdefault(source, len(self._numbers) + 1)}]" if source else ""

    def lines(self) -> list[str]:
        """Return all sources, one line each."""
        return [f"[{number}] {source}" for source, number in self._numbers.items()]
