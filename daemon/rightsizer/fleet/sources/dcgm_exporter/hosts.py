"""Nodes of GPUs, by what exporters and scrapes report as their host."""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from itertools import chain
from typing import Final

from rightsizer.fleet.sources.dcgm_exporter.probe import INDEX_LABELS, NODE_LABELS, device_of
from rightsizer.fleet.sources.series import first_label, instance_of
from rightsizer.model.dcgm_fields import EXPORTER

_ADDRESS: Final = re.compile(r"\d+(?:\.\d+){3}|[\da-fA-F]*:[\da-fA-F:.]+")
_CONTAINER: Final = re.compile(r"[0-9a-f]{12}")
"""Host of a container, unless started with another. That of a pod is the pod."""
_LOCAL: Final = re.compile(rf"|localhost|127\..*|.*{EXPORTER}.*")
"""Targets of Prometheus on the same machine."""


def shared_hosts(series: Iterable[Mapping[str, str]]) -> frozenset[str]:
    """Return the hosts that name no node: several targets have a GPU of one index there.

    With `-r` dcgm-exporter 4 reports the address of DCGM: `localhost`, or a service of Kubernetes.
    """
    gpus_by_host = defaultdict[tuple[str, str], dict[str, set[str]]](lambda: defaultdict(set))
    for labels in series:
        entity = device_of(labels)
        index = first_label(labels, INDEX_LABELS)
        if entity is not None and index:
            for name in filter(None, map(labels.get, NODE_LABELS)):
                gpu = entity.whole or entity.device
                gpus_by_host[name, index][labels.get("instance", "")].add(gpu)
    return frozenset(
        name
        for (name, _), gpus in gpus_by_host.items()
        if len(gpus) > 1 and len(set[str]().union(*gpus.values())) > 1
    )


def hosts_of(labels: Mapping[str, str], shared: Container[str] = ()) -> tuple[list[str], list[str]]:
    """Return the nodes, and the pods (the exporter's or the holder's), that labels report.

    The exporter's pod is included if nodes have no names but addresses.
    """
    pods = {labels.get(label) for label in ("pod", "exported_pod", "pod_name")}
    names = [labels[label] for label in NODE_LABELS if labels.get(label)]
    pod_names = [name for name in names if EXPORTER in name or name in pods]
    is_host = any(pods) or _LOCAL.fullmatch(instance_of(labels)) is not None
    nodes = [
        name
        for name in names
        if not (name in pod_names or name in shared or (_CONTAINER.fullmatch(name) and not is_host))
    ]
    exporter = labels.get("pod", "")
    is_named = any(not _ADDRESS.fullmatch(name) for name in nodes)
    if not is_named and (EXPORTER in exporter or labels.get("exported_pod")):
        pod_names.append(exporter)
    return nodes, pod_names


def node_of(
    labels: Mapping[str, str], node_of_pod: Mapping[str, str], shared: Container[str] = ()
) -> str:
    """Return the reported node, else the node of a reported pod, else the scraped instance.

    A name goes before an address.
    """
    nodes, pods = hosts_of(labels, shared)
    nodes += [node_of_pod[pod] for pod in pods if pod in node_of_pod]
    names = (name for name in nodes if not _ADDRESS.fullmatch(name))
    return next(chain(names, nodes), instance_of(labels))
