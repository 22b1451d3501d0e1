"""Devices as a log or an exporter describes them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import Catalogue, completed, mig_instance
from rightsizer.model.values import Device, Nanoseconds

_PROFILE: Final = re.compile(r"\s+MIG\s+(\d+(?:c\.\d+)?g\.\d+gb\S*)", re.IGNORECASE)
_AS_DESCRIBED: Final = (
    "pci_bus_id",
    "numa_node",
    "power_limit_watts",
    "sm_clock_maximum_hertz",
    "pcie_generation_maximum",
    "pcie_width_maximum",
)
"""Facts that equal fields of a device."""


@dataclass(slots=True)
class DeviceDescription:
    """Constant facts of a device in a file or a page; the first value wins."""

    index: int | None = None
    name: str | None = None
    pci_bus_id: str | None = None
    numa_node: int | None = None
    power_limit_watts: float | None = None
    memory_total_bytes: float | None = None
    memory_free_bytes: float | None = None
    memory_used_bytes: float | None = None
    memory_reserved_bytes: float | None = None
    sm_clock_maximum_hertz: float | None = None
    pcie_generation_maximum: int | None = None
    pcie_width_maximum: int | None = None
    parent_uuid: str | None = None
    mig_profile: str | None = None
    gpu_instance_id: int | None = None
    sizes: dict[str, tuple[Nanoseconds, float]] = field(default_factory=dict)
    """Of parts of memory: negative time, and bytes."""

    def learn_size(self, part: str, size: float, time: Nanoseconds) -> None:
        """Keep the size of a part of memory at the earliest time, of several then the largest."""
        self.sizes[part] = max((-time, size), self.sizes.get(part, (-time, size)))
        setattr(self, part, self.sizes[part][1])

    def learn(self, other: "DeviceDescription") -> None:
        """Add the other's facts that are missing here."""
        for fact in fields(self):
            if getattr(self, fact.name) is None:
                setattr(self, fact.name, getattr(other, fact.name))


def mig_profile(name: str | None) -> str | None:
    """Return the profile in a name like `NVIDIA A100-SXM4-80GB MIG 1g.10gb`."""
    match = _PROFILE.search(name or "")
    return match[1] if match else None


def build_devices(
    facts: Mapping[str, DeviceDescription], catalogue: Catalogue, board: str | None = None
) -> tuple[Device, ...]:
    """Return the devices by index, then by appearance.

    `board` is for devices whose name is unknown or not recorded.

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
        # Remove the instance's part of the name.
        whole = None if fact.name is None else _PROFILE.sub("", fact.name)
        listed_board = None if whole is None else catalogue.find(whole)
        device = _build(uuid, index, fact, listed_board or given)
        built.append(replace(device, has_mig_instances=uuid in parents))
    return tuple(sorted(built, key=lambda device: (device.index, order[device.uuid])))


def _adopt(facts: Mapping[str, DeviceDescription]) -> None:
    """Assign instances to the GPU in the same slot."""
    wholes = {
        fact.pci_bus_id: uuid
        for uuid, fact in facts.items()
        if fact.mig_profile is None and fact.pci_bus_id is not None
    }
    for fact in facts.values():
        if fact.mig_profile is not None and fact.parent_uuid is None and fact.pci_bus_id:
            fact.parent_uuid = wholes.get(fact.pci_bus_id)


def _build(uuid: str, index: int, facts: DeviceDescription, board: Board | None) -> Device:
    memory = facts.memory_total_bytes
    profile = facts.mig_profile or mig_profile(facts.name)
    free = facts.memory_free_bytes
    used = facts.memory_used_bytes
    if memory is None and free is not None and used is not None:
        memory = free + used + (facts.memory_reserved_bytes or 0.0) or None
    mig = None
    is_part = profile is not None or facts.gpu_instance_id is not None
    if profile is not None and board is not None:
        mig = mig_instance(board, profile, facts.parent_uuid or "", facts.gpu_instance_id or 0)
    device = Device(
        uuid=uuid,
        index=index,
        has_index=facts.index is not None,
        name=facts.name or ("" if board is None else board.usual_name),
        mig=mig,
        memory_total_bytes=memory,
        **{name: getattr(facts, name) for name in _AS_DESCRIBED},
    )
    # Of a part of unknown size, the board's figures are not its own.
    return device if board is None or (is_part and mig is None) else completed(device, board)
