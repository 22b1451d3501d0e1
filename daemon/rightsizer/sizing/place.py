"""GpuPlace: a whole board or a MIG slice, and ratios of resources between two of them."""

import math
import re
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.board import Board, MigProfile, Precision
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.model.errors import RequirementError
from rightsizer.sizing.memory_estimate import usable_bytes
from rightsizer.sizing.mig import slice_capacity, sm_share
from rightsizer.sizing.settings import MemorySettings

_SLICE: Final = re.compile(
    r"(?P<board>.+?)(?:\s*:\s*|\s+)(?:MIG[\s-]+)?(?P<profile>\d+[cg]\.[\w.+-]+)", re.IGNORECASE
)
"""Also matches NVML's name of a slice: `NVIDIA A100-SXM4-80GB MIG 1g.10gb`."""
_DEFAULTS: Final = MemorySettings()
_AFTER_COLON: Final = re.compile(r"(?P<board>.+?)\s*:\s*(?P<profile>[^:]*)")


class GpuPlace(Struct, frozen=True):
    """Board or slice, with the throughput of large kernels on it."""

    board: Board
    slice: MigProfile | None = None
    memory_settings: MemorySettings = _DEFAULTS
    """For the part of a whole board's memory that is unusable."""

    @property
    def name(self) -> str:
        """Name used in requests: `H100-SXM5-80GB`, `H100-SXM5-80GB:1g.10gb`."""
        return self.board.key if self.slice is None else f"{self.board.key}:{self.slice.name}"

    @property
    def sm_count(self) -> float:
        """Streaming multiprocessors."""
        return self.board.sm_count * self._sm_share

    @property
    def memory_bytes(self) -> float:
        """As reported by the driver."""
        if self.slice is not None and self.slice.memory_bytes is not None:
            return self.slice.memory_bytes
        return self.board.memory_bytes * self._memory_share

    @property
    def usable_bytes(self) -> float:
        """Part usable by processes; a slice reports only usable memory."""
        if self.slice is not None:
            return self.memory_bytes
        return usable_bytes(self.memory_bytes, self.memory_settings)

    @property
    def achieved_bytes_per_second(self) -> float:
        """Memory bandwidth."""
        whole = self.board.achieved_bytes_per_second
        if self.slice is None:
            return whole
        return whole * slice_capacity(self.board, self.slice, 0.0).memory_bandwidth

    @property
    def link_bytes_per_second(self) -> float:
        """To equal GPUs, one direction; 0 inside MIG, which has no peer-to-peer traffic."""
        return 0.0 if self.slice is not None else self.board.link_bytes_per_second

    @property
    def clock_ratio(self) -> float:
        """Fraction of the clock left by the power limit under full load; 1 if measured."""
        return self.board.efficiency.power_cap_ratio

    @property
    def memory_class(self) -> str:
        """`HBM` or `GDDR`, which differ in the fraction of peak bandwidth that kernels reach."""
        return "HBM" if self.board.memory_type.upper().startswith("HBM") else "GDDR"

    def achieved(self, precision: Precision, matrix_ratio: float = 0.0) -> float | None:
        """Operations per second of large matrix products, or `None` if the format is unsupported.

        `matrix_ratio`: fraction of time that a workload spends in them, which lowers the clock of a
        whole board but not of a slice.
        """
        whole = self.board.achieved(precision)
        if whole is None or self.slice is None:
            return whole
        return whole * slice_capacity(self.board, self.slice, matrix_ratio).compute

    def peak(self, precision: Precision) -> float | None:
        """Operations per second according to the datasheet."""
        whole = self.board.peak(precision)
        return None if whole is None else whole * self._sm_share

    @property
    def peak_bytes_per_second(self) -> float:
        """Memory bandwidth according to the datasheet."""
        return self.board.memory_bandwidth_bytes_per_second * self._memory_share

    @property
    def _memory_share(self) -> float:
        return 1.0 if self.slice is None else self.slice.memory_share

    @property
    def _sm_share(self) -> float:
        return 1.0 if self.slice is None else sm_share(self.board, self.slice)


def find_place(catalogue: Catalogue, name: str, settings: MemorySettings = _DEFAULTS) -> GpuPlace:
    """Find a place by name: a board by key or NVML name, with `:profile` for a slice.

    An unknown board is a `UsageError`, an unknown slice a `RequirementError`.
    """
    named = _SLICE.fullmatch(name.strip()) or _AFTER_COLON.fullmatch(name.strip())
    if named is None:
        return GpuPlace(catalogue.get(name), memory_settings=settings)
    board = catalogue.get(named["board"])
    asked = named["profile"]
    for profile in board.mig_profiles:
        if profile.name.lower() == asked.lower():
            return GpuPlace(board, profile, settings)
    slices = ", ".join(profile.name for profile in board.mig_profiles)
    remedy = f"it has {slices}" if slices else "it cannot be cut; name the board alone"
    raise RequirementError(f"'{name}': {board.key} has no MIG profile '{asked}'; {remedy}")


class CapacityRatios(Struct, frozen=True):
    """Source over target: factors on the time of the same work."""

    compute: float
    vector: float
    memory_bandwidth: float
    pcie: float
    nvlink: float
    """Traffic between GPUs uses PCIe if there is no NVLink."""


def achieved_ratios(
    source: GpuPlace, runs: Precision, target: GpuPlace, will_run: Precision, matrix_ratio: float
) -> CapacityRatios:
    """Ratios of the throughput of large kernels, for a fraction of time in matrix products."""
    compute = _over(source.achieved(runs, matrix_ratio), target.achieved(will_run, matrix_ratio))
    memory_bandwidth = source.achieved_bytes_per_second / target.achieved_bytes_per_second
    peaks = peak_ratios(source, runs, target, will_run)
    return replace(peaks, compute=compute, memory_bandwidth=memory_bandwidth)


def peak_ratios(
    source: GpuPlace, runs: Precision, target: GpuPlace, will_run: Precision
) -> CapacityRatios:
    """Ratios according to datasheets, the reference for shares."""
    pcie = target.board.pcie_bytes_per_second
    return CapacityRatios(
        compute=_over(source.peak(runs), target.peak(will_run)),
        vector=_over(source.peak(Precision.FP32), target.peak(Precision.FP32)),
        memory_bandwidth=source.peak_bytes_per_second / target.peak_bytes_per_second,
        pcie=source.board.pcie_bytes_per_second / pcie,
        nvlink=source.link_bytes_per_second / (target.link_bytes_per_second or pcie),
    )


def _over(source: float | None, target: float | None) -> float:
    """Ratio; 1 if either is unknown; a target that cannot compute is rejected earlier."""
    return 1.0 if source is None or target is None else source / max(target, math.ulp(1.0))
