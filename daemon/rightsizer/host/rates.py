"""Rates of monotonic counters between two reads."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

from rightsizer.model.signal import Signal
from rightsizer.model.units import Nanoseconds

K = TypeVar("K", bound=Hashable)


class MonotonicCounter(NamedTuple):
    """Something that only grows, beside what it could have grown by."""

    used: float
    available: float
    first: float | None = None
    """The kernel's own recent mean, for when there is nothing to compare with."""


class CounterMeter(Generic[K]):
    """Compares each look at some counters with the one before.

    A counter that is new, that stood still in what was available, or that was set back gives no
    value; none is ever negative.
    """

    def __init__(self, shortest: Nanoseconds) -> None:
        self._shortest = shortest
        self._time: Nanoseconds | None = None
        self._counters: Mapping[K, MonotonicCounter] = {}
        self._rates: Mapping[K, float] = {}

    def update(
        self, now: Nanoseconds, read: Callable[[], Mapping[K, MonotonicCounter]]
    ) -> Mapping[K, float]:
        """What was used of what was available since the last look."""
        if self._time is None or now - self._time >= self._shortest:
            counters = read()
            self._rates = _rates(self._counters, counters)
            self._counters, self._time = counters, now
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
    """The sum over all parts that have a value: disks, interfaces."""
    totals: defaultdict[Signal, float] = defaultdict(float)
    for (signal, _), rate in rates.items():
        totals[signal] += rate
    return dict(totals)
