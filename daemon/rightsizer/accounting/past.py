"""What is known of a case beyond its windows, read from what was remembered when it is asked."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from operator import gt
from typing import Final

from rightsizer.accounting.reader import Reader
from rightsizer.accounting.recollection import Recollection
from rightsizer.accounting.sample_size import effective_samples
from rightsizer.accounting.shape import ShapeSettings, grid, shape_of
from rightsizer.accounting.trend import TrendSettings, daily_means, daily_peaks, trend_of
from rightsizer.domain.block import Blocks, Measure, Series
from rightsizer.domain.pattern import Exceedance, Shape, Trend
from rightsizer.domain.units import Nanoseconds
from rightsizer.domain.window import Window

__all__ = ["PastSettings", "RememberedLoad", "RememberedPast"]

_HELD: Final = frozenset({Measure.MEMORY, Measure.MEMORY_BYTES})
"""What is asked for by its peaks: memory that is short once is short."""


@dataclass(frozen=True, slots=True)
class PastSettings:
    """How a load's past is read."""

    shape: ShapeSettings = field(default_factory=ShapeSettings)
    trend: TrendSettings = field(default_factory=TrendSettings)


class RememberedLoad:
    """All that is remembered of a workload, or of an only device; all spans share it."""

    def __init__(
        self,
        recollection: Recollection | None,
        since: Nanoseconds,
        end: Nanoseconds,
        settings: PastSettings,
        reader: Reader | None = None,
    ) -> None:
        """Nothing is read yet.

        Args:
            recollection: Of the workload, or of the only device; `None` where there is neither.
            since: From when on the holder is the one who is asked about.
            end: Up to when.
            settings: Thresholds.
            reader: Shared by whoever looks at others too.
        """
        self._recollection, self._settings = recollection, settings
        self._since, self._end, self._reader = since, end, reader or Reader()
        self._shapes: dict[Measure, Shape | None] = {}
        self._trends: dict[Measure, Trend | None] = {}

    def window(self, start: Nanoseconds, end: Nanoseconds) -> Window | None:
        """What was done over a span of time."""
        if self._recollection is None:
            return None
        return self._recollection.window(max(start, self._since), end, self._reader)

    def shape(self, measure: Measure) -> Shape | None:
        """How it repeats itself."""
        if measure not in self._shapes:
            self._shapes[measure] = shape_of(self._all(measure), self._settings.shape)
        return self._shapes[measure]

    def trend(self, measure: Measure) -> Trend | None:
        """Where it is heading: by the peaks of its days for memory, by their means otherwise."""
        if measure not in self._trends:
            settings = self._settings.trend
            days = daily_peaks if measure in _HELD else daily_means
            self._trends[measure] = trend_of(days(self._all(measure), settings), settings)
        return self._trends[measure]

    def blocks(self) -> Blocks:
        """All of them."""
        if self._recollection is None:
            return Blocks()
        return self._reader.month(self._recollection.remembered, self._since, self._end)

    def _all(self, measure: Measure) -> Series:
        return self.blocks().series(measure)


class RememberedPast:
    """A `Past` over one span of what was remembered at one moment."""

    def __init__(self, load: RememberedLoad, start: Nanoseconds, end: Nanoseconds) -> None:
        """Nothing is read yet.

        Args:
            load: What all spans share.
            start: Where the case's span begins.
            end: Where it ends.
        """
        self._load, self._start, self._end = load, start, end
        self._peaks: dict[tuple[Blocks, Measure], tuple[Sequence[float], float]] = {}
        """Those that are known, and how many independent ones they are worth."""
        self._samples: dict[tuple[Blocks, Measure], float] = {}

    @cached_property
    def window(self) -> Window | None:
        """What the workload did over all its devices, over the case's span."""
        return self._load.window(self._start, self._end)

    def blocks(self) -> Blocks:
        """What the workload did over all its devices, over all that is remembered."""
        return self._load.blocks()

    def shape(self, measure: Measure) -> Shape | None:
        """How it repeats itself, over all that is remembered."""
        return self._load.shape(measure)

    def trend(self, measure: Measure) -> Trend | None:
        """Where it is heading: by the peaks of its days for memory, by their means otherwise."""
        return self._load.trend(measure)

    def effective_samples(self, blocks: Blocks, measure: Measure) -> float:
        """How many independent means of five minutes some blocks are worth."""
        key = (blocks, measure)
        if key not in self._samples:
            series = blocks.series(measure)
            self._samples[key] = effective_samples(grid(series, series.means))
        return self._samples[key]

    def exceedance(self, blocks: Blocks, measure: Measure, capacity: float) -> Exceedance | None:
        """In how many of some blocks the peak was beyond a capacity; `None` without any."""
        known, effective = self._known_peaks(blocks, measure)
        if not known:
            return None
        return Exceedance(
            share=sum(map(gt, known, repeat(capacity))) / len(known),
            blocks=len(known),
            effective_blocks=effective,
        )

    def _known_peaks(self, blocks: Blocks, measure: Measure) -> tuple[Sequence[float], float]:
        """Worked out once, for one option after the other asks for another capacity."""
        key = (blocks, measure)
        if key not in self._peaks:
            series = blocks.series(measure)
            effective = effective_samples(grid(series, series.peaks)) if series.peaks else 0.0
            # An array, for there are many: a float of its own for each would take four times that.
            self._peaks[key] = (array("d", series.peaks), effective)
        return self._peaks[key]
