"""Which of our devices an exporter's device is, by uuid, slot, or place on its GPU."""

from collections.abc import Iterable, Mapping, Sequence

from rightsizer.domain.device import Device
from rightsizer.telemetry.dcgm.view import View
from rightsizer.telemetry.owners.device_key import pci_key

__all__ = ["matches", "strangers"]


def matches(ours: Iterable[Device], view: View) -> Mapping[str, str]:
    """Our uuid by the exporter's name of a device, for those that both know.

    A MIG instance goes by its own uuid, or by its GPU and GPU instance id. Where compute instances
    share a GPU instance, what is told of it is told of none of them.
    """
    uuids: set[str] = set()
    slots: dict[str, str] = {}
    places: dict[tuple[str, int], list[str]] = {}
    for device in ours:
        uuids.add(device.uuid)
        if device.mig is not None:
            place = (device.mig.parent_uuid, device.mig.gpu_instance_id)
            places.setdefault(place, []).append(device.uuid)
        elif device.pci_bus_id:
            slots[pci_key(device.pci_bus_id)] = device.uuid
    known = {device.uuid: device for device in view.devices}
    found: dict[str, str] = {}
    for key in view.told:
        if key in uuids:
            found[key] = key
        elif key in view.instances:
            parent, number = view.instances[key]
            at = places.get((found.get(parent, parent), number), [])
            if len(at) == 1:
                found[key] = at[0]
        elif (slot := _nameless_slot(known[key])) in slots:
            found[key] = slots[slot]
    return found


def strangers(ours: Sequence[Device], view: View) -> tuple[Device, ...]:
    """Devices that the exporter alone knows: none that may be one of ours by another name."""
    uuids = {device.uuid for device in ours}
    slots = {pci_key(device.pci_bus_id) for device in ours if device.pci_bus_id}
    return tuple(device for device in view.devices if _is_stranger(device, uuids, slots))


def _is_stranger(device: Device, uuids: set[str], slots: set[str]) -> bool:
    if device.uuid in uuids or pci_key(device.pci_bus_id or "") in slots:
        return False
    if device.uuid.startswith("index:"):
        return not uuids
    if device.mig is not None:
        return device.mig.parent_uuid not in uuids
    # An instance of a board that the catalogue does not know: of what size nobody can say.
    return "/gi" not in device.uuid and not device.uuid.startswith("MIG-")


def _nameless_slot(device: Device) -> str:
    """Where a device sits that has no uuid; what has one is not looked for by its place."""
    return pci_key(device.pci_bus_id or "") if device.uuid.startswith("index:") else ""
