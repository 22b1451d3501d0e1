"""The table of signals, and a signal's reading in another unit."""

import pytest

from rightsizer.model.signal import CAPACITY_SIGNALS, Signal, in_unit
from rightsizer.model.units import Unit


def test_every_signal_has_a_unit_and_a_meaning() -> None:
    """The table is complete, and each signal has a description."""
    assert all(each.meaning.endswith(".") for each in Signal)
    assert all(each.bounds[0] < each.bounds[1] for each in Signal)


def test_name_tells_the_unit() -> None:
    """Signals without a unit in their name are ratios; the others carry theirs."""
    for signal in Signal:
        unit = signal.unit
        if unit in (Unit.RATIO, Unit.COUNT):
            assert not signal.endswith(("_bytes", "_watts", "_hertz", "_joules", "_celsius")), (
                signal
            )
        else:
            assert signal.endswith(f"_{unit}"), signal


def test_signal_in_its_own_unit_is_itself() -> None:
    """A ratio column of `power` is `power`."""
    assert in_unit(Signal.POWER, Unit.RATIO) is Signal.POWER
    assert in_unit(Signal.POWER_WATTS, Unit.WATTS) is Signal.POWER_WATTS


def test_ratio_read_as_a_quantity_is_the_quantity() -> None:
    """`memory_used` in bytes is `memory_used_bytes`, which the device's capacity divides."""
    assert in_unit(Signal.MEMORY_USED, Unit.BYTES) is Signal.MEMORY_USED_BYTES
    assert in_unit(Signal.PCIE_RECEIVE, Unit.BYTES_PER_SECOND) is (
        Signal.PCIE_RECEIVE_BYTES_PER_SECOND
    )
    for ratio, quantities in CAPACITY_SIGNALS.items():
        assert ratio.unit is Unit.RATIO
        assert all(signal.unit is unit for unit, signal in quantities.items())


def test_signal_in_a_unit_that_makes_no_sense_is_refused() -> None:
    """The message names the signal, the requested unit and its own."""
    with pytest.raises(ValueError, match="'gpu_busy' is not measured in watts; its unit is ratio"):
        in_unit(Signal.GPU_BUSY, Unit.WATTS)
