"""Projection of a measured workload to another GPU, slice or format, by the time-share roofline."""

import math
from enum import StrEnum
from typing import Final

from rightsizer.catalogue.board import Precision
from rightsizer.model.errors import RequirementError
from rightsizer.model.frozen import asdict, dataclass, fields, replace
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.place import CapacityRatios, GpuPlace, achieved_ratios, peak_ratios
from rightsizer.sizing.workload_profile import ComputeFormat, UsageShares, WorkloadProfile

_VECTOR_RATIO: Final = 0.8
"""What vector kernels reach of the fp32 peak; an assumption."""
_FILLED_RATIO: Final = 0.5
"""Kernels that occupy less of the SMs are too small for any GPU, and occupy as many SMs elsewhere.
Source: the rule of thumb for DCGM's field 1002; checked by no measurement of ours."""
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
class TimeShares:
    """How long each resource is what kernels wait for, over the time of the measured window."""

    compute: float = 0.0
    vector: float = 0.0
    memory_bandwidth: float = 0.0
    pcie: float = 0.0
    nvlink: float = 0.0
    latency: float = 0.0
    """Launches, small kernels, synchronization: as long on any GPU."""
    host: float = 0.0
    """Neither kernels nor copies: as long on any GPU."""

    @property
    def total(self) -> float:
        """All of it: 1 where it was measured, the time ratio where it is projected."""
        return math.fsum(getattr(self, part.name) for part in fields(self))

    @property
    def busy(self) -> float:
        """With a kernel or a copy."""
        return self.total - self.host

    @property
    def matrix_ratio(self) -> float:
        """Of the busy time, that in matrix products, which draw the most power."""
        return self.compute / self.busy if self.busy > 0.0 else 0.0

    def moved(self, ratios: CapacityRatios) -> "TimeShares":
        """The same work where capacities differ."""
        scaled = {name: getattr(self, name) * ratio for name, ratio in asdict(ratios).items()}
        return replace(self, **scaled)


def busy_share(profile: WorkloadProfile) -> float:
    """The part of the window with a kernel: at least what any unit was active."""
    shares = profile.shares
    by_profile = 1.0 if profile.profiled is None else profile.profiled.busy
    stated = by_profile if shares.gpu_busy is None else shares.gpu_busy
    units = (shares.sm_active, shares.tensor_active, shares.dram_active, shares.fp32_active)
    return min(1.0, max(stated, *(unit or 0.0 for unit in units)))


def split_time(profile: WorkloadProfile) -> TimeShares:
    """The parts of a profile's window; they sum to 1.

    Kernels wait for one resource at a time, each at what large kernels reach of it; what is left
    of the busy time is latency. Copies are taken to fill the rest of the time, not to overlap.
    """
    shares, busy = profile.shares, busy_share(profile)
    if profile.profiled is not None:
        # Copies, collectives and waits are measured by a timeline, not what is left.
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
    """Time that kernels wait for compute, for the vector pipes and for the memory, by counters."""
    shares, place, precision = profile.shares, profile.place, profile.peak_precision()
    # What large kernels reach of the peak: in time where the clock is known, else in cycles.
    ratio = (place.achieved(precision) or 1.0) / (place.peak(precision) or 1.0)
    if shares.sm_clock_ratio is None:
        ratio /= place.clock_ratio
    clock = shares.sm_clock_ratio or 1.0
    tensor = (shares.tensor_active or 0.0) * clock / ratio
    vector = (shares.fp32_active or 0.0) * clock / _VECTOR_RATIO
    reached = place.achieved_bytes_per_second / place.peak_bytes_per_second
    dram = (shares.dram_active or 0.0) / reached
    tensor, vector, dram = (min(busy, each) for each in (tensor, vector, dram))
    # Resources that are used at once share the busy time; it is no longer for that.
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
    """The shares on the target: the same operations and bytes, over the time that they take there.

    `after`: where its time would go there; `ratio`: that time, of that of the window; `peaks`: what
    shares are measured against, source over target.
    """
    shares = profile.shares
    # Without a clock, pipe activity is taken to count the cycles of a GPU at its power limit.
    is_timed = shares.sm_clock_ratio is not None
    clock = 1.0 if is_timed else profile.place.clock_ratio / target.clock_ratio
    # What waits without a kernel does so as before.
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
    measured, before = profile.shares.sm_active, busy_share(profile)
    if measured is None:
        return None
    filled = measured / before if before > 0.0 else 0.0
    fewer = profile.place.sm_count / target.sm_count
    scale = fewer if filled < _FILLED_RATIO else max(1.0, fewer)
    return min(busy, filled * scale * busy)


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
        # A timeline does not tell what kernels wait for, and what hides.
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
