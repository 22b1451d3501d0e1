"""How soon idle workloads go back to work.

The hazard of an idle time falls with its age: past half an hour its survival is a power of its
length. How steep, is learned from gaps that were seen, by a conjugate Gamma prior.
"""

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Final, Self

from rightsizer.model.block import BLOCK_SPAN, Series
from rightsizer.model.frozen import dataclass
from rightsizer.model.units import Nanoseconds, seconds

LEAST_SECONDS: Final = 1800.0
"""Shorter gaps are pauses of work and tell nothing of those that advice is about."""
_NORMAL_90: Final = 1.2816
"""The 90% quantile of the normal distribution."""


@dataclass(frozen=True, slots=True)
class IdleGap:
    """A time without work."""

    seconds: float
    has_ended: bool
    """False where its end was not seen; it lasted at least so long."""
    start: Nanoseconds = 0


def idle_gaps(series: Series, busy_ratio: float) -> tuple[IdleGap, ...]:
    """The times of whole five-minute blocks that were less busy than a ratio, oldest first.

    A hole in the telemetry, wider than most steps between blocks, ends what is known. Where
    readings are further apart than blocks are long, every step is as wide as they are.
    """
    steps = [later - number for number, later in pairwise(series.numbers)]
    usual = max(1, sorted(steps)[len(steps) // 2]) if steps else 1
    found: list[IdleGap] = []
    blocks = start = 0

    def end(*, has_ended: bool) -> None:
        if blocks:
            length = seconds(blocks * BLOCK_SPAN)
            found.append(IdleGap(length, has_ended, start=start * BLOCK_SPAN))

    for number, mean, step in zip(series.numbers, series.means, [*steps, usual], strict=False):
        if mean < busy_ratio:
            start, blocks = (start if blocks else number), blocks + min(step, usual)
        else:
            end(has_ended=True)
            blocks = 0
        if step > usual:
            end(has_ended=False)
            blocks = 0
    end(has_ended=False)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ResumptionModel:
    """How fast idle times end: the exponent of their survival, Gamma distributed."""

    gaps: float
    """That ended, of one's own or borrowed: the shape."""
    exposure: float
    """Sum of the logarithms of all gaps' lengths over the least: the rate."""

    @classmethod
    def of_prior(cls, exponent: float, gaps: float) -> Self:
        """An exponent that is believed like so many gaps."""
        return cls(gaps, gaps / exponent)

    def after(self, gaps: Iterable[IdleGap]) -> "ResumptionModel":
        """What it is once these were seen; those whose end no one saw count as long as seen."""
        lasting = [gap for gap in gaps if gap.seconds > LEAST_SECONDS]
        return ResumptionModel(
            self.gaps + sum(gap.has_ended for gap in lasting),
            self.exposure + sum(math.log(gap.seconds / LEAST_SECONDS) for gap in lasting),
        )

    def borrowed(self, gaps: float) -> "ResumptionModel":
        """The same, believed like so many gaps at most: others' past is not one's own."""
        factor = min(1.0, gaps / self.gaps)
        return ResumptionModel(self.gaps * factor, self.exposure * factor)

    def probability(self, idle_seconds: float, within_seconds: float) -> float:
        """That work resumes within some time after so much idleness."""
        more = _stretch(idle_seconds, within_seconds)
        return 1.0 - math.pow(self.exposure / (self.exposure + more), self.gaps)

    def upper_bound(self, idle_seconds: float, within_seconds: float) -> float:
        """The probability that the true one stays under in nine cases of ten."""
        ninth = 1.0 / (9.0 * self.gaps)
        # Wilson and Hilferty (1931): the cube root of a Gamma is nearly normal.
        exponent = self.gaps * (1.0 - ninth + _NORMAL_90 * math.sqrt(ninth)) ** 3 / self.exposure
        return 1.0 - math.exp(-exponent * _stretch(idle_seconds, within_seconds))


def _stretch(idle_seconds: float, within_seconds: float) -> float:
    least = max(idle_seconds, seconds(BLOCK_SPAN))
    return math.log((least + within_seconds) / least)
