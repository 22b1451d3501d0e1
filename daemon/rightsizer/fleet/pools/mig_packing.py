"""Workloads that only walls keep apart, in MIG slices of as few GPUs as hold them.

A GPU is full where its slices' parts of the compute or of the memory sum to a whole, or a kind of
slice is there as often as the board allows; for the slices of the boards in the catalogue that
is enough for a placement to exist.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from rightsizer.catalogue.board import Board, MigProfile
from rightsizer.sizing.slices import Need, fitting_slices

__all__ = ["SlicedGpu", "Tenant", "slice_up"]

_ROUNDING: Final = 0.01
"""The catalogue rounds shares; what is too much is so by an eighth at least."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A workload, and what it needs of a whole board."""

    key: str
    need: Need


@dataclass(frozen=True, slots=True)
class SlicedGpu:
    """One GPU cut for some workloads."""

    slices: tuple[tuple[str, str], ...]
    """Key and profile of each, the largest first."""


@dataclass(slots=True)
class _Cut:
    taken: list[tuple[str, MigProfile]] = field(default_factory=list)

    def admits(self, profile: MigProfile) -> bool:
        profiles = [each for _, each in self.taken]
        return (
            sum(each.compute_share for each in profiles) + profile.compute_share <= 1 + _ROUNDING
            and sum(each.memory_share for each in profiles) + profile.memory_share <= 1 + _ROUNDING
            and profiles.count(profile) < profile.maximum_count
        )


def slice_up(tenants: Iterable[Tenant], board: Board) -> tuple[SlicedGpu, ...]:
    """The GPUs that hold at least two of the workloads each; the others keep their own."""
    chosen = [
        (each.key, profile) for each in tenants for profile in fitting_slices(board, each.need)[:1]
    ]
    chosen.sort(key=lambda each: (-each[1].compute_share, -each[1].memory_share, each[0]))
    cuts: list[_Cut] = []
    for key, profile in chosen:
        cut = next((each for each in cuts if each.admits(profile)), None)
        if cut is None:
            cut = _Cut()
            cuts.append(cut)
        cut.taken.append((key, profile))
    return tuple(
        SlicedGpu(tuple((key, profile.name) for key, profile in cut.taken))
        for cut in cuts
        if len(cut.taken) > 1
    )
