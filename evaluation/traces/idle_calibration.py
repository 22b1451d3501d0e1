"""How often work follows within half an hour of an idle time, by its length and threshold.

Each end of a window is asked; pods are dealt into folds, whose range tells how far the share holds
for pods that were not seen.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from evaluation.traces.reclaim import MINUTE, SOON
from measured import table
from rightsizer.advice.rules.idle import IdleSettings
from rightsizer.model.block import BLOCK_SPAN, Measure
from rightsizer.model.state import State
from rightsizer.model.units import Nanoseconds
from rightsizer.model.window import Window

SPANS: Final = tuple(minutes * MINUTE for minutes in (30, 60, 120))
THRESHOLDS: Final = (0.95, 0.99, 1.0)
_FOLDS: Final = 5
_BUSY: Final = IdleSettings().busy_ratio
_IDLE: Final = (State.IDLE_EMPTY, State.IDLE_HELD)
_AFTER: Final = SOON // BLOCK_SPAN


class _Part(NamedTuple):
    start: Nanoseconds
    idle_ratio: float
    is_busy: bool


class IdleWindows:
    """Windows of pods, by which idle times and what followed them are counted."""

    def __init__(self) -> None:
        self._parts: defaultdict[str, list[_Part]] = defaultdict(list)

    def add(self, window: Window) -> None:
        """Add a closed window of five minutes; one without a known state breaks the series."""
        known = sum(window.states.values()) - window.states.get(State.UNKNOWN, 0)
        if not known:
            return
        idle = sum(window.states.get(state, 0) for state in _IDLE)
        busy = max((each.mean for each in window.blocks.each(Measure.BUSY)), default=0.0)
        self._parts[window.uuid].append(_Part(window.start, idle / known, is_busy=busy >= _BUSY))

    def counts(self, span: Nanoseconds, threshold: float) -> Sequence[tuple[int, int]]:
        """Return by fold the idle windows, and those that work followed."""
        length = span // BLOCK_SPAN
        found = [[0, 0] for _ in range(_FOLDS)]
        for number, uuid in enumerate(sorted(self._parts)):
            parts = sorted(self._parts[uuid])
            for at in range(length, len(parts) - _AFTER + 1):
                past = parts[at - length : at]
                following = parts[at : at + _AFTER]
                is_whole = all(
                    after.start - before.start == BLOCK_SPAN
                    for before, after in pairwise((*past[1:], *following))
                )
                if is_whole and sum(part.idle_ratio for part in past) >= threshold * length:
                    found[number % _FOLDS][0] += 1
                    found[number % _FOLDS][1] += any(part.is_busy for part in following)
        return [(windows, resumed) for windows, resumed in found]

    def lines(self) -> Iterator[str]:
        """Yield the table."""
        yield table(
            (
                (f"{span // MINUTE} min", f"{threshold:.0%}", *_cells(self.counts(span, threshold)))
                for span in SPANS
                for threshold in THRESHOLDS
            ),
            ("idle time", "at least idle", "windows", "followed by work", "by fold of pods"),
        )


def _cells(counts: Sequence[tuple[int, int]]) -> tuple[str, str, str]:
    windows = sum(count for count, _ in counts)
    resumed = sum(count for _, count in counts)
    shares = [each / of for of, each in counts if of]
    if not shares:
        return "0", "", ""
    return f"{windows}", f"{resumed / windows:.1%}", f"{min(shares):.0%} to {max(shares):.0%}"
