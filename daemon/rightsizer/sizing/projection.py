"""Projection of a measured workload to another GPU, slice or format; of two on one GPU."""

import math
from enum import StrEnum
from typing import Final

from rightsizer.catalogue.board import Precision
from rightsizer.model.errors import RequirementError
from rightsizer.model.frozen import dataclass, fields
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.place import GpuPlace, achieved_ratios, peak_ratios
from rightsizer.sizing.time_shares import TimeShares, busy_share, projected_shares, split_time
from rightsizer.sizing.workload_profile import ComputeFormat, UsageShares, WorkloadProfile

_WITHIN_CLASS_FACTOR: Final = 1.25
_ACROSS_CLASSES_FACTOR: Final = 1.35
"""How far off the busy time may be in nine cases of ten. Source: this rule over 108,000 mixes of
measured bf16 kernels on 9 boards erred by x1.27 (p90), between HBM and GDDR by x1.35."""
_NEIGHBOR_FACTOR: Final = 1.16
"""What busy neighbors cost a slice at worst. Source: MLPerf v1.1 on slices of an A30 beside slices
that ran other benchmarks."""
_WIDER_EXPONENT: Final = 1.5
_MOST_LATENCY_RATIO: Final = 0.5
_LEAST_SM_ACTIVE_RATIO: Final = 0.3
"""Kernels that small, or mostly latency, are known less of; that intervals are half as wide again
is a choice, no measurement."""
_HOST_BOUND_RATIO: Final = 0.3
"""Of the time waiting for launches, beyond which kernels may be hidden behind the host: then a
faster GPU only waits longer, and a slower one less. Source: the rule `profile_launch_bound`."""
_ERROR_FACTOR: Final = 1.25
"""Of the slowdown: that of the time-share roofline within a memory class; contention in caches is
in no signal, and was not measured."""


@dataclass(frozen=True, slots=True)
class Projection:
    """A measured workload elsewhere."""

    target: GpuPlace
    precision: Precision
    """What its tensor cores would compute in there."""
    time_ratio: EstimateInterval
    """The time that the same work takes, of the time that it took; the host's part unchanged."""
    shares: UsageShares
    """What would be measured there."""
    fits: bool | None
    """`None` where the memory that it needs is not known."""
    bottleneck: str
    """What most of its time goes to: `compute`, `memory_bandwidth`, `pcie`, `nvlink`, `latency`
    (launches and small kernels) or `host` (no kernel at all)."""


def project(
    profile: WorkloadProfile, target: GpuPlace, precision: ComputeFormat | None = None
) -> Projection:
    """The profile on another place.

    The time-share roofline: the parts of the time scale with what large kernels reach of each
    resource on either place; latency and host time stay.

    `precision`: the format of the weights there; `None` for the same, or what the target computes
    in its stead.
    """
    runs, will_run = profile.peak_precision(), _target_precision(profile, target, precision)
    before, shares = split_time(profile), profile.shares
    speeds = achieved_ratios(profile.place, runs, target, will_run, before.matrix_ratio)
    after = before.moved(speeds)
    links = {"pcie": shares.pcie * speeds.pcie, "nvlink": shares.nvlink * speeds.nvlink}
    # Nothing is faster than its copies by themselves, overlapped or not.
    ratio = max(after.total, *links.values())
    is_same = target == profile.place and precision in {None, profile.precision}
    factor = 1.0 if is_same else _factor(profile, target, before)
    # Errors that do not depend on each other add in squares.
    neighbors = 1.0 if is_same or target.slice is None else _NEIGHBOR_FACTOR
    slower = math.exp(math.hypot(math.log(factor), math.log(neighbors)))
    # What may be off is the busy time, the host's is known. Weights of another width may or may
    # not be most of what is read.
    width = (precision or profile.precision).weight_bytes / profile.precision.weight_bytes
    busy, traffic = ratio - after.host, after.memory_bandwidth * (width - 1.0)
    low = min(ratio, after.host + (busy + min(0.0, traffic)) / factor)
    high = max(ratio, after.host + (busy + max(0.0, traffic)) * slower)
    if profile.profiled is not None:
        # A time line does not tell what kernels wait for, and what hides.
        time = profile.profiled.at_busy(busy_share(profile))
        if not profile.has_counters:
            least, most = time.kernel_range(speeds)
            copied = after.pcie + after.nvlink
            low = min(low, after.host + (least + copied) / factor)
            high = max(high, after.host + (most + copied) * slower)
        if time.host_wait > _HOST_BOUND_RATIO:
            hidden = max(1.0, after.total - time.host_wait)
            low, high = min(low, hidden), max(high, hidden, min(1.0, time.launch))
    peaks = peak_ratios(profile.place, runs, target, will_run)
    return Projection(
        target=target,
        precision=will_run,
        time_ratio=EstimateInterval(ratio, low, high),
        shares=projected_shares(profile, target, after, ratio, peaks),
        fits=_fits(profile, target),
        bottleneck=_bottleneck(after, links),
    )


def _target_precision(
    profile: WorkloadProfile, target: GpuPlace, asked: ComputeFormat | None
) -> Precision:
    wanted = profile.precision.precisions if asked is None else asked.required
    for precision in wanted:
        if target.peak(precision) is not None:
            return precision
    fault = f"{target.board.key} does not compute in {asked or profile.precision}"
    raise RequirementError(f"precision.to: {fault}; name a format that it has, such as bf16")


def _factor(profile: WorkloadProfile, target: GpuPlace, before: TimeShares) -> float:
    is_alike = profile.place.memory_class == target.memory_class
    factor = _WITHIN_CLASS_FACTOR if is_alike else _ACROSS_CLASSES_FACTOR
    is_latent = before.latency > _MOST_LATENCY_RATIO * before.busy
    is_small = (profile.shares.sm_active or 0.0) < _LEAST_SM_ACTIVE_RATIO * before.busy
    if profile.profiled is not None and profile.shares.sm_active is None:
        is_small = profile.profiled.are_kernels_small
    return factor**_WIDER_EXPONENT if is_latent or is_small else factor


def _fits(profile: WorkloadProfile, target: GpuPlace) -> bool | None:
    is_same, profiled = target == profile.place, profile.profiled
    collective = 0.0 if profiled is None else profiled.collective
    talks = profile.shares.nvlink > 0.0 or collective > 0.0
    if target.slice is not None and not is_same and talks:
        return False
    if profile.memory_bytes is None:
        return None
    return profile.memory_bytes <= (target.memory_bytes if is_same else target.usable_bytes)


def _bottleneck(after: TimeShares, links: dict[str, float]) -> str:
    busiest = max(links, key=lambda link: links[link])
    if links[busiest] > after.total:
        return busiest
    parts = {part.name: getattr(after, part.name) for part in fields(after)}
    parts["compute"] += parts.pop("vector")
    return max(parts, key=lambda part: parts[part])


class Sharing(StrEnum):
    """How a GPU is shared without cutting it."""

    MPS = "mps"
    """Kernels of both run side by side."""
    TIME_SLICE = "time_slice"
    """Kernels of one at a time."""


@dataclass(frozen=True, slots=True)
class SharedPlacement:
    """A workload beside another one."""

    time_ratio: EstimateInterval
    """The time of its work, of that which it takes alone."""
    fits: bool | None
    """Whether the memory holds both; `None` where that is not known of both."""


def shared_placement(
    profile: WorkloadProfile, other: WorkloadProfile, sharing: Sharing
) -> SharedPlacement:
    """A workload beside another one that is as active as it was measured, at moments of its own."""
    if profile.place != other.place:
        fault = f"{profile.place.name} and {other.place.name}: shares add up on one place only"
        raise RequirementError(f"{fault}; project one profile to the place of the other first")
    own, beside = split_time(profile), split_time(other)
    # In turn, each waits as often as the other one is busy.
    stretched = own.host + own.busy * (1.0 + beside.busy)
    if sharing is Sharing.MPS:
        stretched = _side_by_side(own, beside)
    fits = None
    if profile.memory_bytes is not None and other.memory_bytes is not None:
        fits = profile.memory_bytes + other.memory_bytes <= profile.place.usable_bytes
    # Never faster than alone, and never slower than behind all of the other's work.
    low = max(1.0, stretched / _ERROR_FACTOR)
    high = max(stretched, min(stretched * _ERROR_FACTOR, 1.0 + own.busy))
    return SharedPlacement(EstimateInterval(stretched, low, high), fits)


def _side_by_side(own: TimeShares, beside: TimeShares) -> float:
    """Parts are stretched where both want more of a resource than there is."""
    if own.busy <= 0.0 or beside.busy <= 0.0:
        return own.total
    total = own.host + own.latency
    for resource in ("compute", "vector", "memory_bandwidth", "pcie", "nvlink"):
        mine: float = getattr(own, resource)
        wanted = mine / own.busy + getattr(beside, resource) / beside.busy
        total += mine * (1.0 + beside.busy * max(0.0, wanted - 1.0))
    return total
