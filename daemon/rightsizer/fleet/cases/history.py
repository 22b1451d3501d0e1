"""History of a case beyond its windows, from cached days."""

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
    """All cached days of a workload or a single device, shared by all spans.

    Args:
        days: Days of the workload or device.
        subject: Subject of a workload, or uuid of the device.
        since: When the case's holder took the device.
        now: End of all spans.
        settings: Settings of patterns.
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
        self.days = days
        self._subject = subject
        self.effective_samples = cache(partial(_effective_means, days))
        self.known_peaks = cache(partial(_known_peaks, days))

    def window(self, start: Nanoseconds, end: Nanoseconds) -> Window:
        """Return the window of a span."""
        since = max(start, self._since)
        is_shared = self._since <= start
        return self.days.window(self._subject, since, max(since, end), is_shared=is_shared)

    def blocks(self) -> Blocks:
        """Return all blocks."""
        return self.days.blocks(self._since, self._end)


def _effective_means(days: SubjectDays, blocks: Blocks, measure: Measure) -> float:
    series = blocks.series(measure)
    return _independent(days, series, series.means, lambda found: sum(found) / len(found))


def _known_peaks(
    days: SubjectDays, blocks: Blocks, measure: Measure
) -> tuple[Sequence[float], float]:
    """Return peaks, with an upper bound of their number where hours stand for blocks."""
    series = blocks.series(measure)
    effective = _independent(days, series, series.peaks, max) if series.peaks else 0.0
    return series.peaks, effective


def _independent(
    days: SubjectDays,
    series: Series,
    values: Sequence[float],
    one: Callable[[Sequence[float]], float],
) -> float:
    """Count hours where an hour stands for twelve blocks."""
    if not series.numbers or series.numbers[0] * BLOCK_SPAN >= days.fine_since:
        return effective_samples(grid(series, values))
    hours = {hour: one(values[inside]) for hour, inside in series.parts(COARSE_STEP)}
    return effective_samples([*map(hours.get, range(min(hours), max(hours) + 1))])
