"""Measured profile of a workload, and options projected from it."""

from typing import Final

from msgspec.structs import replace

from rightsizer.advice.market import Market
from rightsizer.model.values import (
    Case,
    Device,
    Distribution,
    Option,
    RequirementError,
    Resource,
    Tier,
    Window,
)
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.place import GpuPlace, find_place
from rightsizer.sizing.projection import Projection
from rightsizer.sizing.workload_profile import UsageShares, WorkloadProfile


def measured_profile(case: Case, at: int, market: Market) -> WorkloadProfile | None:
    """Profile of one of a workload's devices, or `None` if its telemetry does not suffice.

    Approximates the tensor cores by the busiest pipe, and the time with a kernel by the active
    time.
    """
    device = case.devices[at]
    window = case.windows[at]
    fit = case.provisioning[at]
    if (place := place_of(device, market)) is None or window.tier is not Tier.PROFILING:
        return None
    means = {resource: _mean(window, window.demands.get(resource)) for resource in Resource}
    pipes = _mean(window, window.compute_at_least)
    memory = window.demands.get(Resource.MEMORY)
    peak = None if memory is None or fit.memory_is_preallocated else memory.maximum()
    total = device.memory_total_bytes or place.memory_bytes
    has_links = place.link_bytes_per_second > 0.0
    try:
        return WorkloadProfile(
            place=place,
            shares=UsageShares(
                sm_active=means[Resource.COMPUTE],
                # A demand is relative to the achievable rate and includes the clock.
                tensor_active=None if pipes is None else pipes * device.achievable_compute_ratio,
                dram_active=means[Resource.MEMORY_BANDWIDTH],
                gpu_busy=window.active / window.known if window.known > 0 else None,
                pcie_receive=means[Resource.PCIE],
                nvlink_receive=means[Resource.NVLINK] if has_links else None,
                sm_clock_ratio=1.0,
            ),
            memory_bytes=None if peak is None else peak * total,
        )
    except RequirementError:
        return None


def place_of(device: Device, market: Market) -> GpuPlace | None:
    """Board or slice of a device, or `None` if the catalogue does not list it."""
    if (board := market.board(device.board)) is None or device.mig is None:
        return None if board is None else market.place(board)
    try:
        name = f"{board.key}:{device.mig.profile}"
        return find_place(market.catalogue, name, market.memory_settings)
    except RequirementError:
        return None


def _mean(window: Window, histogram: Distribution | None) -> float | None:
    """Convert a mean over active time to one over all known time."""
    mean = None if histogram is None else histogram.mean()
    if histogram is None or mean is None or window.known <= 0:
        return None
    return min(1.0, mean * histogram.total / window.known)


_DIGITS: Final = 4
_UTILIZATION: Final = (
    "gpu_busy",
    "sm_active",
    "tensor_active",
    "dram_active",
    "pcie_receive",
    "nvlink_receive",
)


def projected(option: Option, projection: Projection | None) -> Option:
    """Add slowdown, utilization and fit to an option; unchanged without a projection."""
    if projection is None:
        return option
    shares = {name: getattr(projection.shares, name) for name in _UTILIZATION}
    return replace(
        timed(option, projection.time_ratio),
        utilization={
            name: round(share, _DIGITS) for name, share in shares.items() if share is not None
        },
        fits=projection.fits,
    )


def timed(option: Option, ratio: EstimateInterval) -> Option:
    """Add the time of the same work, relative to the present, to an option."""
    return replace(
        option,
        time_ratio=round(ratio.value, _DIGITS),
        time_ratio_low=round(ratio.low, _DIGITS),
        time_ratio_high=round(ratio.high, _DIGITS),
    )


def costing(option: Option, dollars_per_hour: EstimateInterval | None) -> Option:
    """Add the price to an option; unchanged without one."""
    if dollars_per_hour is None:
        return option
    return replace(
        option,
        dollars_per_hour_low=dollars_per_hour.low,
        dollars_per_hour_high=dollars_per_hour.high,
    )
