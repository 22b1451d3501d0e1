"""Devices from recorded facts, the catalogue and settings; MIG instance names."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import Catalogue, completed, mig_instance
from rightsizer.model.device import Device, MigInstance
from rightsizer.telemetry.recordings.row import RecordingDeviceFacts

_PROFILE: Final = re.compile(r"\s+MIG\s+(\d+(?:c\.\d+)?g\.\d+gb\S*)", re.IGNORECASE)


def mig_profile(name: str | None) -> str | None:
    """The profile in a name like `NVIDIA A100-SXM4-80GB MIG 1g.10gb`."""
    found = _PROFILE.search(name or "")
    return found[1] if found else None


def whole_name(name: str) -> str:
    """The name of the GPU that an instance's name is made of."""
    return _PROFILE.sub("", name)


def build_devices(
    facts: Mapping[str, RecordingDeviceFacts], catalogue: Catalogue, board: str | None = None
) -> tuple[Device, ...]:
    """The devices in the order of their indices, then of their appearance.

    Args:
        facts: What the recording says, by uuid.
        catalogue: Where a name leads to a board, and the board to what nobody recorded.
        board: The board of devices whose name is not recorded or unknown, as the operator says.

    Raises:
        UsageError: the catalogue has no such board.
    """
    given = None if board is None else catalogue.get(board)
    _adopt(facts)
    parents = {fact.parent_uuid for fact in facts.values() if fact.parent_uuid}
    order = {uuid: at for at, uuid in enumerate(facts)}
    used = {fact.index for fact in facts.values() if fact.index is not None}
    free = (index for index in range(2 * len(facts) + 1) if index not in used)
    built = []
    for uuid, fact in facts.items():
        index = next(free) if fact.index is None else fact.index
        found = None if fact.name is None else catalogue.find(whole_name(fact.name))
        device = _build(uuid, index, fact, found or given)
        built.append(replace(device, has_mig_instances=uuid in parents))
    return tuple(sorted(built, key=lambda device: (device.index, order[device.uuid])))


def _adopt(facts: Mapping[str, RecordingDeviceFacts]) -> None:
    """Tell instances that stand in one slot with a GPU whose they are."""
    wholes = {
        fact.pci_bus_id: uuid
        for uuid, fact in facts.items()
        if fact.mig_profile is None and fact.pci_bus_id is not None
    }
    for fact in facts.values():
        if fact.mig_profile is not None and fact.parent_uuid is None and fact.pci_bus_id:
            fact.parent_uuid = wholes.get(fact.pci_bus_id)


def _build(uuid: str, index: int, facts: RecordingDeviceFacts, board: Board | None) -> Device:
    device = Device(
        uuid=uuid,
        index=index,
        name=facts.name or ("" if board is None else board.usual_name),
        pci_bus_id=facts.pci_bus_id,
        numa_node=facts.numa_node,
        mig=_instance(facts, board),
        memory_total_bytes=_memory(facts),
        power_limit_watts=facts.power_limit_watts,
        sm_clock_maximum_hertz=facts.sm_clock_maximum_hertz,
        pcie_generation_maximum=facts.pcie_generation_maximum,
        pcie_width_maximum=facts.pcie_width_maximum,
    )
    return device if board is None else completed(device, board)


def _memory(facts: RecordingDeviceFacts) -> float | None:
    if facts.memory_total_bytes is not None:
        return facts.memory_total_bytes
    if facts.memory_free_bytes is None or facts.memory_used_bytes is None:
        return None
    return facts.memory_free_bytes + facts.memory_used_bytes + (facts.memory_reserved_bytes or 0.0)


def _instance(facts: RecordingDeviceFacts, board: Board | None) -> MigInstance | None:
    name = facts.mig_profile or mig_profile(facts.name)
    if name is None or board is None:
        return None
    return mig_instance(board, name, facts.parent_uuid or "", facts.gpu_instance_id or 0)
