"""Where one poll of all devices ends and the next begins, found from the timestamps alone."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from rightsizer.domain.units import Nanoseconds

__all__ = ["poll_gap"]

_MILLISECOND: Final = 1_000_000
_LONGEST_GAP: Final = 500 * _MILLISECOND
"""A driver that takes longer for one device is no longer polling, it hangs."""
_SHORTEST_POLL: Final = 50 * _MILLISECOND
"""Rows that all lie closer than this are one poll: nobody polls so often."""
_MOST_DEVICES: Final = 64
_SEPARATION: Final = 2.0
"""Gaps between polls are at least so many times those within."""
_AGREEMENT: Final = 0.8
"""Share of polls that must have the usual number of rows."""


def poll_gap(times: Sequence[Nanoseconds]) -> Nanoseconds:
    """The longest time between two rows of one poll; -1 where each row is a poll of its own.

    The gaps fall into two heaps when several devices are polled: a few milliseconds from one
    device to the next, and the interval. A cut between the heaps is right when it leaves polls
    of equal size; of several such cuts the widest is taken.
    """
    gaps = [max(0, after - before) for before, after in pairwise(times)]
    if not gaps:
        return -1
    best, best_width = -1, 0.0
    for low, high in _cuts(sorted(set(gaps))):
        width = high / max(low, _MILLISECOND)
        if width > best_width and _is_regular(gaps, low):
            best, best_width = low, width
    return best


def _cuts(gaps: Sequence[Nanoseconds]) -> list[tuple[Nanoseconds, Nanoseconds]]:
    cuts = [
        (low, high)
        for low, high in pairwise(gaps)
        if low <= _LONGEST_GAP and high >= _SEPARATION * max(low, _MILLISECOND)
    ]
    if gaps[-1] <= _SHORTEST_POLL:
        cuts.append((gaps[-1], 2 * _LONGEST_GAP))
    return cuts


def _is_regular(gaps: Sequence[Nanoseconds], longest_within: Nanoseconds) -> bool:
    sizes = [1]
    for gap in gaps:
        if gap > longest_within:
            sizes.append(1)
        else:
            sizes[-1] += 1
    size, count = Counter(sizes).most_common(1)[0]
    return 1 < size <= _MOST_DEVICES and count >= _AGREEMENT * len(sizes)
