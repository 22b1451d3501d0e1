"""Protocol of a store of samples, and counters of its use."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

from rightsizer.model.units import Nanoseconds


@dataclass(frozen=True, slots=True)
class StoreUse:
    """What a store was asked for so far; those of several processes add up."""

    queries: int = 0
    """Requests that were sent, the further tries and the halves among them."""
    retries: int = 0
    """Of these, the tries after one that failed."""
    halvings: int = 0
    """How often a span was cut in two, as the store allows less."""
    series: int = 0
    samples: int = 0
    received_bytes: int = 0
    """Unpacked."""
    store_seconds: float = 0.0
    """Spent in requests, all threads together."""
    parse_seconds: float = 0.0
    """Spent on answers once they were there, all threads together."""

    def since(self, before: StoreUse) -> StoreUse:
        """What came on top of what there was before."""
        return StoreUse(
            *(getattr(self, each.name) - getattr(before, each.name) for each in fields(StoreUse))
        )

    def __add__(self, other: StoreUse) -> StoreUse:
        sums = {
            each.name: getattr(self, each.name) + getattr(other, each.name)
            for each in fields(StoreUse)
        }
        return StoreUse(**sums)


class StoreUseCounter:
    """Counts for many threads."""

    def __init__(self) -> None:
        self._use = StoreUse()
        self._lock = threading.Lock()

    def add(self, more: StoreUse) -> None:
        """Count this too."""
        with self._lock:
            self._use += more

    @property
    def use(self) -> StoreUse:
        """All that was counted until now."""
        with self._lock:
            return self._use


@dataclass(frozen=True, slots=True)
class SampledSeries:
    """One series of an answer."""

    labels: Mapping[str, str]
    times: Sequence[Nanoseconds]
    """Wall time, ascending."""
    values: array[float]
    """Doubles, as many as there are times; `NaN` samples are left out by whoever parses."""


class MetricStore(Protocol):
    """Prometheus's HTTP API, made safe to ask: both raise `StoreError`."""

    @property
    def use(self) -> StoreUse:
        """What it was asked for so far."""

    def range(
        self, promql: str, start: Nanoseconds, end: Nanoseconds, step: Nanoseconds
    ) -> Sequence[SampledSeries]:
        """A range query; samples at `start`, `start + step`, ... up to and with `end`.

        What a store refuses as too much is asked in halves of the time; `StoreLimitError` is
        raised where a single step is too much, for the caller to ask about fewer devices.
        """

    def instant(self, promql: str, time: Nanoseconds) -> Sequence[SampledSeries]:
        """A query at one moment; each series has one sample."""
