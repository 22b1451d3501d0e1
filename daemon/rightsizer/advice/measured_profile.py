"""A workload's profile as its windows tell it, for what a projection needs."""

from rightsizer.advice.market import Market
from rightsizer.domain.device import Device
from rightsizer.domain.errors import RequirementError
from rightsizer.domain.finding import Case
from rightsizer.domain.state import Resource, Tier
from rightsizer.domain.window import Window
from rightsizer.sizing.place import Place, find_place
from rightsizer.sizing.profile import Profile, Shares

__all__ = ["measured_profile", "place_of"]


def measured_profile(case: Case, at: int, market: Market) -> Profile | None:
    """What one of a workload's devices did; `None` where its telemetry cannot carry a projection.

    The busiest pipe stands for the tensor cores, time that counts as active for the time with a
    kernel.
    """
    device, window, fit = case.devices[at], case.windows[at], case.provisioning[at]
    place = place_of(device, market)
    if place is None or window.tier is not Tier.PROFILING:
        return None
    means = {resource: _mean(window, resource) for resource in Resource}
    pipes = _part(window, window.compute_at_least.mean(), window.compute_at_least.total)
    memory = window.demands.get(Resource.MEMORY)
    peak = None if memory is None or fit.memory_is_preallocated else memory.maximum()
    total = device.memory_total_bytes or place.memory_bytes
    has_links = place.link_bytes_per_second > 0.0
    try:
        return Profile(
            place=place,
            shares=Shares(
                sm_active=means[Resource.COMPUTE],
                # A demand is of what is achievable, and has the clock in it.
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


def place_of(device: Device, market: Market) -> Place | None:
    """The board or slice that a device is; `None` where the catalogue does not know it."""
    board = market.board(device.board)
    if board is None or device.mig is None:
        return None if board is None else market.place(board)
    try:
        name = f"{board.key}:{device.mig.profile}"
        return find_place(market.catalogue, name, market.memory_settings)
    except RequirementError:
        return None


def _mean(window: Window, resource: Resource) -> float | None:
    histogram = window.demands.get(resource)
    return None if histogram is None else _part(window, histogram.mean(), histogram.total)


def _part(window: Window, mean: float | None, total: float) -> float | None:
    """A mean over active time as one over all of the known time."""
    if mean is None or window.known <= 0:
        return None
    return min(1.0, mean * total / window.known)
