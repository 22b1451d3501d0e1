"""A point in time on the command line."""

import argparse
import contextlib
from datetime import UTC, datetime, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Final

from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

_MICROSECOND: Final = 1000
_LAST_SECOND: Final = 2**33
"""In the year 2242: the history counts nanoseconds in 64 bits, which end soon after."""


def moment(text: str, timezone: tzinfo = UTC) -> Nanoseconds:
    """A time of the command line in nanoseconds since the epoch.

    Args:
        text: ISO 8601, or seconds since the epoch.
        timezone: Whose time it is where the text does not say.
    """
    with contextlib.suppress(InvalidOperation):
        number = Decimal(text)
        # What is no number, or beyond what the history can hold, is refused below.
        if number.is_finite() and -_LAST_SECOND < number < _LAST_SECOND:
            return int(number * NANOSECONDS_PER_SECOND)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a time; write it like 2026-01-31T12:00:00Z, or in seconds since the "
            "epoch"
        ) from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=timezone)
    whole = int(time.replace(microsecond=0).timestamp())
    # Whatever the history holds begins after one end and before the other.
    whole = max(-_LAST_SECOND, min(whole, _LAST_SECOND))
    return whole * NANOSECONDS_PER_SECOND + time.microsecond * _MICROSECOND
