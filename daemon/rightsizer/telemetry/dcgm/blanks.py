"""Numbers that DCGM writes where it has no value; exporters hand them on as if they were values."""

from typing import Final

from rightsizer.domain.reading import Missing

__all__ = ["blank"]

_REASONS: Final = (
    Missing.NO_SAMPLE,
    Missing.NOT_SUPPORTED,  # Not found.
    Missing.NOT_SUPPORTED,
    Missing.NO_PERMISSION,
)
_FIRST: Final = (0x7FFFFFFFFFFFFFF0, 1 << 47)
"""Of whole numbers and of fractions; the 32-bit ones could be the energy of a quiet hour."""

_BLANKS: Final = {first + step: reason for first in _FIRST for step, reason in enumerate(_REASONS)}


def blank(number: str) -> Missing | None:
    """Why a number as it is written is no value, `None` where it is one.

    The last digits tell the reasons apart, so that they must not go through a float first.
    """
    whole, _, fraction = number.partition(".")
    if not whole.isdecimal() or fraction.strip("0"):
        return None
    return _BLANKS.get(int(whole))
