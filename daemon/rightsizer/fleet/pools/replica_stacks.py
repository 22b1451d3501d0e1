"""Services of several light replicas: what one replica takes of its GPU, hour by hour."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.advice.market import Market
from rightsizer.advice.measured_profile import place_of
from rightsizer.domain.finding import Case
from rightsizer.domain.state import Resource
from rightsizer.domain.workload import Allocator, WorkloadClass
from rightsizer.fleet.pools.hourly import filled, known_ratio
from rightsizer.fleet.pools.packing import HourlyLoad, Packed, PackingLimits, pack
from rightsizer.fleet.view import WorkloadView

__all__ = ["Replicated", "freed_by", "replicated", "stacks"]

_NOISE_RATIO: Final = 0.01
_SEVERAL: Final = 2


@dataclass(frozen=True, slots=True)
class Replicated:
    """A service of several replicas with a GPU each."""

    view: WorkloadView
    replicas: int
    each: HourlyLoad
    """Of its busiest replica."""


def replicated(
    view: WorkloadView, minimum_coverage_ratio: float, market: Market
) -> Replicated | None:
    """A service whose replicas may have others beside them; `None` where it is none.

    Its replicas share its load as their needs do, and each is taken for the busiest.
    """
    case, count = view.case, sum(view.nodes.values())
    workload = case.workload
    if workload is None or workload.workload_class is not WorkloadClass.SERVING:
        return None
    if count < _SEVERAL or workload.allocator is Allocator.PREALLOCATING:
        return None
    if not case.devices or not _is_apart(case, market):
        return None
    if any(fit.is_underprovisioned or fit.memory_is_preallocated for fit in case.provisioning):
        return None
    memory = _largest(case, Resource.MEMORY)
    compute = filled(view.compute)
    if memory is None or compute is None or known_ratio(view.compute) < minimum_coverage_ratio:
        return None
    uneven = _unevenness(case) / count
    load = HourlyLoad(case.key, [each * uneven for each in compute], [memory] * len(compute))
    return Replicated(view, count, load)


def stacks(given: Iterable[Replicated], limits: PackingLimits) -> Packed:
    """Which services would put one replica each on the same GPUs."""
    return pack((each.each for each in given), limits)


def freed_by(keys: Iterable[str], given: Mapping[str, Replicated]) -> int:
    """GPUs that are free where replicas of some services lie on one another."""
    counts = [given[key].replicas for key in keys]
    return sum(counts) - max(counts)


def _is_apart(case: Case, market: Market) -> bool:
    """Whether no device has anything to say to another: what is unmeasured may be much."""
    for device, fit in zip(case.devices, case.provisioning, strict=True):
        if device.mig is not None:
            return False
        link, place = fit.resources.get(Resource.NVLINK), place_of(device, market)
        is_silent = link is not None and link.need is not None and link.need <= _NOISE_RATIO
        has_none = place is not None and place.link_bytes_per_second == 0.0
        if not is_silent and not has_none:
            return False
    return True


def _largest(case: Case, resource: Resource) -> float | None:
    """The largest need of a replica, with its margin; `None` where one's is unknown."""
    needs = [fit.resources[resource].need for fit in case.provisioning if resource in fit.resources]
    known = [need for need in needs if need is not None]
    return max(known) if known and len(known) == len(case.provisioning) else None


def _unevenness(case: Case) -> float:
    """Need of the busiest replica over that of the mean one."""
    needs = [
        fit.resources[Resource.COMPUTE].need or 0.0
        for fit in case.provisioning
        if Resource.COMPUTE in fit.resources
    ]
    return max(needs) * len(needs) / sum(needs) if needs and sum(needs) > 0.0 else 1.0
