"""What is known of a case beyond its windows, read from kept days when it is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

from rightsizer.accounting.load_patterns import (
    daily_means,
    daily_peaks,
    effective_samples,
    grid,
    shape_of,
    trend_of,
)
from rightsizer.accounting.settings import LoadPatternSettings
from rightsizer.fleet.cache.day_frame import COARSE_STEP
from rightsizer.fleet.cache.subject_days import SubjectDays
from rightsizer.model.block import BLOCK_SPAN, Blocks, Measure, Series
from rightsizer.model.pattern import Exceedance, Shape, Trend
from rightsizer.model.units import Nanoseconds
from rightsizer.model.window import Window

_HELD: Final = frozenset({Measure.MEMORY, Measure.MEMORY_BYTES})
"""What is asked for by its peaks: memory that is short once is short."""
_EACH: Final = COARSE_STEP // BLOCK_SPAN


class SubjectHistory:
    """All that is kept of a subject, up to one moment; the cases of all spans share it."""

    def __init__(
        self,
        days: SubjectDays,
        subject: str,
        since: Nanoseconds,
        now: Nanoseconds,
        settings: LoadPatternSettings,
    ) -> None:
        """Nothing is worked out yet.

        Args:
            days: Of the workload, or of the only device.
            subject: A workload's subject, or the device's uuid.
            since: From when on the case's holder is the one who is asked about.
            now: Up to when.
            settings: Thresholds.
        """
        self.days, self.subject, self.since, self.now = days, subject, since, now
        self._settings = settings
        self._shapes: dict[Measure, Shape | None] = {}
        self._trends: dict[Measure, Trend | None] = {}
        self._effective: dict[tuple[Blocks, Measure, bool], float] = {}
        self._peaks: dict[tuple[Blocks, Measure], tuple[Sequence[float], float]] = {}

    @cached_property
    def blocks(self) -> Blocks:
        """All of them."""
        return self.days.blocks(self.since, self.now)

    def shape(self, measure: Measure) -> Shape | None:
        """How it repeats itself."""
        if measure not in self._shapes:
            self._shapes[measure] = shape_of(self.blocks.series(measure), self._settings.shape)
        return self._shapes[measure]

    def trend(self, measure: Measure) -> Trend | None:
        """Where it is heading: by the peaks of its days for memory, by their means otherwise."""
        if measure not in self._trends:
            settings = self._settings.trend
            days = daily_peaks if measure in _HELD else daily_means
            found = days(self.blocks.series(measure), settings)
            self._trends[measure] = trend_of(found, settings)
        return self._trends[measure]

    def effective_samples(self, blocks: Blocks, measure: Measure) -> float:
        """How many independent means some blocks are worth."""
        key = (blocks, measure, False)
        if key not in self._effective:
            series = blocks.series(measure)
            self._effective[key] = self._independent(series, series.means, _mean)
        return self._effective[key]

    def peaks(self, blocks: Blocks, measure: Measure) -> tuple[Sequence[float], float]:
        """Peaks of some blocks, and how many independent ones they are worth."""
        key = (blocks, measure)
        if key not in self._peaks:
            series = blocks.series(measure)
            effective = self._independent(series, series.peaks, max) if series.peaks else 0.0
            self._peaks[key] = (series.peaks, effective)
        return self._peaks[key]

    def _independent(
        self, series: Series, values: Sequence[float], one: Callable[[Sequence[float]], float]
    ) -> float:
        """Where an hour stands for twelve blocks, hours are counted."""
        fine_since = self.days.fine_since
        if not series.numbers or series.numbers[0] * BLOCK_SPAN >= fine_since:
            return effective_samples(grid(series, values))
        hours: list[float | None] = []
        first = series.numbers[0] // _EACH
        place, last = 0, len(series.numbers)
        while place < last:
            hour = series.numbers[place] // _EACH
            end = place
            while end < last and series.numbers[end] // _EACH == hour:
                end += 1
            hours.extend([None] * (hour - first - len(hours)))
            hours.append(one(values[place:end]))
            place = end
        return effective_samples(hours)


class CachedHistory:
    """A `Past` over one span, as the rules ask for it."""

    def __init__(
        self, subject: SubjectHistory, start: Nanoseconds, end: Nanoseconds, *, of_workload: bool
    ) -> None:
        """Nothing is read yet.

        Args:
            subject: What all spans share.
            start: Where the case's span begins.
            end: Where it ends.
            of_workload: Whether the subject is a workload, and no device.
        """
        self._subject, self._start, self._end = subject, start, end
        self._of_workload = of_workload

    @cached_property
    def window(self) -> Window:
        """What the workload did over all its devices, over the case's span."""
        subject = self._subject
        start = max(self._start, subject.since)
        return subject.days.window(
            subject.subject, start, max(start, self._end), of_workload=self._of_workload
        )

    def blocks(self) -> Blocks:
        """The same in blocks, over all that is remembered."""
        return self._subject.blocks

    def shape(self, measure: Measure) -> Shape | None:
        """How it repeats itself, over all that is remembered."""
        return self._subject.shape(measure)

    def trend(self, measure: Measure) -> Trend | None:
        """Where it is heading, over all that is remembered."""
        return self._subject.trend(measure)

    def effective_samples(self, blocks: Blocks, measure: Measure) -> float:
        """How many independent means of five minutes some blocks are worth."""
        return self._subject.effective_samples(blocks, measure)

    def exceedance(self, blocks: Blocks, measure: Measure, capacity: float) -> Exceedance | None:
        """In how many of some blocks the peak was beyond a capacity; `None` without any.

        An upper bound where an hour stands for its blocks.
        """
        known, effective = self._subject.peaks(blocks, measure)
        if not known:
            return None
        return Exceedance(
            share=sum(peak > capacity for peak in known) / len(known),
            blocks=len(known),
            effective_blocks=effective,
        )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
