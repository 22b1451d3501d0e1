"""Numbers of JSON events, whatever form a profiler gave them."""

from decimal import Decimal
from typing import Any, Final

from rightsizer.domain.units import Nanoseconds

__all__ = ["microseconds", "number", "percent", "whole_number"]

_LARGEST_EXPONENT: Final = 24
_LARGEST: Final = 10**_LARGEST_EXPONENT
"""Beyond any time or size, and small enough to reckon with."""
_DIGITS: Final = 40


def microseconds(value: Any) -> Nanoseconds | None:
    """Microseconds as whole nanoseconds; `None` if it is no number, or beyond all clocks."""
    if type(value) is Decimal:
        # Comparing costs ten times what these two do.
        is_usual = value.adjusted() < _LARGEST_EXPONENT and value.is_finite()
        return round(value * 1000) if is_usual else None
    if type(value) is int:
        return value * 1000
    found = number(value)
    return None if found is None else microseconds(found)


def whole_number(value: Any) -> int | None:
    """A count, a size or an identifier; text of digits counts as well."""
    if type(value) is int:
        return value
    found = number(value)
    return int(found) if found is not None and found == found.to_integral_value() else None


def percent(value: Any) -> float | None:
    """A percentage as a ratio."""
    if type(value) is int and -_LARGEST < value < _LARGEST:
        return value / 100
    found = number(value)
    return None if found is None else float(found) / 100


def number(value: Any) -> Decimal | None:
    """A number as it was written; `None` if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        return None
    if isinstance(value, str) and len(value) > _DIGITS:
        return None
    try:
        found = Decimal(value if isinstance(value, Decimal | int) else str(value).strip())
    except ArithmeticError:
        return None
    return found if found.is_finite() and -_LARGEST < found < _LARGEST else None
