"""Devices of an estate, by what their agents export of them and what the catalogue knows."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.catalogue.completion import completed, mig_instance
from rightsizer.domain.device import Device, MigInstance
from rightsizer.fleet.estate import EstateDevice
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.sources.labels import first_label, node_of

__all__ = ["DEVICE_LABELS", "NODE_LABELS", "Capacities", "estate_devices"]

DEVICE_LABELS: Final = (
    *("uuid", "gpu", "pci_bus_id", "model", "architecture"),
    *("parent_uuid", "mig_profile", "numa_node"),
)
NODE_LABELS: Final = ("instance", "node", "nodename", "Hostname", "hostname", "kubernetes_node")
_UNKNOWN_POOL: Final = "unknown"

Values = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Capacities:
    """What is measured of devices, by uuid."""

    shares: Values = field(default_factory=dict)
    memory_bytes: Values = field(default_factory=dict)
    power_limit_watts: Values = field(default_factory=dict)


def estate_devices(
    infos: Iterable[Mapping[str, str]],
    capacities: Capacities,
    catalogue: Catalogue,
    settings: FleetSettings,
) -> dict[str, EstateDevice]:
    """The devices by uuid.

    Args:
        infos: Labels of `rightsizer_device_info`, of each device the latest first.
        capacities: What is measured of them.
        catalogue: What is known of their boards.
        settings: Which labels name pools and clusters.
    """
    latest: dict[str, Mapping[str, str]] = {}
    for labels in infos:
        if labels.get("uuid"):
            latest.setdefault(labels["uuid"], labels)
    parents = {labels["parent_uuid"] for labels in latest.values() if labels.get("parent_uuid")}
    found = {}
    for uuid, labels in latest.items():
        board = catalogue.find(labels.get("model", ""))
        device = _device(uuid, labels, board, capacities)
        found[uuid] = EstateDevice(
            device=replace(device, has_mig_instances=uuid in parents),
            node=node_of(labels),
            pool=first_label(labels, settings.pool_labels)
            or (board.key if board else device.name or _UNKNOWN_POOL),
            cluster=labels.get(settings.cluster_label, ""),
        )
    return found


def _device(
    uuid: str, labels: Mapping[str, str], board: Board | None, capacities: Capacities
) -> Device:
    mig = _instance(uuid, labels, board, capacities)
    device = Device(
        uuid=uuid,
        index=_whole(labels.get("gpu")) or 0,
        name=labels.get("model", ""),
        architecture=labels.get("architecture") or None,
        pci_bus_id=labels.get("pci_bus_id") or None,
        numa_node=_whole(labels.get("numa_node")),
        mig=mig,
        memory_total_bytes=capacities.memory_bytes.get(uuid),
        power_limit_watts=capacities.power_limit_watts.get(uuid),
    )
    return device if board is None else completed(device, board)


def _instance(
    uuid: str, labels: Mapping[str, str], board: Board | None, capacities: Capacities
) -> MigInstance | None:
    parent, name = labels.get("parent_uuid", ""), labels.get("mig_profile", "")
    if not (parent or name):
        return None
    known = None if board is None else mig_instance(board, name, parent, 0)
    share = capacities.shares.get(uuid, 1.0)
    return known or MigInstance(parent, name, 0, 0, compute_share=share, memory_share=share)


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None
