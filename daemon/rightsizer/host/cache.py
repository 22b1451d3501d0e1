"""Caches by key: entries that expire unused, or are renewed at an interval."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from rightsizer.model.values import Nanoseconds

_STEPS: Final = 64
_STEP: Final = 39
"""Coprime with `_STEPS`, and large enough to spread consecutive entries."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class _CacheEntry(Generic[V]):
    value: V
    made: Nanoseconds
    asked: Nanoseconds
    due: Nanoseconds | None = None


class ExpiringCache(Generic[K, V]):
    """Values by key, dropped when unused for a while."""

    def __init__(self, forget_after: Nanoseconds) -> None:
        self._forget_after = forget_after
        self._entries: dict[K, _CacheEntry[V]] = {}
        self._sweep_at: Nanoseconds | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K, now: Nanoseconds, make: Callable[[], V]) -> V:
        """Cached value, created on a miss."""
        return self._entry(key, now, make).value

    def _entry(self, key: K, now: Nanoseconds, make: Callable[[], V]) -> _CacheEntry[V]:
        if self._sweep_at is None or now >= self._sweep_at:
            self._sweep(now)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _CacheEntry(make(), now, now)
        entry.asked = now
        return entry

    def _sweep(self, now: Nanoseconds) -> None:
        """Drop expired entries; runs twice per expiry time."""
        self._sweep_at = now + self._forget_after // 2
        since = now - self._forget_after
        self._entries = {key: entry for key, entry in self._entries.items() if entry.asked >= since}


class RefreshingCache(ExpiringCache[K, V]):
    """Values renewed once they are older than an interval.

    Values first created together are renewed one by one, some of them early, so that no pass has
    to renew everything.
    """

    def __init__(self, interval: Nanoseconds, forget_after: Nanoseconds) -> None:
        super().__init__(max(interval, forget_after))
        self._interval = interval
        self._first_ones = 0

    def get(self, key: K, now: Nanoseconds, make: Callable[[], V]) -> V:
        """Cached value, created on a miss or when too old."""
        entry = self._entry(key, now, make)
        if entry.due is None:
            sooner = self._first_ones * _STEP % _STEPS
            self._first_ones += 1
            entry.due = now + self._interval - self._interval * sooner // (2 * _STEPS)
        elif now >= entry.due and now != entry.made:
            entry.value = make()
            entry.made = now
            entry.due = now + self._interval
        return entry.value
