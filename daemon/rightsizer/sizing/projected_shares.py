"""What would be measured of a projected workload."""

from typing import Final

from rightsizer.sizing.capacity_ratios import CapacityRatios
from rightsizer.sizing.place import Place
from rightsizer.sizing.profile import Profile, Shares
from rightsizer.sizing.time_shares import TimeShares, busy_share

__all__ = ["projected_shares"]

_FILLED_RATIO: Final = 0.5
"""Kernels that occupy less of the SMs are too small for any GPU, and occupy as many SMs elsewhere.
Source: the rule of thumb for DCGM's field 1002; checked by no measurement of ours."""


def projected_shares(
    profile: Profile, target: Place, after: TimeShares, ratio: float, peaks: CapacityRatios
) -> Shares:
    """The shares on the target: the same operations and bytes, over the time that they take there.

    What was not measured stays unknown.

    Args:
        profile: What was measured.
        target: Where it would run.
        after: Where its time would go there.
        ratio: The time that it takes there, of that of the window.
        peaks: What shares are measured against, source over target.
    """
    shares = profile.shares
    # Without a clock, pipe activity is taken to count the cycles of a GPU at its power limit.
    is_timed = shares.sm_clock_ratio is not None
    clock = 1.0 if is_timed else profile.place.clock_ratio / target.clock_ratio
    busy = _busy(profile, after, ratio)
    return Shares(
        sm_active=_sm_active(profile, target, busy),
        tensor_active=_moved(shares.tensor_active, peaks.compute * clock, ratio),
        dram_active=_moved(shares.dram_active, peaks.memory_bandwidth, ratio),
        gpu_busy=None if shares.gpu_busy is None and profile.profiled is None else busy,
        pcie_receive=_moved(shares.pcie_receive, peaks.pcie, ratio),
        pcie_transmit=_moved(shares.pcie_transmit, peaks.pcie, ratio),
        nvlink_receive=_nvlink(shares.nvlink_receive, target, peaks, ratio),
        nvlink_transmit=_nvlink(shares.nvlink_transmit, target, peaks, ratio),
        sm_clock_ratio=shares.sm_clock_ratio,
        fp32_active=_moved(shares.fp32_active, peaks.vector, ratio),
    )


def _busy(profile: Profile, after: TimeShares, ratio: float) -> float:
    """With a kernel: what waits without one, as before, is not in it."""
    without = min(1.0 - busy_share(profile), ratio)
    return 1.0 - without / ratio if ratio > 0.0 else after.busy


def _moved(share: float | None, capacity: float, ratio: float) -> float | None:
    if share is None:
        return None
    return min(1.0, share * capacity / ratio) if ratio > 0.0 else 0.0


def _nvlink(
    share: float | None, target: Place, peaks: CapacityRatios, ratio: float
) -> float | None:
    return _moved(share, peaks.nvlink, ratio) if target.link_bytes_per_second else None


def _sm_active(profile: Profile, target: Place, busy: float) -> float | None:
    measured, before = profile.shares.sm_active, busy_share(profile)
    if measured is None:
        return None
    filled = measured / before if before > 0.0 else 0.0
    fewer = profile.place.sm_count / target.sm_count
    scale = fewer if filled < _FILLED_RATIO else max(1.0, fewer)
    return min(busy, filled * scale * busy)
