"""MIG: mode, GPU instances, compute instances and their profiles."""

import ctypes
from collections.abc import Mapping
from typing import Any, Final

from rightsizer.catalogue.board import MigProfile
from rightsizer.model.values import MIB, MigInstance
from rightsizer.simulator.library.calls import (
    Functions,
    NvmlCode,
    needed,
    number,
    out,
    point,
    read_pointer,
    refuse_if,
    versioned,
    write_pointer,
)
from rightsizer.simulator.library.driver import (
    SimulatedDriver,
    SimulatedHandle,
    structure,
    value,
    values,
)
from rightsizer.simulator.physics import instance_memory_bytes
from rightsizer.simulator.support import BoardFeature

_MOST_INSTANCES: Final = 7


def _by_index(device: SimulatedHandle, index: Any, instance: Any) -> None:
    device.need(BoardFeature.MIG)
    place = number(index)
    refuse_if(place >= _MOST_INSTANCES)
    refuse_if(place >= len(device.instances), NvmlCode.NOT_FOUND)
    device.driver.give(instance, device.instances[place])


def _mig(device: SimulatedHandle) -> MigInstance:
    return needed(device.unit.device.mig)


def _profile(device: SimulatedHandle) -> MigProfile:
    return needed(device.unit.slot.profile(device.unit.spot.instance))


def _multiprocessors(device: SimulatedHandle, profile: MigProfile) -> int:
    return profile.sm_count or round(profile.compute_share * device.unit.slot.board.sm_count)


def _attributes(device: SimulatedHandle) -> Mapping[str, int]:
    profile = _profile(device)
    slices, (decoders, others) = _slices(profile), _engines(profile)
    return {
        "multiprocessorCount": _multiprocessors(device, profile),
        "sharedDecoderCount": decoders,
        "memorySizeMB": device.state.memory_total_bytes // MIB,
        **dict.fromkeys(("sharedJpegCount", "sharedOfaCount"), others),
        **dict.fromkeys(("sharedCopyEngineCount", "gpuInstanceSliceCount"), slices),
        "computeInstanceSliceCount": slices,
    }


def _engines(profile: MigProfile) -> tuple[int, int]:
    """Return decoders, and JPEG and optical flow engines, which only the whole GPU has."""
    slices = _slices(profile)
    is_whole = int(slices == _MOST_INSTANCES)
    return slices // 2 + is_whole * 2, is_whole


MIG_OF_INSTANCES: Final[Functions] = {
    "nvmlDeviceGetGpuInstanceId": value(lambda device: _mig(device).gpu_instance_id),
    "nvmlDeviceGetComputeInstanceId": value(lambda device: _mig(device).compute_instance_id),
    "nvmlDeviceGetAttributes_v2": structure(_attributes),
}

_MEMORY_SLICES: Final = 8
_PROFILE_VERSION_2: Final = 0x02000098
_GPU_INSTANCE: Final = 1
"""Offset to the address of its MIG device."""
_NUMBERS: Final = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}
_MUCH_MEMORY: Final = 9
"""Number of the profile with one compute slice and two memory slices."""
_WITH_MEDIA: Final = 7
_IDENTIFIERS: Final = {0: 19, 1: 14, 2: 9, 3: 5, 4: 0, _MUCH_MEMORY: 15, _WITH_MEDIA: 20}
"""nvidia-smi's profile ids by NVML's profile numbers."""


def _slices(profile: MigProfile) -> int:
    return round(profile.compute_share * _MOST_INSTANCES)


def _number(profile: MigProfile) -> int:
    slices = _slices(profile)
    if slices > 1:
        return _NUMBERS[slices]
    if "+me" in profile.name:
        return _WITH_MEDIA
    return _MUCH_MEMORY if profile.memory_share * _MEMORY_SLICES > 1.5 else 0  # noqa: PLR2004 - 1 or 2.


def _profile_information(device: SimulatedHandle, wanted: Any, info: Any) -> None:
    target = versioned(info, _PROFILE_VERSION_2)
    board = device.unit.slot.board
    device.need(BoardFeature.MIG)
    matching = (
        mig_profile for mig_profile in board.mig_profiles if _number(mig_profile) == number(wanted)
    )
    profile = needed(next(matching, None))
    slices, (decoders, others) = _slices(profile), _engines(profile)
    target.id = _IDENTIFIERS[_number(profile)]
    target.name = f"MIG {profile.name}".encode()
    target.isP2pSupported = 0
    target.encoderCount = 0
    target.sliceCount = slices
    target.instanceCount = profile.maximum_count
    target.multiprocessorCount = _multiprocessors(device, profile)
    target.copyEngineCount = slices
    target.decoderCount = decoders
    target.jpegCount = others
    target.ofaCount = others
    target.memorySizeMB = instance_memory_bytes(board, profile) // MIB


def _instance_by_id(device: SimulatedHandle, wanted: Any, reference: Any) -> None:
    device.need(BoardFeature.MIG)
    part = device.instance(wanted, NvmlCode.NOT_FOUND)
    write_pointer(reference, part.address + _GPU_INSTANCE)


def _instance_information(driver: SimulatedDriver, instance: Any, info: Any) -> None:
    part = driver.at(ctypes.c_size_t(read_pointer(instance) - _GPU_INSTANCE))
    refuse_if(part not in part.parent.instances)
    target = out(info)
    profile = _profile(part)
    point(target.device, part.parent.address)
    target.id = _mig(part).gpu_instance_id
    target.profileId = _IDENTIFIERS[_number(profile)]
    target.placement.start = part.parent.instances.index(part)
    target.placement.size = round(profile.memory_share * _MEMORY_SLICES)


INSTANCES_SYSTEM: Final[Functions] = {"nvmlGpuInstanceGetInfo": _instance_information}

MIG: Final[Functions] = {
    "nvmlDeviceGetMigMode": values(
        lambda device: [int(bool(device.instances))] * 2, BoardFeature.MIG
    ),
    "nvmlDeviceGetMaxMigDeviceCount": value(
        lambda device: _MOST_INSTANCES if device.support.has(BoardFeature.MIG) else 0
    ),
    "nvmlDeviceGetMigDeviceHandleByIndex": _by_index,
    "nvmlDeviceGetGpuInstanceProfileInfoV": _profile_information,
    "nvmlDeviceGetGpuInstanceById": _instance_by_id,
}
