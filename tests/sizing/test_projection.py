"""A measured profile projected to another board, a slice, another format."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rightsizer.catalogue.board import Precision
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.errors import RequirementError, UsageError
from rightsizer.sizing.mig import slice_capacity
from rightsizer.sizing.place import GpuPlace, find_place
from rightsizer.sizing.projection import project, projected_time_ratio, split_time
from rightsizer.sizing.workload_profile import ComputeFormat, UsageShares, WorkloadProfile

H100 = "H100-SXM5-80GB"
A100 = "A100-SXM4-80GB"
L40S = "L40S"
SHARE = st.floats(0.0, 1.0)


def at(name: str) -> GpuPlace:
    """A place of the packaged catalog."""
    return find_place(built_in(), name)


def profile(name: str = H100, memory_bytes: float | None = None, **shares: Any) -> WorkloadProfile:
    """A measured profile; half of the time is latency unless given."""
    usual = {"gpu_busy": 1.0, "sm_active": 0.8, "tensor_active": 0.19, "dram_active": 0.2}
    return WorkloadProfile(at(name), UsageShares(**usual | shares), memory_bytes=memory_bytes)


@st.composite
def profiles(draw: st.DrawFn) -> WorkloadProfile:
    """Any measurable profile."""
    names = ("sm_active", "tensor_active", "dram_active", "gpu_busy", "pcie_receive")
    shares = {name: draw(SHARE) for name in names}
    return profile(draw(st.sampled_from([H100, A100, L40S, "T4", "A30:1g.6gb"])), **shares)


def test_compute_scales_with_what_products_reach() -> None:
    """The factor is peak times achieved fraction, not the datasheet's peak."""
    busy = profile(tensor_active=1.0, dram_active=0.0)
    expected = (989.4e12 * 0.757) / (312e12 * 0.839)
    assert project(busy, at(A100)).time_ratio.value == pytest.approx(expected, rel=0.01)
    assert project(busy, at(A100)).bottleneck == "compute"


def test_bandwidth_scales_with_what_reads_reach() -> None:
    """If memory is the bottleneck, tensor cores do not matter."""
    reading = profile(tensor_active=0.0, dram_active=0.95)
    h100 = at(H100)
    a100 = at(A100)
    expected = h100.achieved_bytes_per_second / a100.achieved_bytes_per_second
    assert project(reading, a100).time_ratio.value == pytest.approx(expected)
    assert project(reading, a100).bottleneck == "memory_bandwidth"


def test_latency_and_host_time_stay() -> None:
    """A waiting GPU is no slower elsewhere."""
    waiting = project(profile(tensor_active=0.0, dram_active=0.0), at("L4"))
    assert waiting.time_ratio.value == pytest.approx(1.0)
    assert waiting.bottleneck == "latency"
    idle = profile(tensor_active=0.0, dram_active=0.0, sm_active=0.0, gpu_busy=0.0)
    assert project(idle, at("L4")).bottleneck == "host"
    assert project(idle, at("L4")).time_ratio.high == 1.0


def test_shares_are_of_the_whole_window() -> None:
    """Half at full speed scales, and the other half stays."""
    full = project(profile(tensor_active=0.8, dram_active=0.0), at(A100)).time_ratio.value
    half = profile(tensor_active=0.4, dram_active=0.0, gpu_busy=0.5, sm_active=0.4)
    assert project(half, at(A100)).time_ratio.value == pytest.approx(0.5 + full / 2)


def test_throttled_clock_means_less_work() -> None:
    """Pipes count cycles: at half the clock they did half of the work."""
    slow, fast = (
        project(profile(tensor_active=0.3, dram_active=0.0, sm_clock_ratio=clock), at(A100))
        for clock in (0.5, 1.0)
    )
    assert slow.time_ratio.value - 1.0 == pytest.approx((fast.time_ratio.value - 1.0) / 2)


def test_copies_scale_with_the_link() -> None:
    """Their time is part of the gaps between kernels."""
    copying = profile(tensor_active=0.0, dram_active=0.0, pcie_receive=0.4)
    assert project(copying, at(L40S)).time_ratio.value == pytest.approx(0.6 + 0.4 * 2, rel=0.01)
    overlapped = profile(tensor_active=1.0, dram_active=0.0, pcie_receive=0.9)
    bound = project(overlapped, at("B200"))
    assert bound.time_ratio.value >= 0.45
    assert project(overlapped, at("P100-PCIE-16GB")).bottleneck == "compute"


def test_traffic_between_gpus_goes_over_pcie_without_nvlink() -> None:
    """Inside MIG it is impossible."""
    talking = profile(tensor_active=0.0, dram_active=0.0, nvlink_receive=0.5)
    assert project(talking, at(L40S)).bottleneck == "nvlink"
    assert project(talking, at(L40S)).shares.nvlink_receive is None
    assert project(talking, at(f"{H100}:3g.40gb")).fits is False


def test_format_counts_on_either_side() -> None:
    """fp8 on an H100 is bf16 on an A100; reading weights may take twice as long."""
    eight = replace(profile(), precision=ComputeFormat.FP8)
    plain = project(profile(), at(A100))
    found = project(eight, at(A100))
    assert found.precision == "bf16"
    assert found.time_ratio.value > plain.time_ratio.value
    wider = project(eight, at(A100), ComputeFormat.BF16)
    assert wider.time_ratio.high > found.time_ratio.high
    with pytest.raises(RequirementError, match="A100-SXM4-80GB does not compute in fp8"):
        project(eight, at(A100), ComputeFormat.FP8)
    with pytest.raises(RequirementError, match=r"precision\.from: A100-SXM4-80GB"):
        replace(profile(A100), precision=ComputeFormat.FP8).peak_precision()


def test_slice_loses_less_than_its_share_where_little_is_used() -> None:
    """Latency stays; the bottleneck scales with the slice."""
    light = project(profile(tensor_active=0.05, dram_active=0.05), at(f"{H100}:1g.10gb"))
    full = project(profile(tensor_active=1.0, dram_active=0.0), at(f"{H100}:1g.10gb"))
    assert light.time_ratio.value < 3.0
    assert full.time_ratio.value == pytest.approx(132 / 16 / 1.05)


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.sampled_from(["1g.6gb", "2g.12gb"]))
def test_a_slice_does_what_is_told_of_slices(compute: float, rest: float, name: str) -> None:
    """Both use one model: an A30's clock falls under large products, a lone slice's does not."""
    board = at("A30").board
    bandwidth = (1.0 - compute) * rest
    eta = (board.achieved(Precision.BF16) or 0.0) / (board.peak(Precision.BF16) or 1.0)
    measured = profile(
        "A30",
        tensor_active=compute * eta,
        dram_active=bandwidth * board.achievable_bandwidth_ratio,
        sm_clock_ratio=1.0,
    )
    cut = next(mig_profile for mig_profile in board.mig_profiles if mig_profile.name == name)
    found = project(measured, at(f"A30:{name}")).time_ratio.value
    reached = slice_capacity(board, cut, compute)
    latency = 1.0 - compute - bandwidth
    slower = compute / reached.compute + bandwidth / reached.memory_bandwidth + latency
    assert found == pytest.approx(slower, rel=1e-6)


def test_memory_must_fit() -> None:
    """Without a value it is unknown."""
    needed = profile(memory_bytes=30e9)
    assert project(needed, at(L40S)).fits is True
    assert project(needed, at("L4")).fits is False
    assert project(profile(), at("L4")).fits is None


def test_intervals_widen_with_what_is_not_known() -> None:
    """This applies across kinds of memory, and to mostly latency or small kernels."""

    def spread(measured: WorkloadProfile, target: str) -> float:
        ratio = project(measured, at(target)).time_ratio
        return ratio.high / ratio.value

    full = profile(tensor_active=0.4, dram_active=0.4)
    assert spread(full, A100) == pytest.approx(1.25)
    assert spread(full, L40S) == pytest.approx(1.35)
    assert spread(profile(tensor_active=0.1, dram_active=0.1), A100) == pytest.approx(1.25**1.5)
    small = profile(tensor_active=0.2, dram_active=0.25, sm_active=0.25)
    assert spread(small, A100) == pytest.approx(1.25**1.5)


def test_neighbors_may_slow_a_slice_down() -> None:
    """They never make it faster."""
    ratio = project(profile(tensor_active=0.4, dram_active=0.4), at(f"{H100}:1g.10gb")).time_ratio
    assert ratio.value / ratio.low == pytest.approx(1.25)
    assert ratio.high / ratio.value == pytest.approx(1.307, abs=0.001)


@pytest.mark.parametrize("missing", ["sm_active", "tensor_active", "dram_active"])
def test_utilization_alone_is_refused(missing: str) -> None:
    """NVML's utilization does not allow a projection."""
    with pytest.raises(RequirementError, match=f"{missing} nothing can be said.*GPM"):
        profile(**{missing: None})


def test_places_that_do_not_exist_are_named() -> None:
    """The error lists existing ones."""
    with pytest.raises(RequirementError, match=r"no MIG profile '9g'; it has 1g\.6gb"):
        at("A30:9g")
    with pytest.raises(RequirementError, match="it cannot be cut"):
        at("L4:1g.6gb")
    with pytest.raises(UsageError, match="not in the catalogue"):
        at("L40X:1g.6gb")
    with pytest.raises(RequirementError, match="has no NVLink"):
        profile(L40S, nvlink_receive=0.1)
    for name in ("NVIDIA H100 80GB HBM3:MIG 1g.10gb", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"):
        assert at(name).name == f"{H100}:1g.10gb"


@given(profiles())
def test_the_same_place_changes_nothing(measured: WorkloadProfile) -> None:
    """The time is equal up to rounding, and certain."""
    found = project(measured, measured.place)
    assert found.time_ratio.value == pytest.approx(1.0)
    assert found.time_ratio.low == pytest.approx(1.0)
    assert found.time_ratio.high == pytest.approx(1.0)


@given(profiles(), st.sampled_from([H100, A100, L40S, "B200", "L4"]))
def test_parts_and_shares_stay_within_bounds(measured: WorkloadProfile, target: str) -> None:
    """The parts sum to the time; shares are from 0 to 1; the interval contains its value."""
    assert split_time(measured).total == pytest.approx(1.0)
    found = project(measured, at(target))
    ratio = found.time_ratio
    shares = found.shares
    assert 0.0 <= ratio.low <= ratio.value <= ratio.high
    assert projected_time_ratio(measured, at(target)) == ratio.value
    for share in (shares.sm_active, shares.tensor_active, shares.dram_active, shares.gpu_busy):
        assert share is not None
        assert -1e-9 <= share <= 1.0 + 1e-9


@given(profiles())
def test_a_better_place_is_never_slower(measured: WorkloadProfile) -> None:
    """Covers larger slices, and the H200 against the H100."""
    times = [
        project(measured, at(f"{H100}:{each}")).time_ratio.value
        for each in ("1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb")
    ]
    assert times == sorted(times, reverse=True)


@given(st.floats(0.0, 0.7), st.floats(0.0, 0.6), st.sampled_from([A100, "H200-SXM-141GB", "T4"]))
def test_there_and_back_is_where_it_was(tensor: float, dram: float, target: str) -> None:
    """This holds as long as the measurement does not exceed the achievable rate."""
    first = profile(tensor_active=tensor * 0.5, dram_active=dram * 0.5, sm_clock_ratio=1.0)
    there = project(first, at(target))
    back = project(replace(first, place=at(target), shares=there.shares), first.place)
    assert there.time_ratio.value * back.time_ratio.value == pytest.approx(1.0, rel=1e-6)
