"""Choice among columns that may be the clock or the device, scored on the first rows."""

from collections import Counter, defaultdict
from collections.abc import Callable, Container, Sequence
from itertools import pairwise
from typing import Final

Rows = Sequence[Sequence[str]]

_LEAST_ORDER: Final = 0.75
"""Share of steps in one direction from which a count is a clock.

Source: a log sorted either way has 1, numbers without order .5."""
_LEAST_SEPARATION: Final = 0.99
"""Share of rows that a column keeps apart from the others of their poll."""
_MOST_DEVICES: Final = 64


def order_of(times: Sequence[int]) -> float:
    """Return the share of steps in the usual direction; 1 for less than two times."""
    steps = [after - before for before, after in pairwise(times)]
    ups = sum(step > 0 for step in steps)
    downs = sum(step < 0 for step in steps)
    return max(ups, downs) / (ups + downs) if ups + downs else 1.0


def is_ordered(times: Sequence[int]) -> bool:
    """Whether numbers go on as those of a clock do."""
    return order_of(times) >= _LEAST_ORDER


def device_place(
    candidates: Sequence[int],
    others: Container[int | None],
    time: Callable[[Sequence[str]], str],
    rows: Rows,
) -> int | None:
    """Return the column that separates the rows of a poll; `candidates` have names of devices.

    Without one that does, a column with a few names is taken that come again in each poll, `others`
    apart; else the first candidate.
    """
    polls: defaultdict[str, list[Sequence[str]]] = defaultdict(list)
    for cells in rows:
        polls[time(cells)].append(cells)
    shared = [poll for poll in polls.values() if len(poll) > 1]
    first = candidates[0] if candidates else None
    if not shared:
        return first
    width = min(map(len, rows))
    unnamed = (at for at in range(width) if at not in others and _is_of_names(at, shared))
    places = (*candidates, *unnamed)
    return next((at for at in places if _separates(at, shared)), first)


def _separates(at: int, polls: Sequence[Rows]) -> bool:
    apart = sum(len({cells[at] for cells in poll}) for poll in polls)
    return apart >= _LEAST_SEPARATION * sum(map(len, polls))


def _is_of_names(at: int, polls: Sequence[Rows]) -> bool:
    """Whether a column has a few words, each in most polls."""
    counts = Counter(cells[at].strip() for poll in polls for cells in poll)
    return (
        len(counts) <= _MOST_DEVICES
        and all(name and not name[0].isdigit() for name in counts)
        and all(2 * count > len(polls) for count in counts.values())
    )
