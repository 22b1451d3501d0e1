"""The risk that a smaller option is sometimes too small, by five-minute blocks."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from block_cases import BLOCKS_A_DAY, busy, case_of, steady
from cases import case, window
from readings import workload
from rightsizer.advice.risk import group_risks, risks_beyond
from rightsizer.model.block import Measure
from rightsizer.model.finding import Risk
from rightsizer.model.state import Resource, State

COMPUTE = Resource.COMPUTE
MEMORY = Resource.MEMORY


def test_peaks_count_and_not_the_seconds_that_they_last() -> None:
    """A block that peaks beyond the capacity is harm, whatever its mean."""
    found = case_of([steady(0.2, compute=0.1, memory=0.1)], 7, workload(), peak_ratio=4.0)
    assert risks_beyond(found, {COMPUTE: 0.3, MEMORY: 0.5}) == {
        "compute": Risk.HIGH,
        "memory": Risk.VERY_LOW,
    }


def test_less_than_twenty_blocks_say_nothing() -> None:
    """Two hours are 24 blocks."""
    for days, risk in ((2 / 24, Risk.MEDIUM), (1.5 / 24, Risk.UNKNOWN)):
        found = case_of([steady(0.2, compute=0.1, memory=0.1)], days, workload())
        assert risks_beyond(found, {COMPUTE: 0.5})["compute"] is risk


def test_blocks_that_resemble_each_other_are_worth_less() -> None:
    """A load that changes twice a day is a handful of samples, not two thousand."""

    def halves(number: int) -> dict[Measure, float]:
        return busy(0.2, compute=0.1 if number % BLOCKS_A_DAY < BLOCKS_A_DAY // 2 else 0.3)

    for course, risk in ((halves, Risk.MEDIUM), (steady(0.2, compute=0.3), Risk.VERY_LOW)):
        found = case_of([course], 7, workload())
        assert risks_beyond(found, {COMPUTE: 0.5})["compute"] is risk


def test_busiest_device_decides_and_one_alone_unknown_is_unknown() -> None:
    """The board must suffice for each of them."""
    small = steady(0.2, compute=0.1)
    large = steady(0.2, compute=0.4)
    both = case_of([small, large], 7, workload())
    assert risks_beyond(both, {COMPUTE: 0.3})["compute"] is Risk.HIGH
    assert group_risks(both, 1)["compute"] is Risk.VERY_LOW
    half = case_of([small, steady(0.2)], 7, workload())
    assert risks_beyond(half, {COMPUTE: 0.3})["compute"] is Risk.UNKNOWN


@pytest.mark.parametrize("capacity", [1.0, 2.5])
def test_option_as_large_as_today_has_very_low_risk(capacity: float) -> None:
    """However little was seen; unmeasured links are left out."""
    found = case([window({State.PRODUCTIVE: 1.0})], workload())
    assert risks_beyond(found, {MEMORY: capacity}) == {"memory": Risk.VERY_LOW}
    assert risks_beyond(found, {Resource.NVLINK: 0.5, MEMORY: 0.5}) == {"memory": Risk.UNKNOWN}


@given(st.floats(0.05, 0.95), st.floats(0.05, 0.95))
@settings(max_examples=20)
def test_more_room_is_never_more_risk(one: float, other: float) -> None:
    """Monotone in the capacity."""
    found = case_of([lambda number: busy(0.2, compute=number % 97 / 97)], 2, workload())
    less, more = sorted((one, other))
    risks = [risks_beyond(found, {COMPUTE: each})["compute"] for each in (less, more)]
    assert risks[0].rank >= risks[1].rank
