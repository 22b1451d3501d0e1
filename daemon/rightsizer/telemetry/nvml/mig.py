"""What a MIG instance is, and which part of its GPU."""

import re
from typing import Any, Final

from rightsizer.catalogue.board import MigProfile
from rightsizer.domain.device import Device, MigInstance
from rightsizer.telemetry.nvml.facts import Facts

__all__ = ["describe_instance"]

_PROFILE: Final = re.compile(r"\bMIG (\S+)$")
_COMPUTE_INSTANCE: Final = re.compile(r"^\d+c\.")


def describe_instance(facts: Facts, handle: Any, parent: Device, place: int, slices: int) -> Device:
    """A MIG instance; what belongs to the whole board (power, PCIe, NVLink) stays unknown.

    Args:
        facts: Where facts come from.
        handle: The instance's own handle.
        parent: The GPU that it is a part of.
        place: The instance's number on its parent.
        slices: How many of the smallest instances the parent holds at most.
    """
    name = str(facts.ask("nvmlDeviceGetName", handle) or "")
    memory_total = facts.memory_total_bytes(handle)
    return Device(
        uuid=facts.ask("nvmlDeviceGetUUID", handle) or f"{parent.uuid}/{place}",
        index=parent.index,
        name=name or parent.name,
        board=parent.board,
        architecture=parent.architecture,
        pci_bus_id=parent.pci_bus_id,
        numa_node=parent.numa_node,
        mig=_part(facts, handle, parent, name, place, slices),
        memory_total_bytes=memory_total,
        sm_clock_maximum_hertz=parent.sm_clock_maximum_hertz,
        achievable_compute_ratio=parent.achievable_compute_ratio,
        achievable_bandwidth_ratio=parent.achievable_bandwidth_ratio,
    )


def _part(  # noqa: PLR0913, PLR0917 - the same as above, and the name.
    facts: Facts, handle: Any, parent: Device, name: str, place: int, slices: int
) -> MigInstance:
    match = _PROFILE.search(name)
    profile = match.group(1) if match else ""
    known = _catalogue_profile(facts, parent, profile)
    gpu_instance_id = facts.ask("nvmlDeviceGetGpuInstanceId", handle)
    compute_share = _compute_share(facts, handle, slices)
    # `1c.3g.40gb` computes with a third of what its GPU instance `3g.40gb` has.
    has_all_compute = not _COMPUTE_INSTANCE.match(profile)
    return MigInstance(
        parent_uuid=parent.uuid,
        profile=profile,
        gpu_instance_id=place if gpu_instance_id is None else gpu_instance_id,
        compute_instance_id=facts.ask("nvmlDeviceGetComputeInstanceId", handle) or 0,
        compute_share=known.compute_share if known and has_all_compute else compute_share,
        memory_share=known.memory_share
        if known
        else _memory_share(facts, handle, parent, compute_share),
    )


def _catalogue_profile(facts: Facts, parent: Device, profile: str) -> MigProfile | None:
    if parent.board is None:
        return None
    # Media extensions (`1g.10gb+me`) change neither compute nor memory.
    name = _COMPUTE_INSTANCE.sub("", profile).partition("+")[0]
    profiles = facts.catalogue.boards[parent.board].mig_profiles
    return next((known for known in profiles if known.name == name), None)


def _compute_share(facts: Facts, handle: Any, slices: int) -> float:
    attributes = facts.ask("nvmlDeviceGetAttributes_v2", handle)
    mine = attributes.computeInstanceSliceCount if attributes is not None else 0
    return min(1.0, max(mine, 1) / max(slices, 1))


def _memory_share(facts: Facts, handle: Any, parent: Device, otherwise: float) -> float:
    mine = facts.memory_total_bytes(handle)
    if not mine or not parent.memory_total_bytes:
        return otherwise
    return min(1.0, mine / parent.memory_total_bytes)
