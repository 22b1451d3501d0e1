"""Provisioning: demand, need, over-provisioned, saturated, under-provisioned."""

from collections.abc import Mapping
from typing import Final

from rightsizer.accounting.settings import ProvisioningSettings
from rightsizer.model.values import (
    Allocator,
    Condition,
    Provisioning,
    Resource,
    ResourceProvisioning,
    Window,
    nanoseconds,
    seconds,
)

_PLACES: Final = 6
"""Digits to round a difference of whole percents to, to remove float errors."""


def provision(
    window: Window,
    allocator: Allocator,
    settings: ProvisioningSettings,
    demands: Mapping[Resource, float] | None = None,
) -> Provisioning:
    """Provisioning of one device over a window.

    Gives no memory need if the allocator preallocates or appears to. Given demands (those of the
    `current` window) override the window's own if it has enough active time.
    """
    window_demands = _demands(window, settings)
    all_demands = window_demands | {
        resource: demand
        for resource, demand in (demands or {}).items()
        # The demand for media is known although its distribution is not exported.
        if resource in window_demands or (window_demands and resource is Resource.MEDIA)
    }
    under = _under(window)
    if is_preallocated := holds_without_need(window, allocator, settings):
        all_demands.pop(Resource.MEMORY, None)
        # Full by design, but for an engine's cache that requests wait for.
        full = window.condition_share(Condition.NEAR_OUT_OF_MEMORY)
        if (short := under.pop(Resource.MEMORY, 0.0) - full) > 0.0:
            under[Resource.MEMORY] = short
    is_under = any(share >= settings.underprovisioned_ratio for share in under.values())
    known_time = window.known
    resources: dict[Resource, ResourceProvisioning] = {}
    for resource in Resource:
        if resource in all_demands or resource in under:
            demand = all_demands.get(resource)
            is_memory = resource is Resource.MEMORY
            margin = settings.memory_margin_ratio if is_memory else settings.margin_ratio
            need = None if demand is None else demand * (1 + margin)
            resources[resource] = ResourceProvisioning(
                demand=demand,
                need=need,
                overprovisioned=None if need is None else max(0.0, 1.0 - need),
                saturated=window.saturated.get(resource, 0) / known_time if known_time else None,
                underprovisioned=under.get(resource),
            )
    needs = [fit.need for fit in resources.values() if fit.need is not None]
    is_complete = {Resource.COMPUTE, Resource.MEMORY} <= all_demands.keys()
    over = max(0.0, 1.0 - max(needs)) if needs and is_complete else None
    return Provisioning(
        resources=resources,
        overprovisioned=0.0 if is_under else over,
        underprovisioned=max(under.values(), default=None),
        compute_need_at_least=_need_at_least(window, settings),
        tier=window.tier,
        coverage_ratio=window.coverage_ratio,
        active_seconds=seconds(window.active),
        known_seconds=window.known_seconds,
        is_underprovisioned=is_under,
        memory_is_preallocated=is_preallocated,
    )


def holds_without_need(
    window: Window, allocator: Allocator, settings: ProvisioningSettings
) -> bool:
    """Whether the memory in use does not indicate the memory needed.

    True if the framework is known to preallocate, or if its allocation is unknown and much
    memory is held in a constant amount.
    """
    if allocator is not Allocator.UNKNOWN:
        return allocator is Allocator.PREALLOCATING
    if (memory := window.demands.get(Resource.MEMORY)) is None:
        return False
    low = memory.quantile(settings.preallocated_quantile_ratio)
    high = memory.maximum()
    if low is None or high is None:
        return False
    spread = round(high - low, _PLACES)
    return low >= settings.preallocated_ratio and spread <= settings.preallocated_spread_ratio


def _demands(window: Window, settings: ProvisioningSettings) -> dict[Resource, float]:
    if seconds(window.active) < settings.minimum_active_seconds:
        return {}
    # Each must be measured for long enough itself: counters may be intermittent.
    demands = dict[Resource, float]()
    least = nanoseconds(settings.minimum_active_seconds)
    for resource, histogram in window.demands.items():
        demand = (
            histogram.maximum()
            if resource is Resource.MEMORY
            else histogram.quantile(settings.demand_quantile_ratio)
        )
        if demand is not None and histogram.total >= least:
            demands[resource] = demand
    return demands


def _need_at_least(window: Window, settings: ProvisioningSettings) -> float | None:
    demand = window.compute_at_least.quantile(settings.demand_quantile_ratio)
    least = nanoseconds(settings.minimum_active_seconds)
    if demand is None or window.compute_at_least.total < least:
        return None
    return demand * (1 + settings.margin_ratio)


def _under(window: Window) -> dict[Resource, float]:
    if window.known <= 0:
        return {}
    # A shortage of memory is visible without the application; of other resources only once it
    # has reported one.
    measured = window.pressed.keys() | ({Resource.MEMORY} & window.demands.keys())
    return {resource: window.pressed.get(resource, 0) / window.known for resource in measured}
