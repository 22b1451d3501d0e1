"""Unit conversion at the edge; base units inside: seconds, bytes, watts, hertz, ratios.

Time is in integer nanoseconds, so that a device's states add up to wall time exactly.
"""

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, TypeAlias

Nanoseconds: TypeAlias = int
"""Point in time or duration, as in Python's `*_ns` clocks."""

NANOSECONDS_PER_SECOND: Final = 1_000_000_000
HOUR_SECONDS: Final = 3600.0
DAY_SECONDS: Final = 86400.0
HOURS_PER_MONTH: Final = 730.0
JOULES_PER_KILOWATT_HOUR: Final = 3.6e6
MIB: Final = 2**20
GIB: Final = 2**30
HOUR: Final[Nanoseconds] = 3600 * NANOSECONDS_PER_SECOND
DAY: Final[Nanoseconds] = 24 * HOUR


class Unit(StrEnum):
    """Base unit of a value."""

    RATIO = "ratio"
    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes_per_second"
    WATTS = "watts"
    JOULES = "joules"
    HERTZ = "hertz"
    CELSIUS = "celsius"
    COUNT = "count"
    SECONDS = "seconds"


_FACTORS: Final[dict[Unit, dict[float, str]]] = {
    Unit.RATIO: {0.01: "% percent pct", 1.0: "ratio fraction"},
    Unit.BYTES: {1.0: "b byte bytes", 1e3: "kb", 1e6: "mb", 1e9: "gb"}
    | {2.0**10: "kib", 2.0**20: "mib", 2.0**30: "gib"},
    Unit.BYTES_PER_SECOND: {1.0: "b/s bytes/s bytes_per_second", 1e3: "kb/s", 1e6: "mb/s"}
    | {1e9: "gb/s", 2.0**10: "kib/s", 2.0**20: "mib/s", 2.0**30: "gib/s"},
    Unit.WATTS: {1.0: "w watts", 1e-3: "mw milliwatts", 1e3: "kw"},
    Unit.JOULES: {1.0: "j joules", 1e-3: "mj"},
    Unit.HERTZ: {1.0: "hz hertz", 1e6: "mhz", 1e9: "ghz"},
    Unit.CELSIUS: {1.0: "c celsius"},
    Unit.COUNT: {1.0: "count"},
    Unit.SECONDS: {1.0: "s seconds", 1e-3: "ms", 1e-6: "us", 1e-9: "ns"},
}
"""Spellings of units, by the factor to the base unit."""
_SPELLINGS: Final = {
    spelling: (unit, factor)
    for unit, factors in _FACTORS.items()
    for factor, spellings in factors.items()
    for spelling in spellings.split()
}

_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h|d|w|y)")
_PER_SECOND: Final = {"us": 1e6, "ms": 1e3}
"""Divisors of units below a second, so that 40us parses to the nearest float."""
_DURATION_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0} | {
    unit: days * DAY_SECONDS for unit, days in (("d", 1), ("w", 7), ("y", 365))
}

_AMOUNT: Final = re.compile(r"(-?[\d_]+(?:\.\d*)?(?:[eE][-+]?\d+)?) ?([kKmMbBgGtT]?)")
_AMOUNT_FACTORS: Final = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}


def parse_amount(text: str) -> float:
    """Parse a number such as `70B`, `1.5T`, `128k` or `7e9`; `ValueError` for anything else."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is not a number")
    return float(match[1].replace("_", "")) * _AMOUNT_FACTORS[match[2].lower()]


def seconds(duration: Nanoseconds) -> float:
    """Convert nanoseconds to seconds."""
    return duration / NANOSECONDS_PER_SECOND


def optional_seconds(time: Nanoseconds | None) -> float | None:
    """Convert nanoseconds that may be unknown."""
    return None if time is None else seconds(time)


def nanoseconds(duration_seconds: float) -> Nanoseconds:
    """Convert seconds to integer nanoseconds, rounded to the nearest."""
    return round(duration_seconds * NANOSECONDS_PER_SECOND)


def convert(spelling: str) -> tuple[Unit, float]:
    """Base unit of a spelling and the factor to it; raises `KeyError` if unknown."""
    return _SPELLINGS[spelling.strip().strip("[]").lower()]


def elapsed_text(duration_seconds: float) -> str:
    """Format the time since an event; 0 if the clock was set back in between."""
    return format_duration(max(0.0, duration_seconds))


def utc_text(time_seconds: float, clock: str = "%H:%M") -> str:
    """Format a wall time, as in `2026-01-31 14:05 UTC`."""
    return datetime.fromtimestamp(time_seconds, UTC).strftime(f"%Y-%m-%d {clock} UTC")


def parse_duration(text: str) -> float:
    """Parse `40us`, `500ms`, `1h30m` or `14d` to seconds; `ValueError` for any other text."""
    parts = _DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        if text.startswith("-"):
            raise ValueError(f"'{text}' is negative; leave out the -")
        raise ValueError(f"'{text}' is not a duration; write it like '10m', '1h30m' or '7d'")
    return sum(
        float(number) / _PER_SECOND[unit]
        if unit in _PER_SECOND
        else float(number) * _DURATION_SECONDS[unit]
        for number, unit in parts
    )


def dollars_text(dollars: float, beside: float = 0.0) -> str:
    """`$1.53`, `$137`, `$1,230`: no price is known better than to three digits.

    Cents are stated below $10, of an amount and of the largest that it stands beside.
    """
    if dollars > 0 and max(dollars, beside) < 10:  # noqa: PLR2004
        return f"${dollars:,.2f}"
    return f"${dollars if dollars < 1000 else float(f'{dollars:.3g}'):,.0f}"  # noqa: PLR2004


def number_text(value: float, digits: int = 2) -> str:
    """Format a number, as in `1,234`, `5.6`, `0`, `<0.1`; of more digits `5.63`, `0.0412`."""
    if value >= 10 ** (digits - 1) or value == int(value):
        return f"{value:,.0f}"
    if digits > 2:  # noqa: PLR2004 - two digits do without small parts.
        return f"{value:.{digits}g}"
    return f"{value:.1f}" if value >= 0.05 else "<0.1"  # noqa: PLR2004 - what would round to 0.


def percent_text(ratio: float) -> str:
    """Format as whole percent, but never round a nonzero share to 0 or a partial one to 100."""
    ratio = round(ratio, 9)  # Sums of parts are off by a hair.
    if 0 < ratio < 0.005:  # noqa: PLR2004 - what would round to 0.
        return "<1%"
    if 0.995 <= ratio < 1:  # noqa: PLR2004 - what would round to 100.
        return ">99%"
    return f"{ratio:.0%}"


def format_duration(duration_seconds: float) -> str:
    """Format a duration in at most two units: `45 s`, `2 h 5 min`, `3 d`."""
    whole = round(duration_seconds)
    for size, name, smaller, smaller_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller
            text = f"{whole // size} {name}"
            return f"{text} {rest} {smaller_name}" if rest else text
    return f"{whole} s"
