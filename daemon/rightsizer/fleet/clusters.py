"""Clusters of a store: detection, selection, and unique names across them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Final

from rightsizer.fleet.cache.grid import COARSE_STEP
from rightsizer.fleet.model import Cluster, DeviceHolding, FleetDay, FleetInventory
from rightsizer.fleet.prometheus.selector import quoted
from rightsizer.fleet.source import MetricStore
from rightsizer.fleet.sources.dcgm_exporter.probe import UUID_LABELS, presence_spellings
from rightsizer.fleet.sources.series import divided, one_of, over_time
from rightsizer.model.frozen import replace
from rightsizer.model.units import Nanoseconds

CLUSTER_LABELS: Final = (
    *("cluster", "k8s_cluster", "cluster_name", "k8s_cluster_name", "kubernetes_cluster"),
)
"""Labels that usually distinguish clusters."""
_TENANT: Final = "__tenant_id__"
"""Mimir's label if `fleet.store.tenant` names several; each has clusters of its own."""
_DEVICES: Final = (
    f"{{{one_of('__name__', ('rightsizer_device_up', *presence_spellings()))}}}",
    "last_over_time(uuid:rightsizer_device_info:last5m[10m])",
)
_SCHEDULERS: Final = (
    'kube_pod_container_resource_requests{resource=~"nvidia_com_(gpu.*|mig_.+)"}',
    '{__name__=~"kube_node_(info|labels)|slurm_(queue|partition_jobs)_pending"}',
    '{__name__=~"slurm_(job|node)_info"}',
)
"""Metrics with few series, compared with those of every pod."""
_EVERY: Final[Nanoseconds] = 6 * COARSE_STEP
_Place = tuple[tuple[str, str], ...]
"""Labels of a cluster with their values, without empty ones."""


def clusters_in(
    store: MetricStore, label: str, now: Nanoseconds, lookback: Nanoseconds
) -> tuple[tuple[Cluster, ...], tuple[str, ...]]:
    """Return the clusters of all GPUs in the lookback, and warnings; unnamed if no label tells.

    `label` distinguishes them; if empty, the first usual one that a series has.

    Raises:
        StoreError: the store does not answer.
    """
    labels = (label,) if label else CLUSTER_LABELS
    by = ", ".join(dict.fromkeys((_TENANT, *labels)))
    devices, schedulers = (
        " or ".join(f"group by ({by}) ({each})" for each in some)
        for some in (_DEVICES, _SCHEDULERS)
    )
    start = now - lookback // _EVERY * _EVERY
    over = over_time(devices, start, now, _EVERY)
    seen = [series.labels for series in divided(store, over, UUID_LABELS)]
    of_schedulers = [series.labels for series in store.instant(schedulers, now)]
    known = (_TENANT, *labels)
    used = [name for name in known if any(each.get(name) for each in (*seen, *of_schedulers))]
    places = sorted({_place(each, used) for each in seen})
    others = {_place(each, used) for each in of_schedulers} - set(places)
    tenants = {value for place in (*places, *others) for name, value in place if name == _TENANT}
    names = [_name(place, is_one_tenant=len(tenants) == 1) for place in places]
    if len(places) <= 1 and len({*places, *others} - {()}) <= 1:
        # One cluster; some of its series may lack the label.
        return (Cluster(next(iter(names), "")),), ()
    is_several = len(set(names)) > 1
    found = tuple(
        Cluster(name, name if is_several else "", _matchers(place, used))
        for name, place in zip(names, places, strict=True)
    )
    if not any(all(name == _TENANT for name, _ in place) for place in others):
        return found, ()
    warning = (
        f"Some series of schedulers have no label that tells their cluster ({', '.join(used)}) "
        "and are left out: their pods, jobs and pools could be of any; give them the label."
    )
    return found, (warning,)


def _place(labels: Mapping[str, str], used: Sequence[str]) -> _Place:
    """Return the tenant, and the first cluster label."""
    found = [(name, labels[name]) for name in used if labels.get(name)]
    tenant = [each for each in found if each[0] == _TENANT]
    return (*tenant, *found[len(tenant) : len(tenant) + 1])


def _name(place: _Place, *, is_one_tenant: bool) -> str:
    shown = place[1:] if is_one_tenant and len(place) > 1 and place[0][0] == _TENANT else place
    return "/".join(value for _, value in shown)


def _matchers(place: _Place, used: Sequence[str]) -> str:
    """Return matchers of a cluster's series only: labels preferred to its own must be empty."""
    values = dict(place)
    last = max((used.index(name) for name in values if name != _TENANT), default=len(used) - 1)
    return ",".join(f"{name}={quoted(values.get(name, ''))}" for name in used[: last + 1])


def inventory_in(cluster: Cluster, found: FleetInventory) -> FleetInventory:
    """Return the inventory of a cluster with names unique in the fleet."""
    named = cluster.named
    return FleetInventory(
        devices={
            uuid: replace(
                each,
                cluster=cluster.name,
                pool=named(each.pool),
                # Includes the host in the device's name.
                device=replace(each.device, host=each.node),
            )
            for uuid, each in found.devices.items()
        },
        workloads={
            named(key): replace(workload, key=named(workload.key))
            for key, workload in found.workloads.items()
        },
        teams={named(key): team for key, team in found.teams.items()},
        advice=tuple(
            replace(each, cluster=cluster.name, workload=named(each.workload))
            for each in found.advice
        ),
        waiting=tuple(
            replace(each, cluster=cluster.name, key=named(each.key), pool=named(each.pool))
            for each in found.waiting
        ),
    )


def day_in(cluster: Cluster, day: FleetDay) -> FleetDay:
    """Return a day with the names of its cluster's workloads."""
    if not cluster.prefix:
        return day

    def named(held: DeviceHolding) -> DeviceHolding:
        key = cluster.named(held.workload.key)
        return replace(held, workload=replace(held.workload, key=key))

    holdings = {uuid: tuple(map(named, held)) for uuid, held in day.holdings.items()}
    return replace(day, holdings=holdings)


def joined(inventories: Iterable[FleetInventory]) -> FleetInventory:
    """Merge the inventories of clusters, with devices in order.

    A device found in two clusters belongs to the first.
    """
    whole = reduce(FleetInventory.merged, inventories, FleetInventory())
    by_place = sorted(
        whole.devices.items(),
        key=lambda each: (each[1].cluster, each[1].node, each[1].device.index, each[0]),
    )
    return replace(whole, devices=dict(by_place))
