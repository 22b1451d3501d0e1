"""A MIG slice as a board of its own."""

from dataclasses import replace
from typing import Final

from rightsizer.catalogue.board import Board, MigProfile
from rightsizer.sizing.mig import sm_share

__all__ = ["is_slice", "slice_board", "slice_price_ratio"]

_MARK: Final = ":"
"""Between a board's key and the slice's name; no board of the catalogue has one."""


def slice_board(board: Board, profile: MigProfile) -> Board:
    """What one slice of a board offers while its neighbors are busy.

    Compute goes by its part of the SMs, memory and bandwidth by its part of the memory slices.
    There is no NVLink inside MIG, and one process uses one slice.
    """
    compute = sm_share(board, profile)
    memory = profile.memory_bytes or board.memory_bytes * profile.memory_share
    return replace(
        board,
        key=f"{board.key}{_MARK}{profile.name}",
        sm_count=profile.sm_count or max(1, round(board.sm_count * profile.compute_share)),
        memory_bytes=memory,
        nominal_memory_bytes=None,
        memory_bandwidth_bytes_per_second=board.memory_bandwidth_bytes_per_second
        * profile.memory_share,
        power_limit_watts=board.power_limit_watts * compute,
        nvlink_generation=None,
        nvlink_bytes_per_second=0.0,
        infinity_fabric_bytes_per_second=0.0,
        linked_gpu_count=None,
        l2_bytes=None if board.l2_bytes is None else board.l2_bytes * profile.memory_share,
        peak_per_second={form: peak * compute for form, peak in board.peak_per_second.items()},
        mig_profiles=(),
    )


def is_slice(board: Board) -> bool:
    """Whether a board is a slice of another."""
    return _MARK in board.key


def slice_price_ratio(profile: MigProfile) -> float:
    """A slice's part of the price of its board, if the others find their users."""
    return 1.0 / profile.maximum_count
