"""The devices that an estate's series are about, completed by the catalogue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.catalogue.completion import completed, mig_instance
from rightsizer.domain.dcgm_labels import Entity
from rightsizer.domain.device import Device
from rightsizer.domain.plausible import plausible
from rightsizer.domain.reading import Missing
from rightsizer.domain.signal import Signal
from rightsizer.fleet.estate import EstateDevice
from rightsizer.fleet.sources.dcgm_exporter.labels import device_of, node_of
from rightsizer.fleet.sources.labels import first_label

__all__ = ["Figures", "estate_devices"]

_NAME_LABELS: Final = ("modelName", "model", "model_name")
_PROFILE_LABELS: Final = ("GPU_I_PROFILE", "dra_mig_profile", "mig_profile")


@dataclass(frozen=True, slots=True)
class Figures:
    """What fields say of devices once and for all, by device, in base units."""

    memory_bytes: Mapping[str, float] = field(default_factory=dict)
    power_limit_watts: Mapping[str, float] = field(default_factory=dict)
    sm_clock_maximum_hertz: Mapping[str, float] = field(default_factory=dict)


def estate_devices(
    seen: Sequence[Mapping[str, str]],
    figures: Figures,
    catalogue: Catalogue,
    node_of_pod: Mapping[str, str],
    cluster_label: str,
) -> dict[str, EstateDevice]:
    """The devices by uuid; GPUs that have instances are among them, and marked.

    Instances of a board that the catalogue does not know are left out: nobody can say how
    large a part they are.

    Args:
        seen: The labels of each series, the newest last.
        figures: What is known beside the labels.
        catalogue: Where a name leads to a board.
        node_of_pod: The node of each exporter's pod, for those that call themselves by it.
        cluster_label: What tells clusters apart.
    """
    labels_of: dict[str, tuple[Entity, Mapping[str, str]]] = {}
    for labels in seen:
        entity = device_of(labels)
        if entity is not None:
            former = labels_of.get(entity.device, (entity, {}))[1]
            labels_of[entity.device] = entity, {**former, **labels}
    parents = {entity.whole for entity, _ in labels_of.values() if entity.is_instance}
    found: dict[str, EstateDevice] = {}
    for uuid, (entity, labels) in sorted(labels_of.items()):
        device = _device(entity, labels, figures, catalogue)
        if device is None:
            continue
        device = replace(device, has_mig_instances=uuid in parents)
        found[uuid] = EstateDevice(
            device,
            node_of(labels, node_of_pod),
            device.board or device.name or "unknown",
            labels.get(cluster_label, ""),
        )
    return found


def reading_of(signal: Signal, value: float) -> float | None:
    """A figure that can be true, else nothing."""
    found = plausible(signal, value)
    return None if isinstance(found, Missing) or not found else found


def _device(
    entity: Entity, labels: Mapping[str, str], figures: Figures, catalogue: Catalogue
) -> Device | None:
    name, index = first_label(labels, _NAME_LABELS), labels.get("gpu", "")
    board = catalogue.find(name) if name else None
    profile = first_label(labels, _PROFILE_LABELS)
    instance = None
    if entity.is_instance:
        if board is None or not profile:
            return None
        instance = mig_instance(board, profile, entity.whole or "", entity.gpu_instance_id or 0)
        if instance is None:
            return None
    uuid = entity.device
    device = Device(
        uuid=uuid,
        index=int(index) if index.isdigit() else 0,
        name=name,
        pci_bus_id=labels.get("pci_bus_id") or None,
        mig=instance,
        memory_total_bytes=figures.memory_bytes.get(uuid),
        power_limit_watts=figures.power_limit_watts.get(uuid),
        sm_clock_maximum_hertz=figures.sm_clock_maximum_hertz.get(uuid),
    )
    return device if board is None else completed(device, board)
