"""History of a case beyond its windows, from all days of its subject."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Final

import numpy as np
from msgspec.structs import replace

from rightsizer.accounting.accounts_snapshot import LoadHistory
from rightsizer.accounting.load_patterns import effective_samples, grid
from rightsizer.accounting.settings import LoadPatternSettings
from rightsizer.fleet.cache.day_frame import Floats
from rightsizer.fleet.cache.grid import COARSE_STEP
from rightsizer.fleet.columns.subject import Subject
from rightsizer.model.values import (
    BLOCK_SPAN,
    Blocks,
    IdleGap,
    Measure,
    Nanoseconds,
    Series,
    Window,
    seconds,
)

_BLOCKS_AN_HOUR: Final = COARSE_STEP // BLOCK_SPAN


class SubjectHistory(LoadHistory):
    """All cached days of a workload or a single device, shared by all spans.

    Args:
        subject: The workload or device.
        name: Name of the workload's windows, or uuid of the device.
        since: Start of what is judged: when the holder took its only device; 0 for a workload.
        taken: When the holder took the first device that it has now.
        now: End of all spans.
        settings: Settings of patterns.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - as described above.
        self,
        subject: Subject,
        name: str,
        since: Nanoseconds,
        taken: Nanoseconds,
        now: Nanoseconds,
        settings: LoadPatternSettings,
    ) -> None:
        super().__init__(None, since, now, settings)
        self.subject = subject
        self._name = name
        self._taken = taken
        self.effective_samples = cache(partial(_effective_means, subject))
        self.known_peaks = cache(partial(_known_peaks, subject))

    def window(self, start: Nanoseconds, end: Nanoseconds) -> Window:
        """Return the window of a span."""
        since = max(start, self._since)
        is_shared = self._since <= start
        return self.subject.window(self._name, since, max(since, end), is_shared=is_shared)

    def idle_gaps(self, busy_ratio: float) -> tuple[IdleGap, ...]:
        """Return times below a busy ratio; one that goes on is not older than its holding."""
        gaps = super().idle_gaps(busy_ratio)
        if not gaps or gaps[-1].has_ended or gaps[-1].start >= self._taken:
            return gaps
        length = min(gaps[-1].seconds, seconds(self._end - self._taken))
        return (*gaps[:-1], replace(gaps[-1], seconds=length, start=self._taken))

    def blocks(self) -> Blocks:
        """Return all blocks."""
        return self.subject.blocks(self._since, self._end)


def _effective_means(subject: Subject, blocks: Blocks, measure: Measure) -> float:
    series = blocks.series(measure)
    return _independent(subject, series, series.means, _means_of_parts)


def _known_peaks(
    subject: Subject, blocks: Blocks, measure: Measure
) -> tuple[Sequence[float], float]:
    """Return peaks, with an upper bound of their number where hours stand for blocks."""
    series = blocks.series(measure)
    effective = _independent(subject, series, series.peaks, np.maximum.reduceat)
    return series.peaks, effective


def _means_of_parts(values: Floats, starts: Floats) -> Floats:
    return np.asarray(np.add.reduceat(values, starts) / np.diff(starts, append=len(values)))


def _independent(
    subject: Subject,
    series: Series,
    values: Sequence[float],
    reduced: Callable[[Floats, Floats], Floats],
) -> float:
    """Count hours where an hour stands for twelve blocks."""
    numbers = series.numbers
    if not numbers or numbers[0] * BLOCK_SPAN >= subject.fine_since:
        return effective_samples(grid(series, values))
    whole = isinstance(numbers, range)
    hours = np.arange(numbers[0], numbers[-1] + 1) if whole else np.array(numbers)
    hours //= _BLOCKS_AN_HOUR
    starts = np.flatnonzero(np.diff(hours, prepend=-1))
    by_hour = np.full(hours[-1] - hours[0] + 1, None)
    by_hour[hours[starts] - hours[0]] = reduced(np.asarray(values), starts).tolist()
    return effective_samples(by_hour.tolist())
