"""The exact median of the times between readings, in bounded memory."""

import sqlite3
from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import Final

from rightsizer.domain.units import Nanoseconds

__all__ = ["Gaps"]

_MOST_IN_MEMORY: Final = 100_000


class Gaps:
    """How often each gap occurred, by whatever has gaps of its own.

    Logs repeat a few gaps for ever, so that counting them is cheap; clocks that jitter by the
    nanosecond do not, and what is too much for the memory goes to a temporary file.
    """

    def __init__(self, most_in_memory: int = _MOST_IN_MEMORY) -> None:
        """No gaps yet; so many different ones are kept in memory."""
        self._most = most_in_memory
        self._counts: dict[Hashable, defaultdict[Nanoseconds, int]] = {}
        self._numbers: dict[Hashable, int] = {}
        self._spilled: sqlite3.Connection | None = None

    def of(self, key: Hashable) -> defaultdict[Nanoseconds, int]:
        """The counter of one key, for the caller to add to until the next `settle`."""
        return self._counts.setdefault(key, defaultdict(int))

    def settle(self) -> None:
        """Move the counts to the temporary file if they have become too many."""
        if sum(map(len, self._counts.values())) > self._most:
            self._spill()

    def median(self, key: Hashable) -> Nanoseconds | None:
        """The median of a key's gaps, `None` where there are none."""
        if self._spilled is not None:
            self._spill()
        total = sum(count for _, count in self._sorted(key))
        if not total:
            return None
        low = _nth(self._sorted(key), (total - 1) // 2)
        return (low + _nth(self._sorted(key), total // 2)) // 2

    def close(self) -> None:
        """Remove the temporary file."""
        if self._spilled is not None:
            self._spilled.close()

    def _sorted(self, key: Hashable) -> Iterable[tuple[Nanoseconds, int]]:
        if self._spilled is None:
            return sorted(self._counts.get(key, {}).items())
        return self._spilled.execute(
            "SELECT gap, count FROM gap WHERE key = ? ORDER BY gap", (self._numbers.get(key),)
        )

    def _spill(self) -> None:
        if self._spilled is None:
            self._spilled = sqlite3.connect("", check_same_thread=False)
            self._spilled.execute(
                "CREATE TABLE gap (key INTEGER, gap INTEGER, count INTEGER, "
                "PRIMARY KEY (key, gap)) WITHOUT ROWID"
            )
        self._spilled.executemany(
            "INSERT INTO gap VALUES (?, ?, ?) "
            "ON CONFLICT DO UPDATE SET count = count + excluded.count",
            (
                (self._numbers.setdefault(key, len(self._numbers)), gap, count)
                for key, counts in self._counts.items()
                for gap, count in sorted(counts.items())
            ),
        )
        for counts in self._counts.values():
            counts.clear()


def _nth(counts: Iterable[tuple[Nanoseconds, int]], n: int) -> Nanoseconds:
    for gap, count in counts:
        if n < count:
            return gap
        n -= count
    raise IndexError(n)
