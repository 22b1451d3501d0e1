"""SubjectHistory: what is known of a case beyond its windows, from cached days."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

from rightsizer.accounting.load_patterns import (
    effective_samples,
    grid,
    load_trend,
    shape_of,
)
from rightsizer.accounting.settings import LoadPatternSettings
from rightsizer.fleet.cache.day_frame import COARSE_STEP
from rightsizer.fleet.cache.subject_days import SubjectDays
from rightsizer.model.block import BLOCK_SPAN, Blocks, Measure, Series
from rightsizer.model.frozen import dataclass, field, replace
from rightsizer.model.pattern import Exceedance, Shape, Trend
from rightsizer.model.units import Nanoseconds
from rightsizer.model.window import Window

_Value = TypeVar("_Value")


@dataclass(frozen=True, eq=False)
class SubjectHistory:
    """A `Past` over one span; those of other spans share what is computed once."""

    days: SubjectDays
    """Of the workload, or of the only device."""
    subject: str
    """A workload's subject, or the device's uuid."""
    since: Nanoseconds
    """From when on the case's holder has the device."""
    now: Nanoseconds
    settings: LoadPatternSettings
    start: Nanoseconds = 0
    """Where the case's span begins."""
    end: Nanoseconds = 0
    _computed: dict[object, Any] = field(default_factory=dict)

    def over(self, start: Nanoseconds, end: Nanoseconds) -> SubjectHistory:
        """The same over another span."""
        return replace(self, start=start, end=end)

    @cached_property
    def window(self) -> Window:
        """What the workload did over all its devices, over the case's span."""
        start = max(self.start, self.since)
        return self.days.window(self.subject, start, max(start, self.end))

    def blocks(self) -> Blocks:
        """The same in blocks, over all that is cached."""
        return self.days.blocks(self.since, self.now)

    def shape(self, measure: Measure) -> Shape | None:
        """How it repeats itself, over all that is cached."""
        return self._once(
            ("shape", measure),
            lambda: shape_of(self.blocks().series(measure), self.settings.shape),
        )

    def trend(self, measure: Measure) -> Trend | None:
        """Where it is heading, over all that is cached."""
        return self._once(
            ("trend", measure), lambda: load_trend(self.blocks(), measure, self.settings.trend)
        )

    def effective_samples(self, blocks: Blocks, measure: Measure) -> float:
        """How many independent means of five minutes some blocks are worth."""
        series, key = blocks.series(measure), ("means", blocks, measure)
        return self._once(key, lambda: self._independent(series, series.means, _mean))

    def exceedance(self, blocks: Blocks, measure: Measure, capacity: float) -> Exceedance | None:
        """In how many of some blocks the peak was beyond a capacity; `None` without any.

        An upper bound where an hour stands for its blocks.
        """
        series, key = blocks.series(measure), ("peaks", blocks, measure)
        if not series.peaks:
            return None
        return Exceedance(
            share=sum(peak > capacity for peak in series.peaks) / len(series.peaks),
            blocks=len(series.peaks),
            effective_blocks=self._once(key, lambda: self._independent(series, series.peaks, max)),
        )

    def _once(self, key: object, compute: Callable[[], _Value]) -> _Value:
        if key not in self._computed:
            self._computed[key] = compute()
        return cast(_Value, self._computed[key])

    def _independent(
        self, series: Series, values: Sequence[float], one: Callable[[Sequence[float]], float]
    ) -> float:
        """Where an hour stands for twelve blocks, hours are counted."""
        if not series.numbers or series.numbers[0] * BLOCK_SPAN >= self.days.fine_since:
            return effective_samples(grid(series, values))
        hours = {hour: one(values[inside]) for hour, inside in series.parts(COARSE_STEP)}
        return effective_samples([*map(hours.get, range(min(hours), max(hours) + 1))])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
