"""A distribution of ratios in 101 linear bins: exact for whole percents, mergeable, decayable.

Fixed bins beat a t-digest here: the domain is 0 to 1, merging is addition, decay is scaling,
and the same readings give the same bytes.
"""

import struct
from array import array
from collections.abc import Iterable, Iterator
from typing import Final, Self

__all__ = ["BINS", "Histogram", "bin_of"]

BINS: Final = 101
_ROUNDING: Final = 1e-9
_PAIR: Final = struct.Struct("<Bd")


def bin_of(value: float) -> int:
    """The bin of a ratio: bin 0 holds 0 alone, bin i holds (i-1 %, i %].

    Values outside of 0 to 1 fall into the outermost bins.
    """
    scaled = value * (BINS - 1) - _ROUNDING
    if scaled <= 0:
        return 0
    whole = int(scaled)
    return min(whole + 1, BINS - 1)


class Histogram:
    """How much weight fell on each percent.

    Weights are whatever the caller counts in; the program counts nanoseconds, which doubles
    add and subtract exactly for a hundred days of one bin.
    """

    __slots__ = ("_weights",)

    def __init__(self, weights: Iterable[float] | None = None) -> None:
        """An empty histogram, or one of given weights (exactly 101)."""
        self._weights = array("d", bytes(8 * BINS) if weights is None else weights)
        if len(self._weights) != BINS:
            raise ValueError(f"a histogram has {BINS} bins, not {len(self._weights)}")

    def add(self, value: float, weight: float) -> None:
        """Count a ratio with a weight."""
        self._weights[bin_of(value)] += weight

    def merge(self, other: "Histogram") -> None:
        """Add another histogram's weights to this one's."""
        for index, weight in other.items():
            self._weights[index] += weight

    def subtract(self, other: "Histogram") -> None:
        """Take away weights that were merged before; exact for whole weights."""
        for index, weight in other.items():
            self._weights[index] -= weight

    def decay(self, factor: float) -> None:
        """Scale all weights by a factor from 0 to 1."""
        self._weights = array("d", [weight * factor for weight in self._weights])

    def copy(self) -> "Histogram":
        """An independent histogram of the same weights."""
        return Histogram(self._weights)

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return sum(self._weights)

    def quantile(self, share: float) -> float | None:
        """The upper edge of the bin in which a share of the weight is reached; `None` if empty.

        Never below the exact quantile, and at most one bin (0.01) above it.
        """
        total = self.total
        if total <= 0:
            return None
        target, reached = share * total, 0.0
        last = 0
        for index, weight in enumerate(self._weights):
            if weight <= 0:
                continue
            reached += weight
            last = index
            if reached >= target * (1 - 1e-12):
                return index / (BINS - 1)
        return last / (BINS - 1)

    def mean(self) -> float | None:
        """The weighted mean of the bins' upper edges; `None` if empty."""
        total = self.total
        if total <= 0:
            return None
        return sum(index * weight for index, weight in enumerate(self._weights)) / (
            total * (BINS - 1)
        )

    def maximum(self) -> float | None:
        """The upper edge of the highest bin with any weight; `None` if empty."""
        for index in range(BINS - 1, -1, -1):
            if self._weights[index] > 0:
                return index / (BINS - 1)
        return None

    def minimum(self) -> float | None:
        """The upper edge of the lowest bin with any weight; `None` if empty."""
        for index, weight in enumerate(self._weights):
            if weight > 0:
                return index / (BINS - 1)
        return None

    def at_most(self, value: float) -> float:
        """The weight of all ratios up to a value, exact where the value is a whole percent."""
        return sum(self._weights[: bin_of(value) + 1])

    def to_bytes(self) -> bytes:
        """The histogram in 9 bytes for each bin in use, without loss."""
        return b"".join(_PAIR.pack(index, weight) for index, weight in self.items())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The histogram that `to_bytes` wrote.

        Raises:
            ValueError: the bytes are not such a histogram.
        """
        if len(data) % _PAIR.size:
            raise ValueError("a histogram's bytes are cut off")
        histogram = cls()
        for index, weight in _PAIR.iter_unpack(data):
            if index >= BINS:
                raise ValueError(f"a histogram has no bin {index}")
            histogram._weights[index] = weight
        return histogram

    def items(self) -> Iterator[tuple[int, float]]:
        """The bins in use, as (percent, weight)."""
        return ((index, weight) for index, weight in enumerate(self._weights) if weight)

    def __iter__(self) -> Iterator[float]:
        return iter(self._weights)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and self._weights == other._weights

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        inside = ", ".join(f"{index}%: {weight:g}" for index, weight in self.items())
        return f"Histogram({inside})"
