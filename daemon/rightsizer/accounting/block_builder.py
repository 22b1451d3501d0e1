"""Builds a block: the mean and the peak of each measure over five minutes."""

from collections.abc import Mapping
from typing import Final

from rightsizer.domain.block import Blocks, Measure
from rightsizer.domain.entry import Entry
from rightsizer.domain.signal import Signal
from rightsizer.domain.state import Resource, State
from rightsizer.domain.units import Nanoseconds, seconds

__all__ = ["BlockBuilder", "measured", "measures_of"]

_SIGNALS: Final = (
    (Measure.BUSY, Signal.GPU_BUSY),
    (Measure.MEMORY_BYTES, Signal.MEMORY_USED_BYTES),
)
_RESOURCES: Final = (
    (Measure.COMPUTE, Resource.COMPUTE),
    (Measure.MEMORY_BANDWIDTH, Resource.MEMORY_BANDWIDTH),
    (Measure.MEMORY, Resource.MEMORY),
    (Measure.PCIE, Resource.PCIE),
    (Measure.NVLINK, Resource.NVLINK),
)


def measured(entry: Entry) -> dict[Measure, float]:
    """What is known of each measure over a stretch; nothing where its state is unknown."""
    if entry.state is State.UNKNOWN:
        return {}
    return measures_of(entry.signals, entry.shares, entry.compute_at_least)


def measures_of(
    signals: Mapping[Signal, float],
    shares: Mapping[Resource, float],
    compute_at_least: float | None,
) -> dict[Measure, float]:
    """The measures that signals and shares of resources give."""
    found = {measure: signals[signal] for measure, signal in _SIGNALS if signal in signals}
    for measure, resource in _RESOURCES:
        if resource in shares:
            found[measure] = shares[resource]
    if compute_at_least is not None:
        found[Measure.COMPUTE_AT_LEAST] = compute_at_least
    return found


class BlockBuilder:
    """A block that is still growing."""

    __slots__ = ("_durations", "_known", "_peaks", "_sums")

    def __init__(self) -> None:
        self._known: Nanoseconds = 0
        self._durations: dict[Measure, Nanoseconds] = {}
        self._sums: dict[Measure, float] = {}
        self._peaks: dict[Measure, float] = {}

    def add(self, values: Mapping[Measure, float], duration: Nanoseconds) -> None:
        """Count what was measured for a while; nothing at all is time that is not known."""
        if not values:
            return
        self._known += duration
        durations, sums, peaks = self._durations, self._sums, self._peaks
        for measure, value in values.items():
            if measure in sums:
                durations[measure] += duration
                sums[measure] += value * duration
                peaks[measure] = max(peaks[measure], value)
            else:
                durations[measure] = duration
                sums[measure] = value * duration
                peaks[measure] = value

    def blocks(self, start: Nanoseconds) -> Blocks:
        """The block so far, or none where nothing is known of it."""
        if not self._known:
            return Blocks()
        means = {measure: found / self._durations[measure] for measure, found in self._sums.items()}
        return Blocks.of_one(start, seconds(self._known), means, self._peaks)
