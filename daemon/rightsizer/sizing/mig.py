"""MIG slices: capacity and rate beside their GPU, as boards of their own, and which hold a need."""

from typing import Final, NamedTuple

from rightsizer.catalogue.board import Board, MigProfile
from rightsizer.model.frozen import dataclass, replace
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.workload_family import USUAL_COMPUTE_SHARE

_ALONE: Final = 1.05
"""Of its part of the SMs, as caches and schedulers serve fewer of them."""
_ALL_BUSY: Final = 0.955
"""The same while every slice works; a whole GPU is 1."""
_ALONE_IN_TIME: Final = 1.0
_ALL_BUSY_IN_TIME: Final = 0.84
"""The same two of serving under a latency bound, which small batches bring a slice up against.

All four: medians of MLPerf inference v1.1 and v2.0 on slices of an A30, Offline and Server; derived
from MLCommons results, not verified by MLCommons."""
_NO_LOAD: Final = 0.5
_FULL_LOAD: Final = 0.85
"""The parts of the time in matrix products at which the whole board keeps its clock, and at which
it falls to what its power limit leaves; large batches of encoders are the most."""
_ERROR_FACTOR: Final = 1.2
_ERROR_FACTOR_IN_TIME: Final = 1.45
"""What 90% of these rows are within."""
_MARK: Final = ":"
"""Between a board's key and the slice's name; no board of the catalogue has one."""


class SliceCapacity(NamedTuple):
    """What kernels reach on a slice, of what they reach on the whole GPU."""

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
    """The part of a GPU that a slice is, and what it gains where the others idle.

    `matrix_ratio`: the part of its time that a workload is in matrix products;
    `neighbors_busy_ratio`: the part of the other slices that works meanwhile, 0 to 1.
    """
    shares = SliceCapacity(sm_share(board, profile), profile.memory_share)
    if profile.compute_share >= 1.0:
        return shares
    # A slice alone stays far below the power limit, which slows the whole board.
    load = (matrix_ratio - _NO_LOAD) / (_FULL_LOAD - _NO_LOAD)
    clock = float(board.efficiency.power_cap_ratio ** -min(1.0, max(0.0, load)))
    alone, all_busy = _ALONE, _ALL_BUSY
    if is_latency_bound:
        alone, all_busy, clock = _ALONE_IN_TIME, _ALL_BUSY_IN_TIME, 1.0
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
    """The throughput of one slice, of that of the whole GPU; arguments as of `slice_capacity`."""
    asked = board, profile, matrix_ratio, neighbors_busy_ratio
    reached = slice_capacity(*asked, is_latency_bound=is_latency_bound).compute
    factor = _ERROR_FACTOR_IN_TIME if is_latency_bound else _ERROR_FACTOR
    return EstimateInterval.around(reached, factor)


def sm_share(board: Board, profile: MigProfile) -> float:
    """Of the SMs of the GPU before it was cut."""
    count = profile.sm_count
    return profile.compute_share if count is None else count / board.sm_count


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
        peak_per_second={
            number_format: peak * compute for number_format, peak in board.peak_per_second.items()
        },
        mig_profiles=(),
    )


def is_slice(key: str) -> bool:
    """Whether a board's key is that of a slice of another."""
    return _MARK in key


@dataclass(frozen=True, slots=True)
class SliceNeed:
    """What a workload needs of a whole board, margins included, 0 to 1."""

    compute_ratio: float
    memory_ratio: float
    memory_bandwidth_ratio: float
    uses_nvlink: bool = False


def fitting_slices(board: Board, need: SliceNeed) -> tuple[MigProfile, ...]:
    """The slices on which the need fits, smallest first.

    Compute goes by a slice's part of the SMs, memory and bandwidth by its part of the memory
    slices (docs/definitions.md, sources). There is no NVLink inside MIG.
    """
    if need.uses_nvlink:
        return ()
    compute, memory = need.compute_ratio, max(need.memory_ratio, need.memory_bandwidth_ratio)
    smaller = (each for each in board.mig_profiles if compute <= each.compute_share < 1.0)
    fitting = (each for each in smaller if memory <= each.memory_share)
    return tuple(sorted(fitting, key=lambda each: (each.compute_share, each.memory_share)))
