"""Kernels by their counters: their limit, the cause of a shortfall, the board's potential."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiles_built import profile
from rightsizer.model.finding import Action, Finding, FindingKind, Reason
from rightsizer.model.profile import DeviceProfile, KernelCounters, KernelUse, ProfiledDevice
from rightsizer.profiler.rules import kernel_inefficient

FULL = KernelCounters(memory_ratio=0.2, theoretical_occupancy_ratio=1.0, waves=8.0)


def _kernel(
    counters: KernelCounters | None,
    compute: float | None = 0.2,
    seconds: float = 1.0,
    name: str = "stencil",
    **more: object,
) -> KernelUse:
    return KernelUse(name, 10, seconds, 0.1, 0.1, compute_ratio=compute, counters=counters, **more)


def _judged(*kernels: KernelUse) -> Finding:
    device = DeviceProfile(ProfiledDevice("0", 0), time=None, kernels=kernels)
    return kernel_inefficient.RULE.judge([profile(device)])


def test_uncoalesced_access_is_named_with_what_it_costs() -> None:
    """Unused sectors are a finding although memory is busy: it is busy with them."""
    found = _judged(_kernel(KernelCounters(memory_ratio=0.62, excess_sectors_ratio=0.75), 0.01))
    assert found.reasons == (Reason.KERNEL_INEFFICIENT,)
    assert found.action is Action.OPTIMIZE_KERNEL
    assert "75% of the sectors" in found.summary
    (option,) = found.options
    assert option.time_ratio_low == 0.25


@pytest.mark.parametrize(
    ("counters", "says"),
    [
        (KernelCounters(memory_ratio=0.2, waves=0.3), "fill 30%"),
        (
            KernelCounters(memory_ratio=0.2, stall="waiting for memory", stall_ratio=0.4),
            "its warps spend 40% of the time waiting for memory",
        ),
        (KernelCounters(memory_ratio=0.2, waves=1.5), "last of its 1.5 waves"),
        (
            KernelCounters(
                memory_ratio=0.2,
                theoretical_occupancy_ratio=0.25,
                register_blocks=2,
                shared_memory_blocks=8,
                warp_blocks=8,
            ),
            "its registers leave room for 25%",
        ),
        (
            KernelCounters(
                memory_ratio=0.2,
                theoretical_occupancy_ratio=0.25,
                register_blocks=2,
                shared_memory_blocks=2,
            ),
            "its registers and its shared memory",
        ),
        (KernelCounters(memory_ratio=0.2, active_threads=11), "11 of the 32 threads"),
        (FULL, "neither SM nor memory throughput is beyond 20%"),
    ],
)
def test_a_kernel_below_both_limits_is_told_why(counters: KernelCounters, says: str) -> None:
    """With its latency, and the cause by its counters."""
    found = _judged(_kernel(counters))
    assert found.kind is FindingKind.INEFFICIENT
    assert says in found.summary
    assert found.instructions


@pytest.mark.parametrize(
    ("compute", "counters"),
    [
        (0.89, KernelCounters(memory_ratio=0.4, theoretical_occupancy_ratio=0.2, waves=0.5)),
        (0.2, KernelCounters(memory_ratio=0.9, excess_sectors_ratio=0.0, waves=0.5)),
        (0.89, None),
    ],
)
def test_a_kernel_at_its_limit_is_left_alone(
    compute: float, counters: KernelCounters | None
) -> None:
    """Few warps or blocks are no fault of a kernel at its board's throughput."""
    found = _judged(_kernel(counters, compute))
    assert found.kind is FindingKind.OPTIMIZED
    assert "of its peak" in found.summary


def test_products_on_tensor_cores_need_few_warps() -> None:
    """They hide latency within a block: their occupancy is low by design."""
    few = KernelCounters(memory_ratio=0.5, theoretical_occupancy_ratio=0.12, register_blocks=1)
    assert "leave room" not in _judged(_kernel(few, uses_tensor_cores=True)).summary
    assert "leave room" in _judged(_kernel(few)).summary


def test_of_a_kernel_that_spills_no_remedy_spills_more() -> None:
    """Neither fewer registers a thread nor more work of each is asked for."""
    few = KernelCounters(
        memory_ratio=0.2,
        theoretical_occupancy_ratio=0.25,
        register_blocks=1,
        spill_requests=640.0,
        stall="waiting for global or local memory",
        stall_ratio=0.5,
    )
    for counters in (few, KernelCounters(memory_ratio=0.2, spill_requests=1.0)):
        found = _judged(_kernel(counters))
        (step,) = found.instructions
        assert step.title == "Keep fewer values in registers at once"
    assert "and registers spill" in _judged(_kernel(few)).summary


def test_few_blocks_are_told_beside_one_low_throughput() -> None:
    """As of raw pages with the tensor pipe and without the memory."""
    found = _judged(_kernel(KernelCounters(waves=0.3), 0.2))
    assert found.kind is FindingKind.INEFFICIENT
    assert "one was measured, and is at 20% of its peak, its blocks fill 30%" in found.summary


def test_short_kernels_do_not_count() -> None:
    """Kernels count from a tenth of the kernels' time on."""
    fine = _kernel(KernelCounters(memory_ratio=0.9), seconds=9.5, name="copy")
    assert _judged(fine, _kernel(FULL, seconds=0.5)).kind is FindingKind.OPTIMIZED
    assert _judged(fine, _kernel(FULL, seconds=1.5)).kind is FindingKind.INEFFICIENT


@pytest.mark.parametrize(
    ("compute", "counters"), [(None, None), (0.22, None), (None, KernelCounters(waves=0.1))]
)
def test_without_the_counters_that_tell_there_is_no_verdict(
    compute: float | None, counters: KernelCounters | None
) -> None:
    """Low SM throughput alone may be a kernel at the limit of memory."""
    found = _judged(_kernel(counters, compute))
    assert found.abstained is not None
    assert "ncu --set full" in found.abstained


_RATIO = st.none() | st.floats(0.0, 1.0)


@given(_RATIO, _RATIO, _RATIO, _RATIO, st.none() | st.floats(0.0, 100.0))
def test_saving_is_a_share_of_the_time(
    compute: float | None,
    memory: float | None,
    excess: float | None,
    room: float | None,
    waves: float | None,
) -> None:
    """For any measurement the gain is between 0 and 1, and any text is accepted."""
    counters = KernelCounters(
        memory_ratio=memory,
        excess_sectors_ratio=excess,
        theoretical_occupancy_ratio=room,
        waves=waves,
    )
    found = _judged(_kernel(counters, compute))
    assert found.summary
    for option in found.options:
        assert 0.0 <= (option.time_ratio_low or 0.0) <= (option.time_ratio_high or 0.0) <= 1.0
