"""Clusters of a store: detection, selection, and unique names across them."""

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import Final

from msgspec.structs import replace

from rightsizer.fleet.cache.grid import COARSE_STEP
from rightsizer.fleet.model import Cluster, DeviceHolding, FleetDay, FleetInventory
from rightsizer.fleet.prometheus.selector import quoted
from rightsizer.fleet.source import MetricStore
from rightsizer.fleet.sources.dcgm_names import presence_spellings
from rightsizer.fleet.sources.series import divided, first_label, one_of, over_time
from rightsizer.model.dcgm_fields import UUID_LABELS
from rightsizer.model.values import Nanoseconds

CLUSTER_LABELS: Final = (
    "cluster",
    "k8s_cluster",
    "cluster_name",
    "k8s_cluster_name",
    "kubernetes_cluster",
)
"""Labels that usually distinguish clusters."""
_TENANT: Final = "__tenant_id__"
"""Mimir's label if `fleet.store.tenant` names several; each has clusters of its own."""
_PROJECT, _LOCATION = _GOOGLE = ("project_id", "location")
"""Labels of Google's collectors: a cluster's name is unique in a project's location alone."""
_OUTER: Final = ("region", "datacenter", "site", "environment", "env", "account_id")
"""External labels that tell clusters of one name apart, if schedulers' series differ by them."""
_DEVICES: Final = (
    f"{{{one_of('__name__', ('rightsizer_device_up', *presence_spellings()))}}}",
    "last_over_time(uuid:rightsizer_device_info:last5m[10m])",
)
_SCHEDULERS: Final = (
    'kube_pod_container_resource_requests{resource=~"nvidia_com_(gpu.*|mig_.+)"}',
    '{__name__=~"kube_node_info|kube_node_labels|slurm_queue_pending|slurm_partition_jobs_pending"}',
    '{__name__=~"slurm_job_info|slurm_node_info"}',
)
"""Metrics with few series, compared with those of every pod."""
_EVERY: Final[Nanoseconds] = 6 * COARSE_STEP
_Place = tuple[tuple[str, str], ...]
"""Labels of a cluster with their values, without empty ones."""


def label_names(setting: str) -> list[str]:
    """Return the names of labels in a setting, separated by commas."""
    return [name.strip() for name in setting.split(",") if name.strip()]


def clusters_in(
    store: MetricStore, label: str, now: Nanoseconds, lookback: Nanoseconds
) -> tuple[tuple[Cluster, ...], tuple[str, ...]]:
    """Return the clusters of all GPUs in the lookback, and warnings; unnamed if no label tells.

    `label` distinguishes them, or several together; if empty, the first usual one that a series
    has, with others that tell clusters of one name apart.

    Raises:
        StoreError: the store does not answer.
    """
    given = label_names(label)
    labels = given or (*_GOOGLE, *_OUTER, *CLUSTER_LABELS)
    by = ", ".join(dict.fromkeys((_TENANT, *labels)))
    devices, schedulers = (
        " or ".join(f"group by ({by}) ({metric})" for metric in some)
        for some in (_DEVICES, _SCHEDULERS)
    )
    start = now - lookback // _EVERY * _EVERY
    over = over_time(devices, start, now, _EVERY)
    seen = divided(store, over, UUID_LABELS)
    of_schedulers = [series.labels for series in store.instant(schedulers, now)]
    all_labels = (*(sampled_series.labels for sampled_series in seen), *of_schedulers)
    around = given[:-1] if given else _around(all_labels, of_schedulers)
    cluster_labels = given[-1:] if given else CLUSTER_LABELS
    usual = tuple(dict.fromkeys((_TENANT, *around, *cluster_labels)))
    used = [name for name in usual if any(all_label.get(name) for all_label in all_labels)]
    last: dict[_Place, Nanoseconds] = {}
    for series in seen:
        place = _place(series.labels, used, around)
        last[place] = max(series.span[1], last.get(place, 0))
    # A device belongs to the first cluster that has it: those that have ended come last.
    places = sorted(last, key=lambda place: (-last[place], place))
    others = {_place(scheduler, used, around) for scheduler in of_schedulers} - set(places)
    names = _names((*places, *others))
    if len(places) <= 1 and len({names[name] for name in names if name}) <= 1:
        # One cluster; some of its series may lack the label, or have another.
        return (Cluster(next((names[place] for place in places), "")),), ()
    is_several = len({names[place] for place in places}) > 1
    clusters = tuple(
        Cluster(names[place], names[place] if is_several else "", _matchers(place, used))
        for place in places
    )
    return clusters, tuple(_left_out(others, {names[place] for place in places}, names, used))


def _left_out(
    others: Iterable[_Place],
    cluster_names: Container[str],
    names: Mapping[_Place, str],
    used: Iterable[str],
) -> Iterator[str]:
    """Yield a sentence on series of schedulers that no cluster of devices matches."""
    listed = ", ".join(used)
    if any(all(name == _TENANT for name, _ in place) for place in others):
        yield (
            f"Some series of schedulers have no label that tells their cluster ({listed}) "
            "and are left out: their pods, jobs and pools could be of any; give them the label."
        )
    if renamed := sorted(
        names[place] for place in others if place and names[place] in cluster_names
    ):
        yield (
            f"Series of schedulers name a cluster ({', '.join(renamed)}) by another label than "
            f"its GPUs ({listed}) and are left out; give both the same label."
        )


def _around(
    all_labels: Sequence[Mapping[str, str]], of_schedulers: Sequence[Mapping[str, str]]
) -> Sequence[str]:
    """Return the labels that belong to a cluster's name beside its own.

    Of other collectors than Google's, a pod has a project or a location within its cluster. Other
    labels are external only if all series have them, and the schedulers of one name differ.
    """
    if any(
        all(map(label.get, _GOOGLE)) and any(map(label.get, CLUSTER_LABELS)) for label in all_labels
    ):
        return _GOOGLE
    outer_labels = []
    for name in _OUTER:
        values = defaultdict[str, set[str]](set)
        for scheduler in of_schedulers:
            values[first_label(scheduler, CLUSTER_LABELS)].add(scheduler.get(name, ""))
        differs = any(len(some) > 1 for some in values.values())
        if differs and all(label.get(name) for label in all_labels):
            outer_labels.append(name)
    return outer_labels


def _place(labels: Mapping[str, str], used: Sequence[str], around: Sequence[str]) -> _Place:
    """Return the tenant, the labels around, and the first cluster label."""
    pairs = [(name, labels[name]) for name in used if labels.get(name)]
    outer = [pair for pair in pairs if pair[0] == _TENANT]
    named = [pair for pair in pairs if pair[0] not in (_TENANT, *around)]
    if named and all(map(labels.get, around)):
        outer += [pair for pair in pairs if pair[0] in around]
    return (*outer, *named[:1])


def _names(places: Collection[_Place]) -> dict[_Place, str]:
    """Return the names of clusters, without what is the same in all of them."""
    values = defaultdict[str, set[str]](set)
    for name, value in chain.from_iterable(places):
        values[name].add(value)
    whole = {place: "/".join(value for _, value in place) for place in places}
    short = {}
    for place in places:
        around = [value for name, value in place[:-1] if len(values[name]) > 1]
        short[place] = "/".join((*around, *(value for _, value in place[-1:])))
    return short if len({*short.values()}) == len({*whole.values()}) else whole


def _matchers(place: _Place, used: Sequence[str]) -> str:
    """Return matchers of a cluster's series only: labels preferred to its own must be empty."""
    values = dict(place)
    last = max((used.index(name) for name in values if name != _TENANT), default=len(used) - 1)
    wanted = (
        name
        for name in used[: last + 1]
        if name in values or name != _LOCATION or _PROJECT not in used
    )
    return ",".join(f"{name}={quoted(values.get(name, ''))}" for name in wanted)


def inventory_in(cluster: Cluster, inventory: FleetInventory) -> FleetInventory:
    """Return the inventory of a cluster with names unique in the fleet."""
    named = cluster.named
    return FleetInventory(
        devices={
            uuid: replace(
                device,
                cluster=cluster.name,
                pool=named(device.pool),
                # Includes the host in the device's name.
                device=replace(device.device, host=device.node),
            )
            for uuid, device in inventory.devices.items()
        },
        workloads={
            named(key): replace(workload, key=named(workload.key))
            for key, workload in inventory.workloads.items()
        },
        teams={named(key): team for key, team in inventory.teams.items()},
        advice=tuple(
            replace(advice, cluster=cluster.name, workload=named(advice.workload))
            for advice in inventory.advice
        ),
        waiting=tuple(
            replace(
                waiting_work,
                cluster=cluster.name,
                key=named(waiting_work.key),
                pool=named(waiting_work.pool),
            )
            for waiting_work in inventory.waiting
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


def unclear_clusters(inventories: Iterable[tuple[Cluster, FleetInventory]]) -> Iterator[str]:
    """Yield a sentence on clusters without GPUs now, and on GPUs of several, by cluster."""
    clusters_by_uuid = defaultdict[str, list[str]](list)
    for cluster, inventory in inventories:
        shown = cluster.name or "without a name"
        if not inventory.devices:
            yield (
                f"Cluster {shown} has had GPUs within fleet.lookback, but has none now: it has "
                "ended, is not scraped, or its label was changed; their time is not counted."
            )
        for uuid in inventory.devices:
            clusters_by_uuid[uuid].append(shown)
    several = Counter(tuple(names) for names in clusters_by_uuid.values() if len(names) > 1)
    for (first, *others), count in sorted(several.items()):
        yield (
            f"{count} GPUs or instances of cluster {first} are in {' and '.join(others)}, too: "
            "each is counted once; scrape them with one value of the label."
        )


def joined(inventories: Iterable[FleetInventory]) -> FleetInventory:
    """Merge the inventories of clusters, with devices in order.

    A device found in two clusters belongs to the first.
    """
    whole = reduce(FleetInventory.merged, inventories, FleetInventory())
    by_place = sorted(
        whole.devices.items(),
        key=lambda item: (item[1].cluster, item[1].node, item[1].device.index, item[0]),
    )
    return replace(whole, devices=dict(by_place))
