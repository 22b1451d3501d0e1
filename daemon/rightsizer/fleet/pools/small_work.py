"""Which workloads of a pool may share a GPU, and what they take of one by the hour."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.state import Resource
from rightsizer.domain.workload import Allocator, WorkloadClass
from rightsizer.fleet.pools.hourly import filled, known_ratio
from rightsizer.fleet.pools.packing import HourlyLoad
from rightsizer.fleet.view import WorkloadView
from rightsizer.sizing.slices import Need

__all__ = ["Small", "board_bytes", "slice_need", "small_work", "why_not"]

_MOVABLE: Final = frozenset({WorkloadClass.SERVING, WorkloadClass.NOTEBOOK})
_NOISE_RATIO: Final = 0.01


@dataclass(frozen=True, slots=True)
class Small:
    """A workload with one GPU of its own that may be given a part of another."""

    view: WorkloadView
    load: HourlyLoad
    busy: Sequence[float]

    @property
    def namespace(self) -> str:
        """Within it nothing has to keep workloads apart."""
        workload = self.view.case.workload
        return workload.namespace if workload else ""


def small_work(
    views: Iterable[WorkloadView], minimum_coverage_ratio: float, busy_ratio: float
) -> tuple[Small, ...]:
    """Those of some workloads of one pool that may share, by their keys.

    Args:
        views: Workloads of one pool.
        minimum_coverage_ratio: Hours that must be known of each.
        busy_ratio: Busy share up to which a workload never worked; who is idle shares nothing.
    """
    given = sorted(views, key=lambda each: each.case.key)
    tenants = Counter(device.uuid for each in given for device in each.case.devices)
    found = []
    for each in given:
        if why_not(each) is not None or any(
            tenants[device.uuid] > 1 for device in each.case.devices
        ):
            continue
        small = _small(each, minimum_coverage_ratio)
        if small is not None and max(small.busy, default=0.0) > busy_ratio:
            found.append(small)
    return _aligned(found)


def why_not(view: WorkloadView) -> str | None:
    """Why a workload keeps its GPU to itself, by what it is; `None` where it need not."""
    case = view.case
    if case.workload is None or case.workload.workload_class is WorkloadClass.UNKNOWN:
        return "its class is unknown; state it in a policy"
    if case.workload.workload_class not in _MOVABLE:
        return f"a {case.workload.workload_class} workload keeps its GPU to itself"
    if sum(view.nodes.values()) != 1 or not case.devices or any(each.mig for each in case.devices):
        return "it does not have one whole GPU"
    if any(each.is_underprovisioned for each in case.provisioning):
        return "it is under pressure"
    if case.workload.allocator is Allocator.PREALLOCATING or any(
        each.memory_is_preallocated for each in case.provisioning
    ):
        return "its memory looks preallocated, so the memory needed is not known"
    return None


def slice_need(small: Small, compute_ratio: float, memory_ratio: float) -> Need:
    """What a slice of its own must have, that it fills no further than some ratios."""
    fits = [fit.resources for fit in small.view.case.provisioning]
    needs = {
        resource: max((each[resource].need or 0.0 for each in fits if resource in each), default=0)
        for resource in (Resource.MEMORY_BANDWIDTH, Resource.NVLINK)
    }
    return Need(
        compute_ratio=max(small.load.compute) / compute_ratio,
        memory_ratio=max(small.load.memory) / memory_ratio,
        memory_bandwidth_ratio=needs[Resource.MEMORY_BANDWIDTH],
        uses_nvlink=needs[Resource.NVLINK] > _NOISE_RATIO,
    )


def board_bytes(view: WorkloadView) -> float | None:
    """Memory of the smallest of its boards; `None` where one is unknown."""
    totals = [each.memory_total_bytes for each in view.case.devices]
    known = [each for each in totals if each]
    return min(known) if known and len(known) == len(totals) else None


def _small(view: WorkloadView, minimum_coverage_ratio: float) -> Small | None:
    total = board_bytes(view)
    columns = (view.compute, view.memory_bytes, view.busy)
    if not total or any(known_ratio(each) < minimum_coverage_ratio for each in columns):
        return None
    compute, memory, busy = map(filled, columns)
    if compute is None or memory is None or busy is None:
        return None
    load = HourlyLoad(view.case.key, compute, [each / total for each in memory])
    return Small(view, load, busy)


def _aligned(found: list[Small]) -> tuple[Small, ...]:
    """Those whose hours are those of most."""
    spans = Counter(map(_span, found))
    if not spans:
        return ()
    span = max(spans, key=lambda each: (spans[each], each))
    return tuple(each for each in found if _span(each) == span)


def _span(small: Small) -> tuple[int, int]:
    view = small.view
    lengths = {len(view.compute.values), len(view.memory_bytes.values), len(view.busy.values)}
    return view.compute.start, lengths.pop() if len(lengths) == 1 else 0
