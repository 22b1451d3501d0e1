"""A window as a row of a history gives it: checked, for a disk may have made anything of it."""

from collections.abc import Iterable
from itertools import chain
from math import isfinite
from typing import Any, Final

from rightsizer.accounting.window_form import decode
from rightsizer.domain.window import Window

__all__ = ["understood"]

_LATEST: Final = 2**62
"""Nanoseconds since the epoch, in the year 2116; sums of two still fit into a column."""


def understood(uuid: str, data: bytes) -> Window | None:
    """The window of a row; `None` where it cannot be one, so that the others are still read."""
    try:
        window = decode(uuid, data)
        return window if _is_sound(window) else None
    except (ValueError, TypeError, RecursionError):
        return None


def _is_sound(window: Window) -> bool:
    """Whether all of it can be counted with."""
    durations = chain(
        window.states.values(),
        window.conditions.values(),
        window.tiers.values(),
        window.saturated.values(),
        window.pressed.values(),
    )
    amounts = chain(
        (window.used_seconds, window.used_joules, window.energy_joules),
        window.waste_seconds.values(),
        window.waste_joules.values(),
    )
    bins = chain(window.compute_at_least.items(), *(d.items() for d in window.demands.values()))
    return (
        _are_whole((window.start, window.end, *durations))
        and window.start <= window.end
        and _are_amounts(amounts)
        and all(type(percent) is int and _is_amount(weight) for percent, weight in bins)
    )


def _are_whole(values: Iterable[Any]) -> bool:
    return all(type(value) is int and 0 <= value < _LATEST for value in values)


def _are_amounts(values: Iterable[Any]) -> bool:
    return all(_is_amount(value) for value in values)


def _is_amount(value: Any) -> bool:
    return type(value) in {int, float} and isfinite(value) and value >= 0
