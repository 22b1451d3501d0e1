"""Projection of a measured workload to another GPU, slice or format, by the time-share roofline."""

import math
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from rightsizer.catalogue.board import Precision
from rightsizer.model.errors import RequirementError
from rightsizer.sizing.estimate import EstimateInterval, joint_error_factor
from rightsizer.sizing.place import CapacityRatios, GpuPlace, achieved_ratios, peak_ratios
from rightsizer.sizing.workload_profile import ComputeFormat, UsageShares, WorkloadProfile

_VECTOR_RATIO: Final = 0.8
"""Fraction of the fp32 peak reached by vector kernels; assumed."""
_FILLED_RATIO: Final = 0.5
"""Kernels that occupy less of the SMs are too small for any GPU, and occupy as many SMs elsewhere.
Source: rule of thumb for DCGM's field 1002; not verified by our own measurements."""
_WITHIN_CLASS_FACTOR: Final = 1.25
_ACROSS_CLASSES_FACTOR: Final = 1.35
"""Error factors of the busy time with a probability of 90%. Source: this rule over 108,000 mixes of
measured bf16 kernels on 9 boards erred by x1.27 (p90), between HBM and GDDR by x1.35."""
_NEIGHBOR_FACTOR: Final = 1.16
"""Maximum slowdown of a slice by busy neighbors. Source: MLPerf v1.1 on slices of an A30 beside
slices that ran other benchmarks."""
_WIDER_EXPONENT: Final = 1.5
_MOST_LATENCY_RATIO: Final = 0.5
_LEAST_SM_ACTIVE_RATIO: Final = 0.3
"""Smaller kernels, or a larger part of latency, are less predictable; widening their intervals by
half again is a choice, not a measurement."""
_HOST_BOUND_RATIO: Final = 0.3
"""Fraction of time spent waiting for launches, above which the host may hide kernels: then a faster
GPU only waits longer, and a slower one less. Source: the rule `profile_launch_bound`."""
_ERROR_FACTOR: Final = 1.25
"""Error factor of the slowdown: that of the time-share roofline within a memory class. Contention
in caches appears in no signal and was not measured."""


class TimeShares(Struct, frozen=True):
    """Time that kernels wait for each resource, as fractions of the measured window."""

    compute: float = 0.0
    vector: float = 0.0
    memory_bandwidth: float = 0.0
    pcie: float = 0.0
    nvlink: float = 0.0
    latency: float = 0.0
    """Launches, small kernels, synchronization: equally long on any GPU."""
    host: float = 0.0
    """Neither kernels nor copies: equally long on any GPU."""

    @property
    def total(self) -> float:
        """Sum: 1 for measured shares, the time ratio for projected ones."""
        return math.fsum(getattr(self, part) for part in self.__struct_fields__)

    @property
    def busy(self) -> float:
        """Time with a kernel or a copy."""
        return self.total - self.host

    @property
    def matrix_ratio(self) -> float:
        """Fraction of busy time in matrix products, which draw the most power."""
        return self.compute / self.busy if self.busy > 0.0 else 0.0

    def moved(self, ratios: CapacityRatios) -> "TimeShares":
        """Shares of the same work at other capacities."""
        scaled = {name: getattr(self, name) * ratio for name, ratio in asdict(ratios).items()}
        return replace(self, **scaled)


def busy_share(profile: WorkloadProfile) -> float:
    """Fraction of the window with a kernel: at least the activity of any unit."""
    shares = profile.shares
    by_profile = 1.0 if profile.profiled is None else profile.profiled.busy
    stated = by_profile if shares.gpu_busy is None else shares.gpu_busy
    units = (shares.sm_active, shares.tensor_active, shares.dram_active, shares.fp32_active)
    return min(1.0, max(stated, *(unit or 0.0 for unit in units)))


def split_time(profile: WorkloadProfile) -> TimeShares:
    """Split a profile's window into shares that sum to 1.

    Kernels are assumed to wait for one resource at a time, each at the throughput of large kernels;
    the rest of the busy time is latency. Copies are assumed to fill the remaining time, not to
    overlap.
    """
    shares = profile.shares
    busy = busy_share(profile)
    if profile.profiled is not None:
        # Copies, collectives and waits come from a timeline, not from the remaining time.
        time = profile.profiled.at_busy(busy)
        work = (time.in_products, 0.0, time.kernels - time.in_products)
        if profile.has_counters:
            work = _work(profile, time.kernels)
        has_link = profile.place.link_bytes_per_second > 0.0
        pcie = time.copy + (0.0 if has_link else time.collective)
        nvlink = time.collective if has_link else 0.0
        latency = max(0.0, time.kernels - work[0] - work[1] - work[2])
        return TimeShares(*work, pcie, nvlink, latency, time.host)
    compute, vector, bandwidth = _work(profile, busy)
    rest = max(0.0, 1.0 - compute - vector - bandwidth)
    pcie = min(shares.pcie, rest)
    nvlink = min(shares.nvlink, rest - pcie)
    rest -= pcie + nvlink
    host = min(1.0 - busy, rest)
    return TimeShares(compute, vector, bandwidth, pcie, nvlink, latency=rest - host, host=host)


def _work(profile: WorkloadProfile, busy: float) -> tuple[float, float, float]:
    """Time that kernels wait for compute, vector pipes and memory, according to counters."""
    shares = profile.shares
    place = profile.place
    precision = profile.peak_precision()
    # Fraction of the peak reached by large kernels: of time if the clock is known, else of cycles.
    ratio = (place.achieved(precision) or 1.0) / (place.peak(precision) or 1.0)
    if shares.sm_clock_ratio is None:
        ratio /= place.clock_ratio
    clock = shares.sm_clock_ratio or 1.0
    tensor = (shares.tensor_active or 0.0) * clock / ratio
    vector = (shares.fp32_active or 0.0) * clock / _VECTOR_RATIO
    reached = place.achieved_bytes_per_second / place.peak_bytes_per_second
    dram = (shares.dram_active or 0.0) / reached
    tensor, vector, dram = (min(busy, active) for active in (tensor, vector, dram))
    # Resources used at once share the busy time; overlap does not extend it.
    total = tensor + vector + dram
    fitted = min(1.0, busy / total) if total > 0.0 else 1.0
    return tensor * fitted, vector * fitted, dram * fitted


def projected_shares(
    profile: WorkloadProfile,
    target: GpuPlace,
    after: TimeShares,
    ratio: float,
    peaks: CapacityRatios,
) -> UsageShares:
    """Usage shares on the target: the same operations and bytes, divided by the time there.

    `after`: projected time shares; `ratio`: projected time relative to the window; `peaks`: peak
    ratios, source over target, since shares are measured relative to peaks.
    """
    shares = profile.shares
    # Without a clock, pipe activity is assumed to count cycles of a GPU at its power limit.
    is_timed = shares.sm_clock_ratio is not None
    clock = 1.0 if is_timed else profile.place.clock_ratio / target.clock_ratio
    # Time without a kernel is unchanged.
    waits = min(1.0 - busy_share(profile), ratio)
    busy = 1.0 - waits / ratio if ratio > 0.0 else after.busy
    capacities = {
        "tensor_active": peaks.compute * clock,
        "dram_active": peaks.memory_bandwidth,
        **dict.fromkeys(("pcie_receive", "pcie_transmit"), peaks.pcie),
        "fp32_active": peaks.vector,
    }
    if target.link_bytes_per_second > 0.0:
        capacities |= dict.fromkeys(("nvlink_receive", "nvlink_transmit"), peaks.nvlink)
    moved = {}
    for name, capacity in capacities.items():
        share: float | None = getattr(shares, name)
        if share is not None:
            moved[name] = min(1.0, share * capacity / ratio) if ratio > 0.0 else 0.0
    return UsageShares(
        sm_active=_sm_active(profile, target, busy),
        gpu_busy=None if shares.gpu_busy is None and profile.profiled is None else busy,
        sm_clock_ratio=shares.sm_clock_ratio,
        **moved,
    )


def _sm_active(profile: WorkloadProfile, target: GpuPlace, busy: float) -> float | None:
    measured = profile.shares.sm_active
    before = busy_share(profile)
    if measured is None:
        return None
    filled = measured / before if before > 0.0 else 0.0
    fewer = profile.place.sm_count / target.sm_count
    scale = fewer if filled < _FILLED_RATIO else max(1.0, fewer)
    return min(busy, filled * scale * busy)


class Projection(Struct, frozen=True):
    """Measured workload projected to another place."""

    target: GpuPlace
    precision: Precision
    """Format used there by its tensor cores."""
    time_ratio: EstimateInterval
    """Time for the same work, relative to the measured time; the host's part is unchanged."""
    shares: UsageShares
    """Expected measurements there."""
    fits: bool | None
    """`None` if its memory need is unknown."""
    bottleneck: str
    """Largest part of its time: `compute`, `memory_bandwidth`, `pcie`, `nvlink`, `latency`
    (launches and small kernels) or `host` (no kernel at all)."""


def project(
    profile: WorkloadProfile, target: GpuPlace, precision: ComputeFormat | None = None
) -> Projection:
    """Project a profile to another place.

    Uses the time-share roofline: parts of the time scale with the throughput of large kernels for
    each resource in both places; latency and host time are unchanged.

    `precision`: format of the weights there; `None` for the same or its replacement there.
    """
    runs = profile.peak_precision()
    will_run = _target_precision(profile, target, precision)
    before = split_time(profile)
    speeds = achieved_ratios(profile.place, runs, target, will_run, before.matrix_ratio)
    after = before.moved(speeds)
    links = _link_times(profile, speeds)
    ratio = max(after.total, *links.values())
    is_same = target == profile.place and precision in {None, profile.precision}
    factor = 1.0 if is_same else _factor(profile, target, before)
    neighbors = 1.0 if is_same or target.slice is None else _NEIGHBOR_FACTOR
    slower = joint_error_factor(factor, neighbors)
    # Only the busy time is uncertain, the host's is known. Weights of another width may or may
    # not dominate the reads.
    width = (precision or profile.precision).weight_bytes / profile.precision.weight_bytes
    busy = ratio - after.host
    traffic = after.memory_bandwidth * (width - 1.0)
    low = min(ratio, after.host + (busy + min(0.0, traffic)) / factor)
    high = max(ratio, after.host + (busy + max(0.0, traffic)) * slower)
    if profile.profiled is not None:
        # A timeline does not show which resource kernels wait for, nor what is hidden.
        time = profile.profiled.at_busy(busy_share(profile))
        if not profile.has_counters:
            shortest, longest = time.kernel_range(speeds)
            copied = after.pcie + after.nvlink
            low = min(low, after.host + (shortest + copied) / factor)
            high = max(high, after.host + (longest + copied) * slower)
        if time.host_wait > _HOST_BOUND_RATIO:
            hidden = max(1.0, after.total - time.host_wait)
            low = min(low, hidden)
            high = max(high, hidden, min(1.0, time.launch))
    peaks = peak_ratios(profile.place, runs, target, will_run)
    return Projection(
        target=target,
        precision=will_run,
        time_ratio=EstimateInterval(ratio, low, high),
        shares=projected_shares(profile, target, after, ratio, peaks),
        fits=_fits(profile, target),
        bottleneck=_bottleneck(after, links),
    )


def projected_time_ratio(profile: WorkloadProfile, target: GpuPlace) -> float:
    """Time for the same work at another place, relative to the measured time, as `project` does."""
    runs = profile.peak_precision()
    will_run = _target_precision(profile, target, None)
    before = split_time(profile)
    speeds = achieved_ratios(profile.place, runs, target, will_run, before.matrix_ratio)
    return max(before.moved(speeds).total, *_link_times(profile, speeds).values())


def _link_times(profile: WorkloadProfile, speeds: CapacityRatios) -> dict[str, float]:
    """Times of copies alone: work is no faster, overlapped or not."""
    shares = profile.shares
    return {"pcie": shares.pcie * speeds.pcie, "nvlink": shares.nvlink * speeds.nvlink}


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
    is_same = target == profile.place
    profiled = profile.profiled
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
    parts = {part: getattr(after, part) for part in after.__struct_fields__}
    parts["compute"] += parts.pop("vector")
    return max(parts, key=lambda part: parts[part])


class Sharing(StrEnum):
    """Ways to share a GPU without partitioning."""

    MPS = "mps"
    """Kernels of both run concurrently."""
    TIME_SLICE = "time_slice"
    """Kernels of one at a time."""


def shared_time_ratio(
    profile: WorkloadProfile, other: WorkloadProfile, sharing: Sharing
) -> EstimateInterval:
    """Time for the same work beside another workload, relative to the time alone.

    Both keep their measured activity, at independent times.
    """
    if profile.place != other.place:
        fault = f"{profile.place.name} and {other.place.name}: shares add up on one place only"
        raise RequirementError(f"{fault}; project one profile to the place of the other first")
    shares = split_time(profile)
    beside = split_time(other)
    # When taking turns, each waits for the fraction of time that the other is busy.
    stretched = shares.host + shares.busy * (1.0 + beside.busy)
    if sharing is Sharing.MPS:
        stretched = _side_by_side(shares, beside)
    # Never faster than alone, and never slower than serialized after all work of the other.
    low = max(1.0, stretched / _ERROR_FACTOR)
    high = max(stretched, min(stretched * _ERROR_FACTOR, 1.0 + shares.busy))
    return EstimateInterval(stretched, low, high)


def _side_by_side(shares: TimeShares, beside: TimeShares) -> float:
    """Time ratio if parts stretch whenever both together exceed a resource."""
    if shares.busy <= 0.0 or beside.busy <= 0.0:
        return shares.total
    total = shares.host + shares.latency
    for resource in ("compute", "vector", "memory_bandwidth", "pcie", "nvlink"):
        mine: float = getattr(shares, resource)
        wanted = mine / shares.busy + getattr(beside, resource) / beside.busy
        total += mine * (1.0 + beside.busy * max(0.0, wanted - 1.0))
    return total
