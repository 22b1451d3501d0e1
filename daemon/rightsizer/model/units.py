"""Units at the edge, base units inside: seconds, bytes, watts, hertz, ratios.

Time is counted in whole nanoseconds, so that the states of a device sum to its wall time exactly.
"""

import re
from enum import StrEnum
from typing import Final, TypeAlias

Nanoseconds: TypeAlias = int
"""A point in time or a duration, as Python's own clocks count it."""

NANOSECONDS_PER_SECOND: Final = 1_000_000_000
HOUR_SECONDS: Final = 3600.0
DAY_SECONDS: Final = 86400.0
HOURS_PER_MONTH: Final = 730.0
JOULES_PER_KILOWATT_HOUR: Final = 3.6e6
MIB: Final = 2**20
GIB: Final = 2**30


class Unit(StrEnum):
    """The base unit that a value is kept in."""

    RATIO = "ratio"
    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes_per_second"
    WATTS = "watts"
    JOULES = "joules"
    HERTZ = "hertz"
    CELSIUS = "celsius"
    COUNT = "count"
    SECONDS = "seconds"


_SPELLINGS: Final[dict[str, tuple[Unit, float]]] = {
    "%": (Unit.RATIO, 0.01),
    "percent": (Unit.RATIO, 0.01),
    "pct": (Unit.RATIO, 0.01),
    "ratio": (Unit.RATIO, 1.0),
    "fraction": (Unit.RATIO, 1.0),
    "b": (Unit.BYTES, 1.0),
    "byte": (Unit.BYTES, 1.0),
    "bytes": (Unit.BYTES, 1.0),
    "kib": (Unit.BYTES, 2.0**10),
    "mib": (Unit.BYTES, 2.0**20),
    "gib": (Unit.BYTES, 2.0**30),
    "kb": (Unit.BYTES, 1e3),
    "mb": (Unit.BYTES, 1e6),
    "gb": (Unit.BYTES, 1e9),
    "b/s": (Unit.BYTES_PER_SECOND, 1.0),
    "bytes/s": (Unit.BYTES_PER_SECOND, 1.0),
    "bytes_per_second": (Unit.BYTES_PER_SECOND, 1.0),
    "kib/s": (Unit.BYTES_PER_SECOND, 2.0**10),
    "mib/s": (Unit.BYTES_PER_SECOND, 2.0**20),
    "gib/s": (Unit.BYTES_PER_SECOND, 2.0**30),
    "kb/s": (Unit.BYTES_PER_SECOND, 1e3),
    "mb/s": (Unit.BYTES_PER_SECOND, 1e6),
    "gb/s": (Unit.BYTES_PER_SECOND, 1e9),
    "w": (Unit.WATTS, 1.0),
    "watts": (Unit.WATTS, 1.0),
    "mw": (Unit.WATTS, 1e-3),
    "milliwatts": (Unit.WATTS, 1e-3),
    "kw": (Unit.WATTS, 1e3),
    "j": (Unit.JOULES, 1.0),
    "joules": (Unit.JOULES, 1.0),
    "mj": (Unit.JOULES, 1e-3),
    "hz": (Unit.HERTZ, 1.0),
    "hertz": (Unit.HERTZ, 1.0),
    "mhz": (Unit.HERTZ, 1e6),
    "ghz": (Unit.HERTZ, 1e9),
    "c": (Unit.CELSIUS, 1.0),
    "celsius": (Unit.CELSIUS, 1.0),
    "count": (Unit.COUNT, 1.0),
    "s": (Unit.SECONDS, 1.0),
    "seconds": (Unit.SECONDS, 1.0),
    "ms": (Unit.SECONDS, 1e-3),
    "us": (Unit.SECONDS, 1e-6),
    "ns": (Unit.SECONDS, 1e-9),
}

_DURATION_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w|y)")
_DURATION_SECONDS: Final = {
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
    "y": 31536000.0,
}


def seconds(duration: Nanoseconds) -> float:
    """Nanoseconds as seconds."""
    return duration / NANOSECONDS_PER_SECOND


def nanoseconds(duration_seconds: float) -> Nanoseconds:
    """Seconds as whole nanoseconds, rounded to the nearest."""
    return round(duration_seconds * NANOSECONDS_PER_SECOND)


def convert(spelling: str) -> tuple[Unit, float]:
    """The base unit that a unit's spelling stands for, and the factor that leads to it.

    Raises:
        KeyError: the spelling is unknown.
    """
    return _SPELLINGS[spelling.strip().strip("[]").lower()]


def parse_duration(text: str) -> float:
    """Seconds of a duration in Prometheus's notation: `500ms`, `10m`, `1h30m`, `14d`.

    Raises:
        ValueError: the text is not such a duration.
    """
    parts = _DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"'{text}' is not a duration; write it like '10m'")
    return sum(float(number) * _DURATION_SECONDS[unit] for number, unit in parts)


def format_duration(duration_seconds: float) -> str:
    """A duration as a person would say it, in at most two units: `45 s`, `2 h 5 min`, `3 d`."""
    whole = round(duration_seconds)
    for size, name, smaller, smaller_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller
            return (
                f"{whole // size} {name} {rest} {smaller_name}"
                if rest
                else f"{whole // size} {name}"
            )
    return f"{whole} s"
