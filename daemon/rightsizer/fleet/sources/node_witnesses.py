"""What other exporters say of nodes whose GPUs are not seen any more."""

from collections.abc import Collection, Mapping
from typing import Final

from msgspec.structs import replace

from rightsizer.fleet.model import FleetInventory, NodeWitness
from rightsizer.fleet.prometheus.selector import any_of, quoted, selector
from rightsizer.fleet.source import MetricStore, SampledSeries
from rightsizer.fleet.sources.pod_owners import NODE_LABELS
from rightsizer.fleet.sources.series import first_label, instance_of, names_of_node, shares_of
from rightsizer.model.values import NANOSECONDS_PER_SECOND, Nanoseconds

_BY: Final = ", ".join((*NODE_LABELS, "resource"))
_GPUS: Final = 'resource=~"nvidia_com_gpu(_.+)?"'
_OFFERS: Final = ("kube_node_status_capacity", "kube_node_status_allocatable")


def with_witnesses(
    store: MetricStore, inventory: FleetInventory, now: Nanoseconds, lookback: Nanoseconds
) -> FleetInventory:
    """Add to devices that are gone what Kubernetes and other targets say of their nodes."""
    gone = {uuid: device for uuid, device in inventory.devices.items() if device.seen[1] < now}
    nodes = {name for device in gone.values() for name in names_of_node(device.node) if name}
    witnesses: dict[str, NodeWitness] = {}
    for some in shares_of(sorted(nodes)):
        witnesses |= _witnesses(store, some, now, lookback)
    devices = {
        uuid: replace(device, witness=next(witnesses[name] for name in names if name in witnesses))
        for uuid, device in gone.items()
        if not witnesses.keys().isdisjoint(names := names_of_node(device.node))
    }
    return replace(inventory, devices={**inventory.devices, **devices})


def _witnesses(
    store: MetricStore, nodes: Collection[str], now: Nanoseconds, lookback: Nanoseconds
) -> dict[str, NodeWitness]:
    ready = _highest(
        store, "kube_node_status_condition", nodes, 'condition="Ready",status="true"', now
    )
    targets = _targets(store, nodes, now)
    shrunk: dict[str, bool] = {}
    for metric in _OFFERS:
        offered = _highest(store, metric, nodes, _GPUS, now)
        highest = _highest(store, metric, nodes, _GPUS, now, lookback)
        for node in offered.keys() & highest.keys():
            shrunk[node] = shrunk.get(node, False) or offered[node] < highest[node]
    witnesses = {}
    for node in ready.keys() | targets.keys() | shrunk.keys():
        by_kubernetes = ready.get(node)
        up = targets.get(node) if by_kubernetes is None else by_kubernetes
        source = "its other targets" if by_kubernetes is None else "Kubernetes"
        is_up = None if up is None else up > 0
        witnesses[node] = NodeWitness(is_up, source, has_shrunk=shrunk.get(node))
    return witnesses


def _highest(  # noqa: PLR0913, PLR0917 - all that a query has.
    store: MetricStore,
    metric: str,
    nodes: Collection[str],
    matchers: str,
    now: Nanoseconds,
    past: Nanoseconds = 0,
) -> dict[str, float]:
    """Return the sum over resources of a metric by node, of replicated exporters the highest."""
    span = f"[{past // NANOSECONDS_PER_SECOND}s]"
    parts = [selector(metric, {label: nodes}, matchers) for label in NODE_LABELS]
    over = [f"max_over_time({part}{span})" if past else part for part in parts]
    sums: dict[str, float] = {}
    for series in store.instant(f"max by ({_BY}) ({' or '.join(over)})", now):
        node = first_label(series.labels, NODE_LABELS)
        sums[node] = sums.get(node, 0.0) + series.value
    return sums


def _targets(store: MetricStore, nodes: Collection[str], now: Nanoseconds) -> Mapping[str, float]:
    """Return whether any target of a node answers, by its name or the host of its address."""
    hosts = f"instance=~{quoted(f'(?:{any_of(nodes)})(?::[0-9]+)?')}"
    targets = f"{selector('up', {'node': nodes})} or {selector('up', {}, hosts)}"
    query = f"max by (node, instance) ({targets})"
    up_by_node: dict[str, float] = {}
    for series in store.instant(query, now):
        node = _node_of(series, nodes)
        up_by_node[node] = max(series.value, up_by_node.get(node, 0.0))
    return up_by_node


def _node_of(series: SampledSeries, nodes: Collection[str]) -> str:
    node = series.labels.get("node", "")
    return node if node in nodes else instance_of(series.labels)
