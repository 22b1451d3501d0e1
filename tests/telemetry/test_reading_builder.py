"""Building a reading: impossible values are omitted, with their reason."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.library import NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

SIGNAL = Signal.GPU_BUSY


@given(st.one_of(st.integers(), st.floats()))
def test_percentages_are_ratios_or_invalid(percent: float) -> None:
    """For any answer, a ratio is within 0 to 1 or missing."""
    builder = ReadingBuilder()
    builder.put_percent(SIGNAL, percent)
    reading = builder.reading("GPU-0", 0)
    if 0 <= percent <= 100:
        assert reading.get(SIGNAL) == pytest.approx(percent / 100)
    else:
        assert reading.get(SIGNAL) is None
        assert reading.why_missing(SIGNAL) is Missing.INVALID


@pytest.mark.parametrize(
    "blank",
    [2**64 - 1, 2**32 - 1, 9223372036854775794, 0x7FFFFFFFFFFFFFF0, -1, math.nan, math.inf],
)
def test_blanks_are_invalid(blank: float) -> None:
    """NVML's and DCGM's blank values are no values."""
    builder = ReadingBuilder()
    builder.put(Signal.ENERGY_JOULES, blank)
    reading = builder.reading("GPU-0", 0)
    assert reading.why_missing(Signal.ENERGY_JOULES) is Missing.INVALID
    assert not reading.values


def test_small_overshoot_is_full() -> None:
    """A measured ratio slightly above 1 becomes 1 within the caller's tolerance only."""
    builder = ReadingBuilder()
    builder.put_percent(Signal.SM_ACTIVE, 104.9, 0.05)
    builder.put_percent(Signal.DRAM_ACTIVE, 105.1, 0.05)
    assert builder.values == {Signal.SM_ACTIVE: 1.0}
    assert builder.failures[Signal.DRAM_ACTIVE].reason is Missing.INVALID


def test_first_value_stays() -> None:
    """The better source is first; a later one neither replaces nor removes its value."""
    builder = ReadingBuilder()
    builder.put_percent(SIGNAL, 90)
    builder.put_percent(SIGNAL, 10)
    builder.fail(SIGNAL, NvmlFailure(Missing.FAILED, "call", "no"))
    reading = builder.reading("GPU-0", 0)
    assert reading.values == {SIGNAL: 0.9}
    assert not reading.missing


def test_a_failed_way_says_more_than_an_absent_one() -> None:
    """Where one way is not supported and another timed out, the reason is the timeout."""
    builder = ReadingBuilder()
    builder.fail(SIGNAL, NvmlFailure(Missing.NOT_SUPPORTED, "gpm", "no"))
    builder.fail(SIGNAL, NvmlFailure(Missing.TIMED_OUT, "utilization", "late"))
    builder.fail(SIGNAL, NvmlFailure(Missing.NOT_SUPPORTED, "other", "no"))
    assert builder.reading("GPU-0", 0).why_missing(SIGNAL) is Missing.TIMED_OUT
    assert builder.trouble is not None
