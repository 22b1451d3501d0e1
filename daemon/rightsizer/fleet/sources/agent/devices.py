"""Devices and workloads of a fleet from the agents' info metrics and the catalogue."""

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import Catalogue, completed, mig_instance
from rightsizer.fleet.model import FleetDevice
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import SampledSeries
from rightsizer.fleet.sources.agent.metrics import MetricForm
from rightsizer.fleet.sources.series import first_label, node_of, word_of
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.frozen import replace
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import Allocator, Workload, WorkloadClass, WorkloadKind
from rightsizer.owners.registry import owner_of

DEVICE_LABELS: Final = (
    *("uuid", "gpu", "pci_bus_id", "model", "architecture"),
    *("parent_uuid", "mig_profile", "numa_node"),
)


def devices_of(
    infos: Iterable[Mapping[str, str]],
    shares: Mapping[str, float],
    figures: Mapping[str, Mapping[str, float]],
    catalogue: Catalogue,
    settings: FleetSettings,
) -> dict[str, FleetDevice]:
    """The devices by uuid.

    `infos` has labels of `rightsizer_device_info`, of each device the latest first; `shares` are of
    a whole GPU, and `figures` by field of `Device`, both by uuid.
    """
    latest: dict[str, Mapping[str, str]] = {}
    for labels in infos:
        if labels.get("uuid"):
            latest.setdefault(labels["uuid"], labels)
    parents = {labels.get("parent_uuid") for labels in latest.values()}
    found = {}
    for uuid, labels in latest.items():
        board = catalogue.find(labels.get("model", ""))
        known = {name: values.get(uuid) for name, values in figures.items()}
        device = _device(labels, board, shares.get(uuid, 1.0), known)
        own = board.key if board else device.name or "unknown"
        found[uuid] = FleetDevice(
            device=replace(device, has_mig_instances=uuid in parents),
            node=node_of(labels),
            pool=first_label(labels, settings.pool_labels) or own,
        )
    return found


def _device(
    labels: Mapping[str, str], board: Board | None, share: float, figures: Mapping[str, Any]
) -> Device:
    mig = None
    parent, profile = labels.get("parent_uuid", ""), labels.get("mig_profile", "")
    if parent or profile:
        mig = None if board is None else mig_instance(board, profile, parent, 0)
        mig = mig or MigInstance(parent, profile, 0, 0, compute_share=share, memory_share=share)
    device = Device(
        uuid=labels["uuid"],
        index=_whole(labels.get("gpu")) or 0,
        name=labels.get("model", ""),
        architecture=labels.get("architecture") or None,
        pci_bus_id=labels.get("pci_bus_id") or None,
        numa_node=_whole(labels.get("numa_node")),
        mig=mig,
        **figures,
    )
    return device if board is None else completed(device, board)


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


WORKLOAD_LABELS: Final = (
    *("workload", "kind", "class", "name"),
    *("exported_namespace", "namespace", "exported_pod", "pod"),
    *("exported_container", "container", "allocator"),
)
"""Where the scrape sets `namespace`, `pod` and `container` of the agent itself, the workload's
are `exported_*`."""
_KEY: Final = re.compile(r"([a-z]+)[:/](.+)", re.DOTALL)


def workload_query(names: AbstractSet[str], keys: Sequence[str], span: Nanoseconds) -> str | None:
    """The query of some workloads over a span; `None` where the store has none."""
    for name in ("workload:rightsizer_workload_info:last5m", "rightsizer_workload_info"):
        if name in names:
            value = MetricForm(name, "last_over_time").promql({"workload": tuple(keys)}, span)
            # Without what changes from pod to pod.
            return (
                "max by (workload, kind, class, name, exported_namespace, namespace, allocator)"
                f" ({value})"
            )
    return None


def workload_of(labels: Mapping[str, str]) -> Workload | None:
    """The workload of a series of `rightsizer_workload_info`; `None` where it has no key."""
    key = labels.get("workload")
    if not key:
        return None
    usual = workload_by_key(key)
    return Workload(
        key=key,
        kind=word_of(WorkloadKind, labels.get("kind", "")) or usual.kind,
        name=labels.get("name") or usual.name,
        workload_class=word_of(WorkloadClass, labels.get("class", "")) or usual.workload_class,
        allocator=word_of(Allocator, labels.get("allocator", "")) or usual.allocator,
        namespace=_own(labels, "namespace") or usual.namespace,
        pod=_own(labels, "pod"),
        container=_own(labels, "container"),
    )


def workload_by_key(key: str) -> Workload:
    """What a key says by itself: `kubernetes:NAMESPACE/NAME`, `slurm:JOB`."""
    parts = _KEY.fullmatch(key)
    kind = (parts and word_of(WorkloadKind, parts[1])) or WorkloadKind.OTHER
    return owner_of(kind).workload_by_key(key, kind, parts[2] if parts else key)


def workloads_of(answer: Iterable[SampledSeries]) -> dict[str, Workload]:
    """The workloads of an answer by key; of many pods the same one each time."""
    known = sorted(
        filter(None, (workload_of(series.labels) for series in answer)),
        key=lambda workload: (
            workload.key,
            # How a workload takes memory is seen a while after it has begun.
            workload.allocator is Allocator.UNKNOWN,
            *(workload.namespace, workload.pod, workload.container),
        ),
    )
    return {workload.key: workload for workload in reversed(known)}


def _own(labels: Mapping[str, str], name: str) -> str:
    exported = f"exported_{name}"
    return labels[exported] if exported in labels else labels.get(name, "")
