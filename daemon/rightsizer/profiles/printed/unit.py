"""Units as profilers print them, turned into seconds, bytes and ratios."""

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["bytes_in", "ratio_in", "seconds_in"]

_SECONDS: Final[Mapping[str, float]] = {
    "ns": 1e-9,
    "nsec": 1e-9,
    "nsecond": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "usec": 1e-6,
    "usecond": 1e-6,
    "ms": 1e-3,
    "msec": 1e-3,
    "msecond": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
}
_RATIOS: Final[Mapping[str, float]] = {"%": 0.01, "pct": 0.01}
_POWERS: Final[Mapping[str, int]] = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_BYTES: Final = re.compile(r"([kmgt]?)(i?)(?:b|bytes?)(?:/s|/second|ps)?", re.IGNORECASE)


def seconds_in(unit: str) -> float | None:
    """Seconds in one of this unit; `None` where it is no unit of time."""
    return _SECONDS.get(unit.strip())


def bytes_in(unit: str) -> float | None:
    """Bytes, or bytes a second, in one of this unit; `None` where it is no such unit."""
    found = _BYTES.fullmatch(unit.strip())
    if not found:
        return None
    base = 1024.0 if found[2] else 1000.0
    return float(base ** _POWERS[found[1].lower()])


def ratio_in(unit: str) -> float | None:
    """What one of this unit is as a ratio; `None` where it is no share."""
    return _RATIOS.get(unit.strip())
