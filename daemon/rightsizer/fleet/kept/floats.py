"""Arrays of floats of what C-level iterators give."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable

__all__ = ["floats"]


def floats(values: Iterable[float]) -> array[float]:
    """What `array("f", values)` is, in half the time: an array parses each as an argument."""
    numbers = tuple(values)
    found = array("f")
    try:
        found.frombytes(struct.pack(f"{len(numbers)}f", *numbers))
    except OverflowError:  # A store may say anything; to an array what is too large is infinite.
        return array("f", numbers)
    return found
