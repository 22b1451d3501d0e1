"""Where a workload runs: a whole board, or a MIG slice of one."""

import re
from dataclasses import dataclass
from typing import Final

from rightsizer.catalogue.board import Board, MigProfile
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.catalogue.precision import Precision
from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.memory_settings import MemorySettings
from rightsizer.sizing.overhead import usable_bytes

__all__ = ["SLICE_GAIN", "Place", "find_place"]

SLICE_GAIN: Final = 1.05
"""A slice whose neighbors idle has the power of the whole board to itself and is that much faster
than its part of the SMs. Source: MLPerf v1.1 on slices of an A30, Offline, one slice alone."""

_SLICE: Final = re.compile(
    r"(?P<board>.+?)(?:\s*:\s*|\s+)(?:MIG[\s-]+)?(?P<profile>\d+[cg]\.[\w.+-]+)", re.IGNORECASE
)
"""Also as NVML names a slice: `NVIDIA A100-SXM4-80GB MIG 1g.10gb`."""
_AFTER_COLON: Final = re.compile(r"(?P<board>.+?)\s*:\s*(?P<profile>[^:]*)")


@dataclass(frozen=True, slots=True)
class Place:
    """A board or a slice, with what large kernels reach on it."""

    board: Board
    slice: MigProfile | None = None

    @property
    def name(self) -> str:
        """As a request names it: `H100-SXM5-80GB`, `H100-SXM5-80GB:1g.10gb`."""
        return self.board.key if self.slice is None else f"{self.board.key}:{self.slice.name}"

    @property
    def sm_count(self) -> float:
        """Streaming multiprocessors."""
        return self.board.sm_count * self._sm_share

    @property
    def memory_bytes(self) -> float:
        """What the driver reports of it."""
        if self.slice is None:
            return self.board.memory_bytes
        if self.slice.memory_bytes is not None:
            return self.slice.memory_bytes
        return self.board.memory_bytes * self.slice.memory_share

    @property
    def usable_bytes(self) -> float:
        """What of it processes can have; what a slice reports is that already."""
        if self.slice is not None:
            return self.memory_bytes
        return usable_bytes(self.memory_bytes, MemorySettings())

    @property
    def achieved_bytes_per_second(self) -> float:
        """Memory bandwidth."""
        board = self.board
        whole = board.memory_bandwidth_bytes_per_second * board.achievable_bandwidth_ratio
        return whole * (1.0 if self.slice is None else _with_gain(self.slice.memory_share))

    @property
    def link_bytes_per_second(self) -> float:
        """To GPUs alike, one direction; 0 inside MIG, which has no peer-to-peer traffic."""
        return 0.0 if self.slice is not None else self.board.link_bytes_per_second

    @property
    def clock_ratio(self) -> float:
        """What its power limit leaves of the clock under full load; 1 where that was measured."""
        return self.board.efficiency.power_cap_ratio

    @property
    def memory_class(self) -> str:
        """`HBM` or `GDDR`: kernels reach differing parts of what either promises."""
        return "HBM" if self.board.memory_type.upper().startswith("HBM") else "GDDR"

    def achieved(self, precision: Precision) -> float | None:
        """Operations per second of large matrix products; `None` where it has no such format."""
        whole = self.board.achieved(precision)
        return None if whole is None else whole * _with_gain(self._sm_share)

    def peak(self, precision: Precision) -> float | None:
        """The same as the datasheet has it."""
        whole = self.board.peak(precision)
        return None if whole is None else whole * self._sm_share

    @property
    def peak_bytes_per_second(self) -> float:
        """Memory bandwidth as the datasheet has it."""
        share = 1.0 if self.slice is None else self.slice.memory_share
        return self.board.memory_bandwidth_bytes_per_second * share

    @property
    def _sm_share(self) -> float:
        if self.slice is None:
            return 1.0
        if self.slice.sm_count is not None:
            return self.slice.sm_count / self.board.sm_count
        return self.slice.compute_share


def find_place(catalogue: Catalogue, name: str) -> Place:
    """The place that a request names: a board by key or NVML name, and `:profile` for a slice.

    Raises:
        UsageError: there is no such board; the nearest are named.
        RequirementError: the board has no such slice; those that it has are named.
    """
    named = _SLICE.fullmatch(name.strip())
    if named is None and ":" in name:
        named = _AFTER_COLON.fullmatch(name.strip())
    if named is None:
        return Place(catalogue.get(name))
    board, asked = catalogue.get(named["board"]), named["profile"]
    for profile in board.mig_profiles:
        if profile.name.lower() == asked.lower():
            return Place(board, profile)
    known = ", ".join(profile.name for profile in board.mig_profiles)
    remedy = f"it has {known}" if known else "it cannot be cut; name the board alone"
    raise RequirementError(f"'{name}': {board.key} has no MIG profile '{asked}'; {remedy}")


def _with_gain(share: float) -> float:
    return min(1.0, share * SLICE_GAIN) if share < 1.0 else share
