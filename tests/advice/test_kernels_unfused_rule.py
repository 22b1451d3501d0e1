"""Elementwise operators and copies: when fusing is worthwhile, and its gain."""

import pytest

from profiles_built import device, kernel, profile, time_use
from rightsizer.model.finding import Action, Finding, FindingKind, Reason
from rightsizer.model.profile import KernelFamily
from rightsizer.profiler.rules import kernels_unfused

ADD = kernel("add", 900, 0.2, family=KernelFamily.ELEMENTWISE)
CAST = kernel("cast", 100, 0.1, family=KernelFamily.COPY)
GEMM = kernel("gemm", 100, 0.6, family=KernelFamily.MATRIX_PRODUCT)


def _judged(*kernels: object, busy: float = 0.9) -> Finding:
    time = time_use(kernel=busy, host=0.0)
    return kernels_unfused.RULE.judge([profile(device(kernels=kernels, time=time))])


def test_a_third_of_the_time_in_small_operators_is_worth_fusing() -> None:
    """Casts and copies count too; the gain is the part of that share that fusing removes."""
    found = _judged(GEMM, ADD, CAST)
    assert found.reasons == (Reason.MEMORY_BANDWIDTH_BOUND,)
    assert found.action is Action.FUSE_KERNELS
    assert "1,000 elementwise operators and copies 30.0% of the time" in found.summary
    (option,) = found.options
    assert (option.time_ratio_low, option.time_ratio_high) == (0.76, 0.91)


@pytest.mark.parametrize("family", [KernelFamily.FUSED, KernelFamily.ATTENTION, KernelFamily.OTHER])
def test_fused_and_unknown_kernels_are_not_counted(family: KernelFamily) -> None:
    """A compiler's kernels are the goal of the advice."""
    fused = kernel("triton_poi_fused_add", 1000, 0.3, family=family)
    assert _judged(GEMM, fused).kind is FindingKind.OPTIMIZED


def test_shares_are_of_the_span_not_of_the_kernels() -> None:
    """A GPU that is idle half of the time can gain only on the other half."""
    assert _judged(GEMM, ADD, CAST, busy=0.45).kind is FindingKind.OPTIMIZED
    assert _judged(GEMM, ADD, CAST, busy=0.75).kind is FindingKind.INEFFICIENT
