"""The driver's words for "no value", which come where a number should be."""

from typing import Final

__all__ = ["is_blank"]

_WORD: Final = 2**32 - 1
_LOWEST: Final = 0x7FFFFFFFFFFFFFF0
"""DCGM's blanks, which leak through, and above them 64 ones; nothing that is counted gets here."""


def is_blank(answer: float) -> bool:
    """Whether a number of the driver's means that there is none."""
    return answer == _WORD or answer >= _LOWEST
