"""MIG slices of a board that hold a measured need."""

from collections.abc import Iterable
from dataclasses import dataclass

from rightsizer.catalogue.board import Board, MigProfile

__all__ = ["Need", "fitting_slices"]


@dataclass(frozen=True, slots=True)
class Need:
    """What a workload needs of a whole board, margins included, 0 to 1."""

    compute_ratio: float
    memory_ratio: float
    memory_bandwidth_ratio: float
    uses_nvlink: bool = False


def fitting_slices(board: Board, need: Need) -> tuple[MigProfile, ...]:
    """The slices on which the need fits, smallest first.

    Compute goes by a slice's part of the SMs, memory and bandwidth by its part of the memory
    slices (docs/definitions.md, sources). There is no NVLink inside MIG.
    """
    if need.uses_nvlink:
        return ()
    fitting = (
        profile
        for profile in board.mig_profiles
        if need.compute_ratio <= profile.compute_share
        and max(need.memory_ratio, need.memory_bandwidth_ratio) <= profile.memory_share
        and profile.compute_share < 1.0
    )
    return tuple(_by_size(fitting))


def _by_size(profiles: Iterable[MigProfile]) -> list[MigProfile]:
    return sorted(profiles, key=lambda profile: (profile.compute_share, profile.memory_share))
