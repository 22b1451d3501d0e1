"""Figures as people read them: as many digits as they are sure of, ranges where they are not."""

import datetime as dt
from typing import Final

from rightsizer.publish.report.amount import Amount

__all__ = [
    "NOTHING",
    "day_text",
    "dollars",
    "hours",
    "kilowatt_hours",
    "moment_text",
    "money",
    "number",
    "percent",
    "span_text",
]

NOTHING: Final = "not known"
_TEN: Final = 10.0
_TENTH: Final = 0.05
_THOUSAND: Final = 1000.0


def percent(share: float | None) -> str:
    """A share in whole percent; a little is never shown as nothing, nor nearly all as all."""
    if share is None:
        return NOTHING
    if 0 < share < 0.005:  # noqa: PLR2004 - what would round to 0.
        return "<1 %"
    if 0.995 <= share < 1:  # noqa: PLR2004 - what would round to 100.
        return ">99 %"
    return f"{100 * share:.0f} %"


def number(value: float) -> str:
    """`1,234`, `5.6`, `0`, `<0.1`."""
    if value >= _TEN or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= _TENTH else "<0.1"


def hours(value: float | None) -> str:
    """`1,234 h`."""
    return NOTHING if value is None else f"{number(value)} h"


def kilowatt_hours(value: float | None) -> str:
    """`123 kWh`."""
    return NOTHING if value is None else f"{number(value)} kWh"


def dollars(low: float | None, high: float | None) -> str:
    """`$120 to $340`."""
    if low is None:
        return NOTHING
    first = _dollars(low)
    last = first if high is None else _dollars(high)
    if first == last:
        return f"${first}"
    return f"${first} to ${last}" if low else f"up to ${last}"


def money(amount: Amount) -> str:
    """What an amount costs."""
    return dollars(amount.dollars_low, amount.dollars_high)


def span_text(low: float | None, high: float | None) -> str:
    """`1 to 2`."""
    if low is None:
        return NOTHING
    first = number(low)
    last = first if high is None else number(high)
    if first == last:
        return first
    return f"{first} to {last}" if low else f"up to {last}"


def moment_text(time: float | None, timezone: dt.tzinfo) -> str:
    """`2026-01-31 14:05`."""
    if time is None:
        return "-"
    return dt.datetime.fromtimestamp(time, timezone).strftime("%Y-%m-%d %H:%M")


def day_text(date: dt.date) -> str:
    """`31 January 2026`, without the locale's help."""
    return f"{date.day} {_MONTHS[date.month - 1]} {date.year}"


_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


def _dollars(value: float) -> str:
    return f"{value:,.2f}" if 0 < value < _TEN else _rounded(value)


def _rounded(value: float) -> str:
    """Three digits of what is large: nobody knows a price better."""
    if value < _THOUSAND:
        return f"{value:,.0f}"
    return f"{float(f'{value:.3g}'):,.0f}"
