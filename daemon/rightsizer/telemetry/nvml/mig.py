"""What a MIG instance is, and which part of its GPU."""

import re
from typing import Any, Final

import pynvml

from rightsizer.catalogue.board import MigProfile
from rightsizer.model.device import Device, MigInstance
from rightsizer.model.frozen import dataclass
from rightsizer.telemetry.nvml.device_facts import DeviceFactsReader

_PROFILE: Final = re.compile(r"\bMIG (\S+)$")
_COMPUTE_INSTANCE: Final = re.compile(r"^\d+c\.")
_PROFILE_COUNT: Final = pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT


@dataclass(frozen=True, slots=True)
class MigParent:
    """A GPU that is cut into instances."""

    device: Device
    handle: Any
    slices: int
    """How many of the smallest instances it holds at most."""


def describe_instance(
    facts: DeviceFactsReader, handle: Any, parent: MigParent, place: int
) -> Device:
    """A MIG instance; what belongs to the whole board (power, PCIe, NVLink) stays unknown."""
    name = str(facts.ask("nvmlDeviceGetName", handle) or "")
    whole = parent.device
    return Device(
        uuid=facts.ask("nvmlDeviceGetUUID", handle) or f"{whole.uuid}/{place}",
        index=whole.index,
        name=name or whole.name,
        board=whole.board,
        architecture=whole.architecture,
        pci_bus_id=whole.pci_bus_id,
        numa_node=whole.numa_node,
        mig=_part(facts, handle, parent, name, place),
        memory_total_bytes=facts.memory_total_bytes(handle),
        sm_clock_maximum_hertz=whole.sm_clock_maximum_hertz,
        achievable_compute_ratio=whole.achievable_compute_ratio,
        achievable_bandwidth_ratio=whole.achievable_bandwidth_ratio,
    )


def _part(
    facts: DeviceFactsReader, handle: Any, parent: MigParent, name: str, place: int
) -> MigInstance:
    told_id = facts.ask("nvmlDeviceGetGpuInstanceId", handle)
    attributes = facts.ask("nvmlDeviceGetAttributes_v2", handle)
    match = _PROFILE.search(name)
    profile = match.group(1) if match else _profile(facts, parent, told_id, attributes)
    known = _catalogue_profile(facts, parent.device, profile)
    slices = attributes.computeInstanceSliceCount if attributes is not None else 0
    compute_share = min(1.0, max(slices, 1) / max(parent.slices, 1))
    mine, whole = facts.memory_total_bytes(handle), parent.device.memory_total_bytes
    memory_share = min(1.0, mine / whole) if mine and whole else compute_share
    # `1c.3g.40gb` computes with a third of what its GPU instance `3g.40gb` has.
    has_all_compute = not _COMPUTE_INSTANCE.match(profile)
    return MigInstance(
        parent_uuid=parent.device.uuid,
        profile=profile,
        gpu_instance_id=place if told_id is None else told_id,
        compute_instance_id=facts.ask("nvmlDeviceGetComputeInstanceId", handle) or 0,
        compute_share=known.compute_share if known and has_all_compute else compute_share,
        memory_share=known.memory_share if known else memory_share,
    )


def _profile(
    facts: DeviceFactsReader, parent: MigParent, gpu_instance_id: int | None, attributes: Any
) -> str:
    """The profile's name as its GPU lists it, where the device's name does not tell.

    Asking an instance for its profile takes privileges; without them its size says which it is.
    """
    profiles = [
        profile
        for number in range(_PROFILE_COUNT)
        if (profile := facts.ask("nvmlDeviceGetGpuInstanceProfileInfo", parent.handle, number))
    ]
    instance = facts.ask("nvmlDeviceGetGpuInstanceById", parent.handle, gpu_instance_id or 0)
    info = None if instance is None else facts.ask("nvmlGpuInstanceGetInfo", instance)
    fitting = [
        profile
        for profile in profiles
        if (profile.id == info.profileId if info is not None else _fits(profile, attributes))
    ]
    match = _PROFILE.search(str(fitting[0].name)) if fitting else None
    if match is None:
        return ""
    is_part = (
        attributes is not None
        and attributes.computeInstanceSliceCount < attributes.gpuInstanceSliceCount
    )
    prefix = f"{attributes.computeInstanceSliceCount}c." if is_part else ""
    return prefix + match.group(1)


def _fits(profile: Any, attributes: Any) -> bool:
    """Whether a GPU instance of this profile has these slices, memory and engines."""
    return attributes is not None and (
        profile.sliceCount,
        profile.memorySizeMB,
        profile.decoderCount,
        profile.jpegCount,
        profile.ofaCount,
    ) == (
        attributes.gpuInstanceSliceCount,
        attributes.memorySizeMB,
        attributes.sharedDecoderCount,
        attributes.sharedJpegCount,
        attributes.sharedOfaCount,
    )


def _catalogue_profile(facts: DeviceFactsReader, parent: Device, profile: str) -> MigProfile | None:
    board = facts.board(parent)
    if board is None:
        return None
    # Media extensions (`1g.10gb+me`) change neither compute nor memory.
    name = _COMPUTE_INSTANCE.sub("", profile).partition("+")[0]
    return next((known for known in board.mig_profiles if known.name == name), None)
