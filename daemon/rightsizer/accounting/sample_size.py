"""How many independent values a series is worth whose neighbors resemble each other."""

from collections.abc import Iterable, Sequence
from operator import mul
from typing import Final

__all__ = ["autocorrelation", "effective_samples"]

_MOST_LAGS: Final = 2 * 24 * 12
"""Two days of five minutes; a load that is alike for longer is a handful of samples anyway."""


def effective_samples(values: Sequence[float | None]) -> float:
    """The number of independent values with the same uncertainty of their mean.

    That is n over the integrated autocorrelation time, whose sum ends with the first pair of
    lags that is not positive (Geyer 1992, initial positive sequence). For an AR(1) series it
    is n (1 - r) / (1 + r). At most n; a series that never changes shows no dependence and
    counts in full.

    Args:
        values: At equal distances of time, `None` where unknown.
    """
    series = _Series(values)
    if series.variance <= 0:
        return float(series.known)
    time = -1.0
    for lag in range(0, min(len(values) // 2, _MOST_LAGS), 2):
        pair = series.weighed(lag) + series.weighed(lag + 1)
        if pair <= 0:
            break
        time += 2 * pair
    return series.known / max(1.0, time)


def autocorrelation(values: Sequence[float | None], lag: int) -> float | None:
    """How values resemble those some places before, -1 to 1.

    `None` where fewer pairs than that many are known, or nothing ever changes.
    """
    series = _Series(values)
    if series.pairs(lag) < lag or series.variance <= 0:
        return None
    return series.autocorrelation(lag)


class _Series:
    """Deviations from the mean, 0 where unknown."""

    def __init__(self, values: Sequence[float | None]) -> None:
        is_whole = None not in values
        found = [value for value in values if value is not None]
        self.known = len(found)
        mean = sum(found) / self.known if found else 0.0
        # What is left of equal values is rounding.
        is_constant = not found or max(found) - min(found) <= 1e-12 * max(1.0, abs(mean))
        self._deviations = (
            [value - mean for value in found]
            if is_whole
            else [0.0 if value is None else value - mean for value in values]
        )
        self._known_bits = (1 << self.known) - 1 if is_whole else _known_bits(values)
        total = sum(map(mul, self._deviations, self._deviations))
        self.variance = 0.0 if is_constant else total / self.known

    def pairs(self, lag: int) -> int:
        """How many values are known together with the one some places before."""
        return (self._known_bits & self._known_bits >> lag).bit_count()

    def autocorrelation(self, lag: int) -> float:
        """Of the pairs that are known; 0 where none are."""
        pairs = self.pairs(lag)
        if not pairs:
            return 0.0
        products: float = sum(map(mul, self._deviations, self._deviations[lag:]))
        return products / pairs / self.variance

    def weighed(self, lag: int) -> float:
        """Smaller where there are fewer pairs, as is usual, lest a sum over lags be noise."""
        return self.autocorrelation(lag) * (1.0 - lag / len(self._deviations))


def _known_bits(values: Iterable[float | None]) -> int:
    """A bit for each value, so that all pairs of a lag are counted at once."""
    return int("".join("0" if value is None else "1" for value in values) or "0", 2)
