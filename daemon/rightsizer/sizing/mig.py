"""How fast a MIG slice is beside the whole GPU."""

from dataclasses import dataclass
from typing import Final

from rightsizer.catalogue.board import Board, MigProfile
from rightsizer.sizing.estimate import Interval

__all__ = ["BusyShares", "slice_rate"]

_ALONE: Final = 1.07
"""Of its part of the SMs: the power and the clocks of the whole board are its own."""
_ALL_BUSY: Final = 0.955
"""The same while every slice works; a whole GPU is 1."""
_ALONE_IN_TIME: Final = 1.0
_ALL_BUSY_IN_TIME: Final = 0.84
"""The same two of serving under a latency bound, which small batches bring a slice up against.

All four: medians of MLPerf inference v1.1 and v2.0 on slices of an A30, Offline and Server; derived
from MLCommons results, not verified by MLCommons."""
_ERROR_FACTOR: Final = 1.2
_ERROR_FACTOR_IN_TIME: Final = 1.4
"""What 90 % of these rows are within."""


@dataclass(frozen=True, slots=True)
class BusyShares:
    """What a workload uses of the whole GPU, as parts of what is achievable there."""

    compute_ratio: float = 1.0
    bandwidth_ratio: float = 0.0

    @property
    def residual_ratio(self) -> float:
        """Latency and host: as long on any slice."""
        return max(0.0, 1.0 - self.compute_ratio - self.bandwidth_ratio)


_FULL: Final = BusyShares()


def slice_rate(
    board: Board,
    profile: MigProfile,
    shares: BusyShares = _FULL,
    neighbors_busy_ratio: float = 0.0,
    *,
    is_latency_bound: bool = False,
) -> Interval:
    """The throughput of one slice, of the whole GPU's.

    Args:
        board: The GPU that is cut.
        profile: The slice.
        shares: What the workload uses of the whole GPU; all of its compute where not given.
        neighbors_busy_ratio: The part of the other slices that works meanwhile, 0 to 1.
        is_latency_bound: Whether requests must be answered in time.
    """
    alone, all_busy = (
        (_ALONE_IN_TIME, _ALL_BUSY_IN_TIME) if is_latency_bound else (_ALONE, _ALL_BUSY)
    )
    gain = alone * (all_busy / alone) ** neighbors_busy_ratio
    if profile.compute_share >= 1.0:
        gain = 1.0
    compute = min(1.0, gain * _sm_share(board, profile))
    memory = min(1.0, gain * profile.memory_share)
    used = shares.compute_ratio / compute + shares.bandwidth_ratio / memory
    whole = max(1.0, shares.compute_ratio + shares.bandwidth_ratio)
    ratio = whole / (used + shares.residual_ratio)
    factor = _ERROR_FACTOR_IN_TIME if is_latency_bound else _ERROR_FACTOR
    return Interval.around(ratio, factor)


def _sm_share(board: Board, profile: MigProfile) -> float:
    """Of the SMs of the GPU before it was cut."""
    if profile.sm_count is None:
        return profile.compute_share
    return profile.sm_count / board.sm_count
