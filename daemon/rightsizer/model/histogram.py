"""Histogram of ratios in 101 linear bins: exact for whole percents, mergeable, decayable.

Fixed bins beat a t-digest here: the domain is 0 to 1, merging is addition, decay is scaling,
and the same readings give the same bytes.
"""

from bisect import bisect_left
from collections.abc import ItemsView, Mapping
from itertools import accumulate
from typing import Final, Protocol

BINS: Final = 101
_ROUNDING: Final = 1e-9
PRECISION: Final = 1e-12
"""Relative error of sums of weights."""


class Distribution(Protocol):
    """Weight per whole percent, to read."""

    @property
    def total(self) -> float:
        """Sum of all weights."""

    def quantile(self, share: float) -> float | None:
        """Upper edge of the bin that reaches a share of the weight; `None` if empty."""

    def mean(self) -> float | None:
        """Weighted mean of the bins' upper edges; `None` if empty."""

    def maximum(self) -> float | None:
        """Upper edge of the highest non-empty bin; `None` if empty."""

    def items(self) -> ItemsView[int, float]:
        """Bins in use with their weights, unordered."""


class Histogram:
    """Weight per whole percent; only bins in use take memory.

    The unit of weights is the caller's. The program uses nanoseconds, which doubles add and
    subtract exactly up to a hundred days per bin.
    """

    __slots__ = ("_weights",)

    def __init__(self, weights: Mapping[int, float] | None = None) -> None:
        self._weights = dict(weights) if weights else {}
        if self._weights and not 0 <= min(self._weights) <= max(self._weights) < BINS:
            wrong = next(weight for weight in self._weights if not 0 <= weight < BINS)
            raise ValueError(f"a histogram has no bin {wrong}")

    def add(self, value: float, weight: float) -> None:
        """Count a ratio with a weight: bin 0 holds 0 alone, bin i holds (i-1%, i%].

        Values outside 0 to 1 go into the outermost bins.
        """
        scaled = value * (BINS - 1) - _ROUNDING
        weights = self._weights
        percent = 0 if scaled <= 0 else int(scaled) + 1 if scaled < BINS - 2 else BINS - 1
        weights[percent] = weights.get(percent, 0.0) + weight

    def merge(self, other: Distribution) -> None:
        """Add another's weights to this one's."""
        mine = self._weights
        weight_of = mine.get
        for percent, weight in other.items():
            mine[percent] = weight_of(percent, 0.0) + weight

    def subtract(self, other: Distribution) -> None:
        """Remove weights merged before; exact for integer weights."""
        mine = self._weights
        for percent, weight in other.items():
            left = mine.get(percent, 0.0) - weight
            if left:
                mine[percent] = left
            else:
                mine.pop(percent, None)

    def decay(self, factor: float) -> None:
        """Scale all weights by a factor from 0 to 1."""
        self._weights = {percent: weight * factor for percent, weight in self._weights.items()}

    def scaled(self, factor: float) -> "Histogram":
        """Return a copy with all weights scaled by a factor from 0 to 1."""
        twin = Histogram()
        twin._weights = {percent: weight * factor for percent, weight in self._weights.items()}
        return twin

    def copy(self) -> "Histogram":
        """Return an independent copy."""
        twin = Histogram()
        twin._weights = self._weights.copy()
        return twin

    @property
    def total(self) -> float:
        """Sum of all weights."""
        return sum(self._weights.values())

    def quantile(self, share: float) -> float | None:
        """Upper edge of the bin that reaches a share of the weight; `None` if empty.

        Never below the exact quantile, and at most one bin (0.01) above it.
        """
        used = sorted(self._used())
        if not used:
            return None
        target = share * self.total * (1 - PRECISION)
        reached = list(accumulate(map(self._weights.__getitem__, used)))
        return used[min(bisect_left(reached, target), len(used) - 1)] / (BINS - 1)

    def mean(self) -> float | None:
        """Weighted mean of the bins' upper edges; `None` if empty."""
        total = self.total
        if total <= 0:
            return None
        weighted = sum(percent * weight for percent, weight in self._weights.items())
        return weighted / (total * (BINS - 1))

    def maximum(self) -> float | None:
        """Upper edge of the highest non-empty bin; `None` if empty."""
        used = self._used()
        return max(used) / (BINS - 1) if used else None

    def cumulative(self) -> list[float]:
        """Cumulative weight by percent, for all edges in one pass."""
        weights = [0.0] * BINS
        for percent, weight in self._weights.items():
            weights[percent] = weight
        return list(accumulate(weights))

    def items(self) -> ItemsView[int, float]:
        """Bins in use with their weights, unordered."""
        return self._weights.items()

    def _used(self) -> list[int]:
        return [percent for percent, weight in self._weights.items() if weight > 0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Histogram) and self._weights == other._weights

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        inside = ", ".join(f"{percent}%: {weight:g}" for percent, weight in sorted(self.items()))
        return f"Histogram({inside})"
