"""Five-minute blocks: packed, and equal for any order of merging."""

from random import Random
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from readings import EPOCH
from rightsizer.model.block import BLOCK_SPAN, Blocks, Measure

RATIOS: Final = st.floats(0.0, 1.0)
MEASURES: Final = st.dictionaries(st.sampled_from(Measure), RATIOS, max_size=len(Measure))


@st.composite
def one_block(draw: st.DrawFn) -> Blocks:
    """A block of some measures, anywhere in a day."""
    means = draw(MEASURES)
    peaks = {measure: mean + draw(RATIOS) for measure, mean in means.items()}
    start = EPOCH + draw(st.integers(0, 287)) * BLOCK_SPAN
    return Blocks.of_one(start, draw(st.integers(1, 300)), means, peaks)


MANY: Final = st.lists(one_block(), max_size=12)


def block(number: int, known_seconds: float, mean: float, peak: float) -> Blocks:
    """A block of the busy share."""
    return Blocks.of_one(
        EPOCH + number * BLOCK_SPAN, known_seconds, {Measure.BUSY: mean}, {Measure.BUSY: peak}
    )


@given(MANY, st.randoms(use_true_random=False))
def test_order_of_joining_does_not_matter(blocks: list[Blocks], random: Random) -> None:
    """Pairwise or all at once, first or last: the bytes are the same."""
    whole = Blocks.joined(blocks)
    shuffled = list(blocks)
    random.shuffle(shuffled)
    gathered = Blocks()
    for each in shuffled:
        gathered = Blocks.joined([each, gathered])
    assert gathered == whole == Blocks.joined([whole])
    assert Blocks.from_columns(whole.columns()) == whole


@given(MANY)
def test_every_block_is_found_where_it_was_put(blocks: list[Blocks]) -> None:
    """Blocks are in order of time, one for each five minutes, and can be split without loss."""
    whole = Blocks.joined(blocks)
    for measure in Measure:
        starts = [each.start for each in whole.of(measure)]
        assert starts == sorted({each.start for part in blocks for each in part.of(measure)})
        assert len(whole.series(measure).peaks) == len(starts)
    middle = EPOCH + 100 * BLOCK_SPAN
    before = whole.between(0, middle)
    after = whole.between(middle, 2 * EPOCH)
    assert Blocks.joined([after, before]) == whole
    assert all(each.start < middle for each in before.of(Measure.BUSY))


@given(RATIOS, st.floats(1.0, 3e11))
def test_packing_keeps_a_thousandth_and_never_lowers_a_peak(ratio: float, memory: float) -> None:
    """Rounding never lets a workload fit that does not."""
    values = {Measure.COMPUTE: ratio, Measure.MEMORY_BYTES: memory}
    found = Blocks.of_one(EPOCH, 300.0, values, values)
    for measure, tiny in ((Measure.COMPUTE, 1e-7), (Measure.MEMORY_BYTES, 100.0)):
        (each,) = found.of(measure)
        assert each.mean == pytest.approx(values[measure], rel=1e-3, abs=tiny)
        assert each.peak >= values[measure]
        assert each.peak == pytest.approx(values[measure], rel=1e-3, abs=tiny)
    assert found.of(Measure.BUSY) == ()


def test_five_minutes_that_a_restart_divided_are_one_block() -> None:
    """Means are weighted by known time, the peak is the larger."""
    parts = Blocks.joined([block(3, 100.0, 1.0, 1.0), block(3, 200.0, 0.25, 0.5)])
    (found,) = parts.of(Measure.BUSY)
    assert found.known_seconds == 300.0
    assert (found.mean, found.peak) == (0.5, 1.0)


def test_share_of_blocks_beyond_a_capacity() -> None:
    """They are counted by peaks, each block once."""
    blocks = Blocks.joined(block(number, 300.0, 0.1, 0.2 * number) for number in range(6))
    assert sum(peak > 0.5 for peak in blocks.series(Measure.BUSY).peaks) == 3


def test_bytes_that_are_no_blocks_are_refused() -> None:
    """A damaged row is not read in part."""
    with pytest.raises(ValueError, match="cut off"):
        Blocks.from_columns(block(0, 300.0, 0.5, 0.5).data[:-1])
