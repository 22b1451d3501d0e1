"""How much of an exported window is known: what its gauges rest on."""

from typing import Final

from rightsizer.domain.window import Provisioning

__all__ = ["WINDOW_SECONDS", "window_coverage_ratio"]

WINDOW_SECONDS: Final = {"24h": 86_400.0, "7d": 604_800.0}
"""The windows that have a length; `current` fades and has none."""


def window_coverage_ratio(window: str, provisioning: Provisioning) -> float:
    """Known time over the window's length, so that an agent of an hour covers little of a day.

    Where the window has no length, it is the known time since there were readings.
    """
    length = WINDOW_SECONDS.get(window)
    if length is None:
        return provisioning.coverage_ratio
    return min(1.0, provisioning.known_seconds / length)
