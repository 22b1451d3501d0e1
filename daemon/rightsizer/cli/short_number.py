"""Figures as datasheets print them."""

from typing import Final

__all__ = ["short_number"]

_WHOLE_WITHIN: Final = 0.05


def short_number(value: float) -> str:
    """`3350`, `62.5`: one decimal, and that only where it tells something."""
    is_whole = abs(value - round(value)) < _WHOLE_WITHIN
    return f"{value:.0f}" if is_whole else f"{value:.1f}"
