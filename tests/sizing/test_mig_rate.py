"""Throughput of MIG slices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.catalogue.board import MigProfile
from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.ratio_table import built_in_ratios
from rightsizer.sizing.mig import slice_rate
from rightsizer.sizing.place import GpuPlace
from rightsizer.sizing.ratio import place_ratio
from rightsizer.sizing.workload_family import ComparedWorkload, ModelKind, parse_workload

A30 = built_in().get("A30")
H100 = built_in().get("H100-SXM5-80GB")
PROFILES = st.sampled_from(H100.mig_profiles)
SHARES = st.floats(0.0, 1.0)


def profile(name: str) -> MigProfile:
    """A profile of the A30."""
    return next(mig_profile for mig_profile in A30.mig_profiles if mig_profile.name == name)


def test_a_slice_alone_is_a_little_above_its_share() -> None:
    """A quarter of an A30 reaches .25 to .30 of it (MLPerf, Offline)."""
    rate = slice_rate(A30, profile("1g.6gb"))
    assert 0.25 < rate.value < 0.29
    assert rate.low < 0.25
    assert rate.high > 0.3


def test_four_busy_slices_stay_below_the_whole() -> None:
    """Together they reach .93 to .97 of the GPU; under a latency bound less."""
    throughput = slice_rate(A30, profile("1g.6gb"), neighbors_busy_ratio=1.0)
    in_time = slice_rate(A30, profile("1g.6gb"), neighbors_busy_ratio=1.0, is_latency_bound=True)
    assert 0.9 < 4 * throughput.value < 1.0
    assert in_time.value < throughput.value


@given(PROFILES, SHARES, SHARES)
def test_busier_neighbors_never_help(each: MigProfile, matrices: float, busy: float) -> None:
    """No slice exceeds the whole GPU."""
    alone = slice_rate(H100, each, matrices).value
    beside = slice_rate(H100, each, matrices, busy).value
    assert beside <= alone * (1 + 1e-9)
    assert 0.0 < alone <= 1.0 + 1e-9


def test_the_whole_as_a_slice_is_the_whole() -> None:
    """A profile with all of the compute gains nothing from idle neighbors."""
    whole = next(
        mig_profile for mig_profile in A30.mig_profiles if mig_profile.compute_share == 1.0
    )
    assert slice_rate(A30, whole).value == pytest.approx(1.0)


def test_a_slice_gains_where_power_slows_the_whole() -> None:
    """An A30's clock falls under encoders; a slice alone keeps its own (MLPerf: 1.19 of it)."""
    encoder, recommender = (
        slice_rate(A30, profile("1g.6gb"), share).value for share in (0.85, 0.5)
    )
    assert 1.15 < 4 * encoder < 1.22
    assert 1.0 < 4 * recommender < 1.1


def test_a_board_that_keeps_its_clock_gains_alike() -> None:
    """An H100 SXM has enough power for its peak under any load."""
    each = next(one for one in H100.mig_profiles if one.name == "1g.10gb")
    rates = {slice_rate(H100, each, share).value for share in (0.85, 0.6, 0.5)}
    assert len(rates) == 1


WORKLOADS = st.sampled_from(["inference-cnn", "training-llm", "inference-llm-server"])


@given(WORKLOADS.map(parse_workload), PROFILES, PROFILES)
def test_ratios_between_slices_turn_around(
    workload: ComparedWorkload, each: MigProfile, other: MigProfile
) -> None:
    """There and back gives 1, for the interval's ends too; a slice against itself is certain."""
    table = built_in_ratios()
    there = place_ratio(workload, GpuPlace(H100, each), GpuPlace(A30, A30.mig_profiles[0]), table)
    back = place_ratio(workload, GpuPlace(A30, A30.mig_profiles[0]), GpuPlace(H100, each), table)
    assert there.value * back.value == pytest.approx(1.0)
    assert there.low * back.high == pytest.approx(1.0)
    same = place_ratio(workload, GpuPlace(H100, other), GpuPlace(H100, other), table)
    assert (same.low, same.value, same.high) == (1.0, 1.0, 1.0)


def test_a_slice_is_as_much_less_than_another_board_as_it_is_of_its_own() -> None:
    """Ratios of board to board and slice to board multiply; confidence is below either's."""
    workload = parse_workload("inference-cnn")
    table = built_in_ratios()
    boards = place_ratio(workload, GpuPlace(A30), GpuPlace(H100), table)
    small = place_ratio(workload, GpuPlace(A30, profile("1g.6gb")), GpuPlace(H100), table)
    rate = slice_rate(A30, profile("1g.6gb"), workload.compute_share)
    assert small.value == pytest.approx(boards.value / rate.value)
    assert small.high / small.value > boards.high / boards.value


def test_a_slice_loses_more_under_a_latency_bound_in_every_family() -> None:
    """MLPerf's Server is compared with Offline; confidence is lower, too."""
    table = built_in_ratios()
    place = GpuPlace(A30, profile("1g.6gb"))
    whole = GpuPlace(A30)
    for family in ModelKind:
        late, offline = (
            place_ratio(parse_workload(f"inference-{family}-{each}"), whole, place, table)
            for each in ("server", "offline")
        )
        assert late.value < offline.value
        assert late.high / late.value > offline.high / offline.value
