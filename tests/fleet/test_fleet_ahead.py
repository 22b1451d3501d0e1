"""What is wanted in parts is asked for once, and comes out as if each part were asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.fleet.fetch import PrefetchingStore
from rightsizer.fleet.source import SampledSeries, StoreUse

STEP = 3600
PARTS = ((STEP, 7 * STEP), (8 * STEP, 14 * STEP))
"""First and last sample of each."""
SERIES = st.lists(st.sets(st.integers(1, 14), min_size=1), max_size=4)


@dataclass
class Kept:
    """A store that has samples at some times, and notes what it is asked."""

    places: Sequence[set[int]] = ()
    asked: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def use(self) -> StoreUse:
        """Its questions alone."""
        return StoreUse(queries=len(self.asked))

    def range(self, promql: str, start: int, end: int, step: int) -> Sequence[SampledSeries]:
        """Series whose values are their times in hours."""
        self.asked.append((promql, start, end))
        found = []
        for number, places in enumerate(self.places):
            times = [at * step for at in sorted(places) if start <= at * step <= end]
            if times:
                values = np.array(times) / STEP
                found.append(SampledSeries({"n": str(number)}, np.array(times), values))
        return found

    def instant(self, promql: str, time: int) -> Sequence[SampledSeries]:
        """Nothing, noted."""
        self.asked.append((promql, time, time))
        return ()


@given(SERIES)
def test_parts_are_what_they_would_be_one_by_one(places: list[set[int]]) -> None:
    """Whatever is missing of a series, for one question in place of two."""
    kept = Kept(places)
    ahead = PrefetchingStore(kept, PARTS[-1][1])
    found = [
        [
            (each.labels, list(each.times), list(each.values))
            for each in ahead.range("x", *part, STEP)
        ]
        for part in PARTS
    ]
    assert kept.asked == [("x", STEP, 14 * STEP)]
    assert ahead.use.queries == 1
    assert found == [
        [
            (each.labels, list(each.times), list(each.values))
            for each in Kept(places).range("x", *part, STEP)
        ]
        for part in PARTS
    ]


def test_another_question_is_asked_for_what_is_left() -> None:
    """A later part may be about other devices, and by other steps; moments are always asked."""
    kept = Kept()
    ahead = PrefetchingStore(kept, PARTS[-1][1])
    ahead.range("x", *PARTS[0], STEP)
    ahead.range("y", *PARTS[1], STEP)
    ahead.range("x", PARTS[0][1], PARTS[0][1], 7 * STEP)
    ahead.instant("x", STEP)
    ahead.instant("x", STEP)
    assert kept.asked == [
        ("x", STEP, 14 * STEP),
        ("y", 8 * STEP, 14 * STEP),
        ("x", 7 * STEP, 14 * STEP),
        ("x", STEP, STEP),
        ("x", STEP, STEP),
    ]
