"""A profiler's timeline replaces telemetry's assumptions, and complements its counters."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rightsizer.catalogue.board import Precision
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.errors import RequirementError
from rightsizer.sizing.place import GpuPlace, achieved_ratios, find_place
from rightsizer.sizing.projection import project, split_time
from rightsizer.sizing.workload_profile import ProfiledTime, UsageShares, WorkloadProfile

H100 = "H100-SXM5-80GB"
A100 = "A100-SXM4-80GB"
L40S = "L40S"
T4 = "T4"
PARTS = ("tensor", "plain", "unknown", "collective", "copy", "host_wait", "gap")
COUNTED = UsageShares(sm_active=0.6, tensor_active=0.3, dram_active=0.3)


def at(name: str) -> GpuPlace:
    """A place of the packaged catalog."""
    return find_place(built_in(), name)


def time(**parts: float) -> ProfiledTime:
    """Parts of a timeline, with long kernels and the rest 0."""
    return ProfiledTime(**{**dict.fromkeys(PARTS, 0.0), **parts})


def profile(
    profiled: ProfiledTime, name: str = H100, shares: UsageShares | None = None
) -> WorkloadProfile:
    """A timeline, with given counters."""
    return WorkloadProfile(at(name), shares or UsageShares(), profiled=profiled)


@st.composite
def times(draw: st.DrawFn) -> ProfiledTime:
    """Any timeline."""
    weights = draw(st.lists(st.floats(0.0, 1.0), min_size=7, max_size=7).filter(any))
    whole = sum(weights)
    parts = dict(zip(PARTS, (weight / whole for weight in weights), strict=True))
    return ProfiledTime(
        **parts,
        launch=draw(st.floats(0.0, 1.0)),
        kernel_seconds=draw(st.sampled_from([3e-6, 1e-4])),
    )


@given(times(), st.sampled_from([UsageShares(), COUNTED, replace(COUNTED, gpu_busy=0.5)]))
def test_the_parts_sum_to_the_whole_and_stay_on_the_same_gpu(
    profiled: ProfiledTime, shares: UsageShares
) -> None:
    """Nothing is lost, and an unchanged place changes nothing."""
    measured = profile(profiled, shares=shares)

    assert split_time(measured).total == pytest.approx(1.0)
    there = project(measured, at(H100)).time_ratio
    assert (there.low, there.value, there.high) == pytest.approx((1.0, 1.0, 1.0))


def test_a_time_line_that_rounds_to_busy_is_stretched_whole() -> None:
    """Rounded parts sum to slightly less than 1, which is not idle time."""
    kernels = {"plain": 0.338593064012032, "unknown": 0.38970820883080737}
    others = dict.fromkeys(("tensor", "copy", "host_wait", "gap"), 0.0)
    found = ProfiledTime(**kernels, **others, collective=0.2716987271571606).at_busy(0.6)
    assert found.busy + found.copy + found.host == pytest.approx(1.0)
    assert found.gap == pytest.approx(0.4)


@given(times(), st.sampled_from([A100, L40S, T4, "B200", "H100-SXM5-80GB:1g.10gb"]), st.data())
def test_projected_time_lies_between_the_kernel_limits(
    profiled: ProfiledTime, target: str, data: st.DataObject
) -> None:
    """Kernels scale with any resource that may bound them; the rest with its link, or not."""
    found = project(profile(profiled), at(target)).time_ratio
    before = split_time(profile(profiled))
    speeds = (
        achieved_ratios(at(H100), Precision.BF16, at(target), Precision.BF16, before.matrix_ratio)
        if at(target).peak(Precision.BF16)
        else None
    )
    if speeds is None:
        return
    small = [1.0] if profiled.are_kernels_small else []
    tensor = [speeds.compute, speeds.memory_bandwidth, *small]
    plain = [speeds.vector, speeds.memory_bandwidth, *small]
    kernels = (
        profiled.tensor * data.draw(st.sampled_from(tensor))
        + profiled.plain * data.draw(st.sampled_from(plain))
        + profiled.unknown * data.draw(st.sampled_from(tensor + plain))
    )
    links = profiled.collective * speeds.nvlink + profiled.copy * speeds.pcie
    truth = kernels + links + profiled.host

    assert found.low <= found.value <= found.high
    assert found.low <= truth * (1 + 1e-9)
    assert found.high >= truth * (1 - 1e-9)


def test_time_without_a_kernel_is_as_long_anywhere() -> None:
    """Waits, gaps and host time are measured, not assumed; their interval has no width."""
    waiting = project(profile(time(gap=0.9, host_wait=0.1)), at(T4)).time_ratio

    assert (waiting.low, waiting.value, waiting.high) == pytest.approx((1.0, 1.0, 1.0))


def test_copies_and_collectives_scale_with_their_links() -> None:
    """A collective over NVLink uses PCIe elsewhere; a copy takes twice as long there."""
    talking, copying = (
        project(profile(time(gap=0.5, **{part: 0.5})), at(L40S)) for part in ("collective", "copy")
    )

    assert talking.bottleneck == "nvlink"
    assert talking.time_ratio.value > 5.0
    assert copying.time_ratio.value == pytest.approx(0.5 + 0.5 * 2.0, rel=0.01)


def test_collectives_without_nvlink_go_over_pcie() -> None:
    """They are not free on a board without another link."""
    talking = profile(time(gap=0.5, collective=0.5), L40S)

    assert split_time(talking).pcie == 0.5
    assert project(talking, at(A100)).time_ratio.value > 0.5


def test_no_collective_works_inside_mig() -> None:
    """Slices have no peer-to-peer traffic."""
    assert project(profile(time(plain=0.9, collective=0.1)), at(f"{H100}:3g.40gb")).fits is False


def test_counters_beside_a_time_line_make_the_interval_narrower() -> None:
    """They show the kernels' bottleneck; the timeline's measurements stay."""
    line = time(tensor=0.4, plain=0.3, host_wait=0.2, gap=0.1)
    alone, counted = (
        project(profile(line, shares=shares), at(L40S)).time_ratio for shares in (None, COUNTED)
    )

    assert counted.high / counted.low < alone.high / alone.low
    assert split_time(profile(line, shares=COUNTED)).host == pytest.approx(0.3)


def test_the_busy_share_of_telemetry_stands() -> None:
    """Its window is longer, without profiler overhead: the parts are scaled to it."""
    line = time(plain=0.5, host_wait=0.25, copy=0.25)
    stretched = split_time(profile(line, shares=UsageShares(gpu_busy=0.8)))

    assert stretched.memory_bandwidth == pytest.approx(0.8)
    assert stretched.pcie == pytest.approx(0.1)


def test_kernels_behind_a_slow_host_may_be_hidden() -> None:
    """A faster GPU may only wait longer, and a slower one may only wait less."""
    line = time(plain=0.3, host_wait=0.7)

    assert project(profile(line), at("B200")).time_ratio.high >= 1.0
    assert project(profile(line), at(T4)).time_ratio.low <= 0.3 * 15 + 0.01
    assert project(profile(line), at(A100)).time_ratio.low <= 1.0


def test_one_counter_alone_is_refused() -> None:
    """Counters are only useful together."""
    with pytest.raises(RequirementError, match="give both, or leave both"):
        profile(time(plain=1.0), shares=UsageShares(tensor_active=0.5))


def test_unmeasured_counter_stays_unknown_on_another_board() -> None:
    """A counter that was not read is not 0; the busy share is the timeline's."""
    shares = project(profile(time(plain=0.5, host_wait=0.5)), at(L40S)).shares

    assert (shares.sm_active, shares.tensor_active, shares.dram_active) == (None, None, None)
    assert shares.gpu_busy is not None
    assert 0.5 < shares.gpu_busy < 1.0


def test_names_of_kernels_divide_them() -> None:
    """Unknown kernels count half and half."""
    line: dict[str, Any] = {"tensor": 0.4, "plain": 0.2, "unknown": 0.4}
    split = split_time(profile(time(**line)))

    assert split.compute == pytest.approx(0.6)
    assert split.memory_bandwidth == pytest.approx(0.4)
