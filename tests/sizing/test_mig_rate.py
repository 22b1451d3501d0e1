"""Throughput of MIG slices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.catalogue.board import MigProfile
from rightsizer.catalogue.catalogue import built_in
from rightsizer.sizing.mig import BusyShares, slice_rate

A30 = built_in().get("A30")
H100 = built_in().get("H100-SXM5-80GB")
PROFILES = st.sampled_from(H100.mig_profiles)
SHARES = st.floats(0.0, 1.0)


def profile(name: str) -> MigProfile:
    """One of the A30's."""
    return next(each for each in A30.mig_profiles if each.name == name)


def test_a_slice_alone_is_a_little_above_its_share() -> None:
    """A quarter of an A30 does .25 to .30 of it (MLPerf, Offline)."""
    rate = slice_rate(A30, profile("1g.6gb"))
    assert 0.25 < rate.value < 0.28
    assert rate.low < 0.25
    assert rate.high > 0.3


def test_four_busy_slices_stay_below_the_whole() -> None:
    """Together .93 to .97 of the GPU; under a latency bound less."""
    throughput = slice_rate(A30, profile("1g.6gb"), neighbors_busy_ratio=1.0)
    in_time = slice_rate(A30, profile("1g.6gb"), neighbors_busy_ratio=1.0, is_latency_bound=True)
    assert 0.9 < 4 * throughput.value < 1.0
    assert in_time.value < throughput.value


def test_a_job_that_waits_loses_less() -> None:
    """What is latency on the whole GPU is as long on a slice."""
    full, half = (
        slice_rate(A30, profile("1g.6gb"), shares).value
        for shares in (BusyShares(), BusyShares(0.2, 0.1))
    )
    assert half > 2 * full


@given(PROFILES, SHARES, SHARES, SHARES)
def test_busier_neighbors_never_help(
    each: MigProfile, compute: float, bandwidth: float, busy: float
) -> None:
    """And no slice outdoes the whole GPU."""
    shares = BusyShares(compute, bandwidth)
    alone = slice_rate(H100, each, shares).value
    beside = slice_rate(H100, each, shares, busy).value
    assert beside <= alone * (1 + 1e-9)
    assert 0.0 < alone <= 1.0 + 1e-9


def test_the_whole_as_a_slice_is_the_whole() -> None:
    """A profile with all of the compute has nothing to gain from neighbors."""
    whole = next(each for each in A30.mig_profiles if each.compute_share == 1.0)
    assert slice_rate(A30, whole).value == pytest.approx(1.0)
