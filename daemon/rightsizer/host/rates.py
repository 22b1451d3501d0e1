"""Rates of monotonic counters between two reads."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

from rightsizer.model.values import Nanoseconds, Signal

K = TypeVar("K", bound=Hashable)


class MonotonicCounter(NamedTuple):
    """Increasing counter, with the counter of its possible maximum."""

    used: float
    available: float
    first: float | None = None
    """Recent mean by the kernel, used before there is a previous read."""


class CounterMeter(Generic[K]):
    """Compares counters with their previous read.

    A counter has no value if it is new, if its available amount did not increase, or if it
    decreased; rates are never negative.
    """

    def __init__(self, shortest: Nanoseconds) -> None:
        self._shortest = shortest
        self._time: Nanoseconds | None = None
        self._counters: Mapping[K, MonotonicCounter] = {}
        self._rates: Mapping[K, float] = {}

    def update(
        self, now: Nanoseconds, read: Callable[[], Mapping[K, MonotonicCounter]]
    ) -> Mapping[K, float]:
        """Share used of what was available since the last read."""
        if self._time is None or now - self._time >= self._shortest:
            counters = read()
            self._rates = _rates(self._counters, counters)
            self._counters = counters
            self._time = now
        return self._rates


def _rates(
    before: Mapping[K, MonotonicCounter], after: Mapping[K, MonotonicCounter]
) -> dict[K, float]:
    rates: dict[K, float] = {}
    for key, counter in after.items():
        last = before.get(key)
        if last is None:
            if counter.first is not None:
                rates[key] = counter.first
        elif counter.available > last.available and counter.used >= last.used:
            rates[key] = (counter.used - last.used) / (counter.available - last.available)
    return rates


def sum_by_signal(rates: Mapping[tuple[Signal, str], float]) -> dict[Signal, float]:
    """Sum over all parts with a value, such as disks or interfaces."""
    totals: defaultdict[Signal, float] = defaultdict(float)
    for (signal, _), rate in rates.items():
        totals[signal] += rate
    return dict(totals)
