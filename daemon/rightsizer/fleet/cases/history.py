"""SubjectHistory: what is known of a case beyond its windows, from cached days."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

from rightsizer.accounting.accounts_snapshot import LoadHistory
from rightsizer.accounting.load_patterns import effective_samples, grid
from rightsizer.accounting.settings import LoadPatternSettings
from rightsizer.fleet.cache.grid import COARSE_STEP
from rightsizer.fleet.cache.subject_days import SubjectDays
from rightsizer.model.block import BLOCK_SPAN, Blocks, Measure, Series
from rightsizer.model.units import Nanoseconds
from rightsizer.model.window import Window


class SubjectHistory(LoadHistory):
    """All that is cached of a workload, or of an only device; all spans share it.

    Args:
        days: Of the workload, or of the only device.
        subject: A workload's subject, or the device's uuid.
        since: From when on the case's holder has the device.
        now: Where all spans end.
        settings: What patterns rest on.
    """

    def __init__(
        self,
        days: SubjectDays,
        subject: str,
        since: Nanoseconds,
        now: Nanoseconds,
        settings: LoadPatternSettings,
    ) -> None:
        super().__init__(None, since, now, settings)
        self.days, self._subject = days, subject
        self.effective_samples = cache(partial(_effective_means, days))
        self.known_peaks = cache(partial(_known_peaks, days))

    def window(self, start: Nanoseconds, end: Nanoseconds) -> Window:
        """What was done over a span of time."""
        start = max(start, self._since)
        return self.days.window(self._subject, start, max(start, end))

    def blocks(self) -> Blocks:
        """All of them."""
        return self.days.blocks(self._since, self._end)


def _effective_means(days: SubjectDays, blocks: Blocks, measure: Measure) -> float:
    series = blocks.series(measure)
    return _independent(days, series, series.means, lambda found: sum(found) / len(found))


def _known_peaks(
    days: SubjectDays, blocks: Blocks, measure: Measure
) -> tuple[Sequence[float], float]:
    """An upper bound where an hour stands for its blocks."""
    series = blocks.series(measure)
    effective = _independent(days, series, series.peaks, max) if series.peaks else 0.0
    return series.peaks, effective


def _independent(
    days: SubjectDays,
    series: Series,
    values: Sequence[float],
    one: Callable[[Sequence[float]], float],
) -> float:
    """Where an hour stands for twelve blocks, hours are counted."""
    if not series.numbers or series.numbers[0] * BLOCK_SPAN >= days.fine_since:
        return effective_samples(grid(series, values))
    hours = {hour: one(values[inside]) for hour, inside in series.parts(COARSE_STEP)}
    return effective_samples([*map(hours.get, range(min(hours), max(hours) + 1))])
