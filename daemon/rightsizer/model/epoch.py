"""Times as numbers since the epoch, in the units that logs write."""

from decimal import Decimal, InvalidOperation
from typing import Final

from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

EPOCH_UNITS: Final = {"s": NANOSECONDS_PER_SECOND, "ms": 1_000_000, "us": 1_000, "ns": 1}

# Digits before the point distinguish units for dates from 1973 to 5138.
_UNIT_BY_DIGITS: Final = ((11, "s"), (14, "ms"), (17, "us"), (20, "ns"))
_FURTHEST: Final = 1 << 63


def parse_epoch(text: str, unit: Nanoseconds | None = None) -> Nanoseconds:
    """Parse a number since the epoch exactly; its unit is by magnitude unless given."""
    whole, _, fraction = text.partition(".")
    if not whole.isdigit() or (fraction and not fraction.isdigit()):
        return _parse_scientific(text, unit)
    if unit is None:
        unit = _unit_by_magnitude(len(whole))
    below = int(fraction.ljust(9, "0")[:9]) * unit // NANOSECONDS_PER_SECOND if fraction else 0
    return storable(int(whole) * unit + below)


def _parse_scientific(text: str, unit: Nanoseconds | None) -> Nanoseconds:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"'{text}' is not a time") from None
    if not number.is_finite() or number < 0:
        raise ValueError(f"'{text}' is not a time")
    return storable(int(number * (unit or _unit_by_magnitude(number.adjusted() + 1))))


def storable(time: Nanoseconds) -> Nanoseconds:
    """Return the time; `ValueError` where 64 bits do not hold it."""
    if not -_FURTHEST < time < _FURTHEST:
        raise ValueError("a time that far from the epoch is not kept")
    return time


def _unit_by_magnitude(digits: int) -> Nanoseconds:
    for digits_maximum, unit in _UNIT_BY_DIGITS:
        if digits <= digits_maximum:
            return EPOCH_UNITS[unit]
    raise ValueError("a time of so many digits is in no unit")
