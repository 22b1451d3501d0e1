"""Time-share roofline: where a measured workload's time goes, and its shares elsewhere."""

import math
from typing import Final

from rightsizer.model.frozen import asdict, dataclass, fields, replace
from rightsizer.sizing.place import CapacityRatios, GpuPlace
from rightsizer.sizing.workload_profile import UsageShares, WorkloadProfile

_VECTOR_RATIO: Final = 0.8
"""What vector kernels reach of the fp32 peak; an assumption."""
_FILLED_RATIO: Final = 0.5
"""Kernels that occupy less of the SMs are too small for any GPU, and occupy as many SMs elsewhere.
Source: the rule of thumb for DCGM's field 1002; checked by no measurement of ours."""


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
        # Copies, collectives and waits are measured by a time line, not what is left.
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

    What was not measured stays unknown.

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
