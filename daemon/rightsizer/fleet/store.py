"""What a store of samples must be able to do, whichever one it is."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rightsizer.domain.units import Nanoseconds
from rightsizer.fleet.prometheus.use import StoreUse

__all__ = ["Sampled", "Store"]


@dataclass(frozen=True, slots=True)
class Sampled:
    """One series of an answer."""

    labels: Mapping[str, str]
    times: Sequence[Nanoseconds]
    """Wall time, ascending."""
    values: array[float]
    """Doubles, as many as there are times; `NaN` samples are left out by whoever parses."""


class Store(Protocol):
    """Prometheus's HTTP API, made safe to ask: both raise `StoreError`."""

    @property
    def use(self) -> StoreUse:
        """What it was asked for so far."""

    def range(
        self, promql: str, start: Nanoseconds, end: Nanoseconds, step: Nanoseconds
    ) -> Sequence[Sampled]:
        """A range query; samples at `start`, `start + step`, ... up to and with `end`.

        What a store refuses as too much is asked in halves of the time; `StoreLimitError` is
        raised where a single step is too much, for the caller to ask about fewer devices.
        """

    def instant(self, promql: str, time: Nanoseconds) -> Sequence[Sampled]:
        """A query at one moment; each series has one sample."""
