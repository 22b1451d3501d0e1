"""Values of flags: durations, sizes, times."""

import argparse
import contextlib
from datetime import UTC, datetime, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Final

from rightsizer.model.errors import UsageError
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, parse_duration

_MICROSECOND: Final = 1000
_LAST_SECOND: Final = 2**33
"""In the year 2242: the history counts nanoseconds in 64 bits, which end soon after."""


def checked_address(text: str) -> str:
    """An address of the command line, as it was written.

    Raises:
        UsageError: it is none.
    """
    # Only commands that serve load what that takes.
    from rightsizer.web.settings import parse_address  # noqa: PLC0415

    try:
        parse_address(text)
    except UsageError as error:
        raise UsageError(f"--web.listen-address: {error}") from None
    return text


def duration(text: str) -> float:
    """Seconds of a duration on the command line, longer than none."""
    try:
        value = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if value <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no time at all")
    return value


def whole_number(text: str) -> int:
    """A number of things on the command line, one at least."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is none at all")
    return value


def duration_text(text: str) -> str:
    """A duration that was checked, as it was written: the agent reads it too."""
    duration(text)
    return text


def moment(text: str, timezone: tzinfo = UTC) -> Nanoseconds:
    """A time of the command line in nanoseconds since the epoch.

    The text is ISO 8601, in the time zone unless it says otherwise, or seconds since the epoch.
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
