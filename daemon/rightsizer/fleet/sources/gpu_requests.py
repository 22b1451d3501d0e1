"""What pods request of GPUs, as parts of one, and which wait: slices of time, MIG, percents."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from rightsizer.fleet.cache.grid import COARSE_STEP
from rightsizer.fleet.model import FleetDevice, WaitingWork
from rightsizer.fleet.source import MetricStore, SampledSeries
from rightsizer.fleet.sources.pod_owners import (
    NODE_LABELS,
    POD,
    LookbackSpan,
    Pod,
    PodOwners,
    workload_key,
)
from rightsizer.fleet.sources.series import first_label, names_of_node
from rightsizer.model.values import MIB, NANOSECONDS_PER_SECOND, Nanoseconds, seconds

_BY: Final = f"{POD}, container, exported_container, resource"
_REQUESTED: Final = 'kube_pod_container_resource_requests{resource=~"nvidia_com_(gpu.*|mig_.+)"}'
"""GPUs, and the parts of them that HAMi's `gpucores` and `gpumem` limit."""
REQUESTS: Final = f"max by ({_BY}) ({_REQUESTED})"
"""By pod, container and resource, now."""
_OFFERED: Final = (
    f"max by ({', '.join(NODE_LABELS)}, resource)"
    ' ({__name__=~"kube_node_status_(capacity|allocatable)",resource=~"nvidia_com_gpu(_.+)?"}) > 0'
)
_GPUS: Final = re.compile(r"nvidia_com_gpu(_.+)?")
_MIG: Final = re.compile(r"nvidia_com_mig_(\d)g")
_MIG_SLICES: Final = 7
"""Per whole GPU, on boards with MIG."""
_MEMORY: Final = "nvidia_com_gpumem"
"""Mebibytes of each GPU."""
_CORES: Final = "nvidia_com_gpucores"
_LIMITS: Final = (_CORES, _MEMORY, "nvidia_com_gpumem_percentage")
"""In percent of each GPU, but for the memory in mebibytes."""
_PERCENT: Final = 100.0

Resources = Mapping[str, float]
"""How many of each resource a container requests."""


class GpuUnits(Struct, frozen=True):
    """How much of a GPU one of a resource is."""

    slot_ratio: float = 1.0
    """Part of a GPU that one `nvidia.com/gpu` is, whatever an operator calls it."""
    slots: Mapping[str, float] = {}
    """The same by resource, where resources differ."""
    memory_bytes: float | None = None
    """Of one GPU; `None` if unknown."""

    def gpus_of(self, containers: Iterable[Resources]) -> float:
        """Return the GPUs that the containers of a pod request.

        Where they say how much of a GPU they need, its scarcer part counts, whatever the number of
        pods that may share one. As HAMi does, 0 is no limit, and no word of the memory is all of it
        (HAMi, `scheduler.defaultMem`).
        """
        return sum(
            number * self._part(resource, container)
            for container in containers
            for resource, number in container.items()
        )

    def _part(self, resource: str, container: Resources) -> float:
        if mig := _MIG.match(resource):
            return int(mig[1]) / _MIG_SLICES
        if not _GPUS.fullmatch(resource):
            return 0.0
        limits = [name for name in _LIMITS if container.get(name)]
        if not limits:
            return self.slots.get(resource, self.slot_ratio)
        if limits == [_CORES]:
            return 1.0
        parts = [container[name] / _PERCENT for name in limits if name != _MEMORY]
        if self.memory_bytes and _MEMORY in limits:
            parts.append(container[_MEMORY] * MIB / self.memory_bytes)
        return min(1.0, max(parts, default=1.0))


def requests_within(length: Nanoseconds) -> str:
    """Return the query for what pods requested within a span, also those that are gone."""
    past = f"[{length // NANOSECONDS_PER_SECOND}s]"
    return f"max by ({_BY}) (max_over_time({_REQUESTED}{past}))"


def containers_of(series: Iterable[SampledSeries]) -> dict[Pod, list[Resources]]:
    """Return what each pod's containers request, from requests by pod, container and resource."""
    requests: defaultdict[Pod, defaultdict[str, dict[str, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for request in series:
        container = first_label(request.labels, ("exported_container", "container"))
        resource = request.labels.get("resource", "")
        requests[Pod.of(request.labels)][container][resource] = request.value
    return {pod: list(containers.values()) for pod, containers in requests.items()}


def slots_by_node(
    store: MetricStore, boards: Mapping[str, int], now: Nanoseconds
) -> dict[str, dict[str, float]]:
    """Return how many GPUs one of each resource is, by node; less than 1 where several share one.

    `boards` counts the GPUs by name of a node.
    """
    slots: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for series in store.instant(_OFFERED, now):
        node = first_label(series.labels, NODE_LABELS)
        names = names_of_node(node)
        count = max(boards.get(name, 0) for name in names)
        if count:
            # Whole numbers: of eight GPUs of which one exports nothing, seven are no slices.
            part = 1.0 / max(1.0, series.value // count)
            for name in names:
                slots[name][series.labels.get("resource", "")] = part
    return dict(slots)


def units_of(
    slots: Mapping[str, Mapping[str, float]], devices: Iterable[FleetDevice] = ()
) -> GpuUnits:
    """Return the units of a cluster: of nodes that differ, the largest part counts."""
    largest: dict[str, float] = {}
    for of_node in slots.values():
        for resource, part in of_node.items():
            largest[resource] = max(part, largest.get(resource, 0.0))
    memories = (device.device.memory_total_bytes for device in devices if device.device.mig is None)
    smallest = min((memory for memory in memories if memory), default=None)
    return GpuUnits(slots=largest, memory_bytes=smallest)


# Pods are also pending while images are pulled, on a node whose GPUs they already hold.
PENDING: Final = (
    f'max by ({POD}) (kube_pod_status_phase{{phase="Pending"}}) == 1 unless on ({POD})'
    f' (max by ({POD}) (kube_pod_status_scheduled{{condition="true"}}) == 1)'
)


def waiting_pods(
    store: MetricStore,
    owners: PodOwners,
    selectors: Sequence[str],
    units: GpuUnits,
    now: Nanoseconds,
) -> tuple[WaitingWork, ...]:
    """Return the work that waits now, by workload: pending pods without a node.

    `selectors` are labels of `kube_pod_nodeselectors` that name a pool, in order of preference.
    """
    requested = store.instant(f"{REQUESTS} and on ({POD}) ({PENDING})", now)
    if not requested:
        return ()
    asked = {pod: units.gpus_of(some) for pod, some in containers_of(requested).items()}
    gpus = {pod: count for pod, count in asked.items() if count > 0}
    created = f"max by ({POD}) (kube_pod_created) and on ({POD}) ({PENDING})"
    since = {Pod.of(series.labels): series.value for series in store.instant(created, now)}
    pools: dict[Pod, str] = {}
    if selectors:
        by = ", ".join((POD, *selectors))
        query = f"group by ({by}) (kube_pod_nodeselectors) and on ({POD}) ({PENDING})"
        for series in store.instant(query, now):
            pools[Pod.of(series.labels)] = first_label(series.labels, selectors)
    owner_by_pod = owners.of(store, gpus, LookbackSpan(now, COARSE_STEP))
    pods: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in sorted(gpus):
        pods[workload_key(pod, owner_by_pod[pod])].append(pod)
    return tuple(
        WaitingWork(
            key=key,
            pool=next((pools[pod] for pod in some if pools.get(pod)), ""),
            gpus=sum(gpus[pod] for pod in some),
            since_seconds=max(
                (seconds(now) - since[pod] for pod in some if pod in since), default=None
            ),
            gpus_each=max(gpus[pod] for pod in some),
            namespace=some[0].namespace,
        )
        for key, some in sorted(pods.items())
    )
