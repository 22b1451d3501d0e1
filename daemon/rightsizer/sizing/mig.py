"""MIG slices: capacity and rate relative to the GPU, slices as boards, and fitting slices."""

from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.board import Board, MigProfile
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.workload_family import USUAL_COMPUTE_SHARE

_ALONE: Final = 1.05
"""Relative to its share of SMs, since caches and schedulers serve fewer SMs."""
_ALL_BUSY: Final = 0.955
"""The same while all slices are busy; a whole GPU is 1."""
_ALONE_IN_TIME: Final = 1.0
_ALL_BUSY_IN_TIME: Final = 0.84
"""The same two for serving with a latency bound, which limits a slice's batch size.

All four: medians of MLPerf inference v1.1 and v2.0 on slices of an A30, Offline and Server; derived
from MLCommons results, not verified by MLCommons."""
_NO_LOAD: Final = 0.5
_FULL_LOAD: Final = 0.85
"""Fractions of time in matrix products at which the whole board keeps its clock, and at which the
clock falls to the level of its power limit; large batches of encoders are the maximum."""
_ERROR_FACTOR: Final = 1.2
_ERROR_FACTOR_IN_TIME: Final = 1.45
"""Error factors that contain 90% of these rows."""
_MARK: Final = ":"
"""Between a board's key and the slice's name; no key in the catalogue contains it."""


class SliceCapacity(NamedTuple):
    """Throughput of kernels on a slice, as fractions of that on the whole GPU."""

    compute: float
    memory_bandwidth: float


def slice_capacity(
    board: Board,
    profile: MigProfile,
    matrix_ratio: float,
    neighbors_busy_ratio: float = 0.0,
    *,
    is_latency_bound: bool = False,
) -> SliceCapacity:
    """Capacity of a slice as fractions of its GPU, including the gain while neighbors are idle.

    `matrix_ratio`: fraction of time that a workload spends in matrix products;
    `neighbors_busy_ratio`: fraction of the other slices that are busy, 0 to 1.
    """
    shares = SliceCapacity(sm_share(board, profile), profile.memory_share)
    if profile.compute_share >= 1.0:
        return shares
    # A single busy slice stays far below the power limit that slows the whole board.
    load = (matrix_ratio - _NO_LOAD) / (_FULL_LOAD - _NO_LOAD)
    clock = float(board.efficiency.power_cap_ratio ** -min(1.0, max(0.0, load)))
    alone = _ALONE
    all_busy = _ALL_BUSY
    if is_latency_bound:
        alone = _ALONE_IN_TIME
        all_busy = _ALL_BUSY_IN_TIME
        clock = 1.0
    gain = alone * (all_busy / alone) ** neighbors_busy_ratio
    compute = gain * clock ** (1.0 - neighbors_busy_ratio) * shares.compute
    return SliceCapacity(min(1.0, compute), min(1.0, gain * shares.memory_bandwidth))


def slice_rate(
    board: Board,
    profile: MigProfile,
    matrix_ratio: float = USUAL_COMPUTE_SHARE,
    neighbors_busy_ratio: float = 0.0,
    *,
    is_latency_bound: bool = False,
) -> EstimateInterval:
    """Throughput of one slice relative to the whole GPU; arguments as in `slice_capacity`."""
    asked = board, profile, matrix_ratio, neighbors_busy_ratio
    reached = slice_capacity(*asked, is_latency_bound=is_latency_bound).compute
    factor = _ERROR_FACTOR_IN_TIME if is_latency_bound else _ERROR_FACTOR
    return EstimateInterval.around(reached, factor)


def sm_share(board: Board, profile: MigProfile) -> float:
    """Fraction of the SMs of the undivided GPU."""
    count = profile.sm_count
    return profile.compute_share if count is None else count / board.sm_count


def slice_board(board: Board, profile: MigProfile) -> Board:
    """Convert a slice to a board, with its capacity while its neighbors are busy.

    Compute is proportional to its share of SMs, memory and bandwidth to its share of memory slices.
    MIG has no NVLink, and a process can use only one slice.
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
        peak_per_second={
            number_format: peak * compute for number_format, peak in board.peak_per_second.items()
        },
        mig_profiles=(),
    )


def is_slice(key: str) -> bool:
    """Whether a board's key denotes a slice of a board."""
    return _MARK in key


class SliceNeed(Struct, frozen=True):
    """Needs of a workload as fractions of a whole board, including margins, 0 to 1."""

    compute_ratio: float
    memory_ratio: float
    memory_bandwidth_ratio: float
    uses_nvlink: bool = False


def fitting_slices(board: Board, need: SliceNeed) -> tuple[MigProfile, ...]:
    """Slices that meet a need, smallest first.

    Compute is proportional to a slice's share of SMs, memory and bandwidth to its share of memory
    slices (NVIDIA's MIG user guide). MIG has no NVLink.
    """
    if need.uses_nvlink:
        return ()
    compute = need.compute_ratio
    memory = max(need.memory_ratio, need.memory_bandwidth_ratio)
    smaller = (profile for profile in board.mig_profiles if compute <= profile.compute_share < 1.0)
    fitting = (profile for profile in smaller if memory <= profile.memory_share)
    return tuple(sorted(fitting, key=lambda profile: (profile.compute_share, profile.memory_share)))
