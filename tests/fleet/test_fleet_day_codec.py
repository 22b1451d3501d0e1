"""Tracks as bytes: encoding loses nothing significant, and invalid bytes are rejected."""

import math
import random
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cached_fleet import FIRST_DAY, day_frame, day_frames
from rightsizer.fleet.cache import day_codec
from rightsizer.fleet.cache.day_codec import pack, unpack
from rightsizer.fleet.cache.day_frame import ColumnKind, DayFrame, kind_of
from rightsizer.fleet.cache.grid import COARSE_STEP, FINE_STEP, Grid

_LOSS = {ColumnKind.MEAN: 2.0**-10, ColumnKind.PEAK: 2.0**-10}
_SECONDS_LOSS = 2.0**-15
_NOTHING = 1e-30
"""Values below it underflow the mantissa."""


def read_back(found: DayFrame) -> DayFrame:
    """Encoded and decoded again."""
    return unpack(found.grid, pack(found))


def test_the_dictionary_belongs_to_the_version() -> None:
    """Packed days depend on it: a new resource or state must not be added to it."""
    assert zlib.crc32(day_codec._DICTIONARY) == 140434214


@given(day_frames())
@settings(max_examples=12)
def test_everything_comes_back_as_exactly_as_it_counts(found: DayFrame) -> None:
    """Seconds are exact to 1/16 of an hour's, measures to a thousandth; unknown stays unknown."""
    back = read_back(found)
    assert back.columns.keys() == found.columns.keys()
    for column, values in found.columns.items():
        loss = _LOSS.get(kind_of(column), _SECONDS_LOSS)
        for value, again in zip(values, back.columns[column], strict=True):
            assert (
                math.isnan(again)
                if math.isnan(value)
                else abs(again - value) <= loss * value + _NOTHING
            )


@given(day_frames())
@settings(max_examples=12)
def test_a_peak_is_never_below_what_it_was(found: DayFrame) -> None:
    """Peaks are rounded up: sizing would lack what is rounded off."""
    back = read_back(found)
    for column, values in found.columns.items():
        if kind_of(column) is ColumnKind.PEAK:
            for value, again in zip(values, back.columns[column], strict=True):
                assert math.isnan(value) or again >= value


@given(day_frames())
@settings(max_examples=12)
def test_decoded_day_encodes_to_the_same_bytes(found: DayFrame) -> None:
    """Rounding happens once; storing a day again changes nothing."""
    data = pack(found)
    assert pack(unpack(found.grid, data)) == data


@given(day_frames())
@settings(max_examples=6)
def test_distributions_come_back(found: DayFrame) -> None:
    """Bins are exact, and weights to float precision."""
    back = read_back(found)
    assert back.demands.keys() == found.demands.keys()
    for resource, histogram in found.demands.items():
        again = dict(back.demands[resource].items())
        assert again == pytest.approx(dict(histogram.items()), rel=1e-6)


@pytest.mark.parametrize(("step", "most"), [(COARSE_STEP, 1500), (FINE_STEP, 8000)])
def test_a_day_is_small(step: int, most: int) -> None:
    """An hourly day takes at most 1.5 kB, one of five-minute steps 8 kB."""
    chance = random.Random(7)
    grid = Grid(FIRST_DAY, step)
    parts = [chance.choice([1.0, 1.0, 0.7]) for _ in range(grid.count)]
    assert len(pack(day_frame(FIRST_DAY, step, known=parts))) < most


@given(st.binary(max_size=60))
def test_invalid_track_is_refused(data: bytes) -> None:
    """Any invalid bytes raise `ValueError`."""
    with pytest.raises(ValueError, match="track"):
        unpack(Grid(FIRST_DAY, COARSE_STEP), data)


def test_a_track_of_another_grid_is_refused() -> None:
    """An hourly day is not decoded as one of five minutes."""
    data = pack(day_frame(FIRST_DAY))
    with pytest.raises(ValueError, match="track"):
        unpack(Grid(FIRST_DAY, FINE_STEP), data)
