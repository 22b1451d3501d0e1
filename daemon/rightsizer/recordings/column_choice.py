"""Choice among columns that may be the clock or the device, scored on all rows of a file."""

import contextlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

Row = Sequence[str]

LEAST_ORDER: Final = 0.75
"""Share of steps in one direction from which a count is a clock.

Source: a log sorted either way has 1, numbers without order .5."""
_LEAST_SEPARATION: Final = 0.99
"""Share of rows that a column keeps apart from the others of their poll."""
_MOST_DEVICES: Final = 64
_COLLECTED_ROWS: Final = 10_000
"""Rows that are collected into polls where these are not written one after the other."""


def order_of(texts: Iterable[str]) -> float:
    """Return how steadily numbers go in one direction: 1 without any step."""
    last = math.nan
    ups = downs = 0
    for text in texts:
        with contextlib.suppress(ValueError):
            number = float(text)
            ups += number > last
            downs += number < last
            last = number
    return max(ups, downs) / (ups + downs) if ups + downs else 1.0


class DeviceScores:
    """Scores of columns as names of devices: by the rows of each poll, and how often names recur.

    `candidates` have headings of devices; `others` are columns that cannot name one.
    """

    def __init__(
        self, candidates: Sequence[int], others: Iterable[int | None], time: Callable[[Row], str]
    ) -> None:
        self.candidates = candidates
        self._others = {*others}
        self._time = time
        self._poll: list[Row] = []
        self._poll_time = ""
        self._rows = 0
        self._polls = 0
        self._apart: Counter[int] = Counter()
        """Different cells of each column within polls, summed."""
        self._names: dict[int, Counter[str]] = {}
        """Names within polls, by column."""
        self._seen: dict[int, set[str]] = {at: set() for at in candidates}
        """Some names of each candidate, in polls or not."""
        self._collected: defaultdict[str, list[Row]] | None = defaultdict(list)
        """First rows by time, until two of one poll follow each other."""
        self._count = 0

    def add(self, cells: Row) -> None:
        """Add a row."""
        time = self._time(cells)
        if self._collected is not None and self._count < _COLLECTED_ROWS:
            self._collected[time].append(cells)
        self._count += 1
        for at, seen in self._seen.items():
            if len(seen) <= 1:
                seen.add(cells[at])
        if time != self._poll_time:
            self._end_poll(self._poll)
            self._poll = []
            self._poll_time = time
        self._poll.append(cells)

    def choice(self) -> int | None:
        """Return the first column that separates the rows of polls, named ones before others.

        Without one it is the first candidate that has several names, else the first of all.
        """
        self._end_poll(self._poll)
        self._poll = []
        if not self._rows:
            for poll in (self._collected or {}).values():
                self._end_poll(poll)
        unnamed = (at for at in self._names if at not in self.candidates and self._are_names(at))
        for at in (*self.candidates, *unnamed):
            if self._rows and self.is_apart(at):
                return at
        several = (at for at, seen in self._seen.items() if len(seen) > 1)
        return next(several, next(iter(self.candidates), None))

    def is_apart(self, place: int) -> bool:
        """Whether a column keeps the rows of polls apart, as far as there are any."""
        return self._apart[place] >= _LEAST_SEPARATION * self._rows

    def separation(self, place: int) -> float:
        """Return the share of rows that a column keeps apart from the others of their poll."""
        return self._apart[place] / self._rows if self._rows else 1.0

    def _end_poll(self, poll: Sequence[Row]) -> None:
        if len(poll) < 2:  # noqa: PLR2004 - a pair.
            return
        self._collected = None
        self._rows += len(poll)
        self._polls += 1
        for at in range(min(map(len, poll))):
            if at in self._others and at not in self.candidates:
                continue
            names = [cells[at] for cells in poll]
            self._apart[at] += len({*names})
            counts = self._names.setdefault(at, Counter())
            if len(counts) <= _MOST_DEVICES:
                counts.update(names)

    def _are_names(self, at: int) -> bool:
        """Whether a column has a few words, each in most polls."""
        counts = self._names[at]
        return (
            len(counts) <= _MOST_DEVICES
            and all((word := name.strip()) and not word[0].isdigit() for name in counts)
            and all(2 * count > self._polls for count in counts.values())
        )
