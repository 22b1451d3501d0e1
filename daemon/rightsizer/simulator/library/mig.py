"""MIG: mode, GPU instances, compute instances and their profiles."""

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.catalogue.board import MigProfile
from rightsizer.model.device import MigInstance
from rightsizer.model.units import MIB
from rightsizer.simulator.library.calls import (
    Functions,
    NvmlCallError,
    NvmlCode,
    number,
    one_of,
    out,
    point,
    put,
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
    mig = device.unit.device.mig
    if mig is None:
        raise NvmlCallError(NvmlCode.NOT_SUPPORTED)
    return mig


def _profile(device: SimulatedHandle) -> MigProfile | None:
    return device.unit.slot.profile(device.unit.spot.instance)


def _parent(device: SimulatedHandle, gpu: Any) -> None:
    refuse_if(not device.unit.is_instance)
    device.driver.give(gpu, device.parent)


def _attributes(device: SimulatedHandle) -> Mapping[str, int]:
    profile = _profile(device)
    if profile is None:
        raise NvmlCallError(NvmlCode.NOT_SUPPORTED)
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
    """Decoders, and JPEG and optical flow engines each, which go with the whole GPU alone."""
    slices = _slices(profile)
    is_whole = int(slices == _MOST_INSTANCES)
    return slices // 2 + is_whole * 2, is_whole


MIG_OF_INSTANCES: Final[Functions] = {
    "nvmlDeviceIsMigDeviceHandle": value(lambda device: int(device.unit.is_instance)),
    "nvmlDeviceGetGpuInstanceId": value(lambda device: _mig(device).gpu_instance_id),
    "nvmlDeviceGetComputeInstanceId": value(lambda device: _mig(device).compute_instance_id),
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": _parent,
    "nvmlDeviceGetAttributes_v2": structure(_attributes),
}
MIG: Final[Functions] = {
    "nvmlDeviceGetMigMode": values(
        lambda device: [int(bool(device.instances))] * 2, BoardFeature.MIG
    ),
    "nvmlDeviceGetMaxMigDeviceCount": value(
        lambda device: _MOST_INSTANCES if device.support.has(BoardFeature.MIG) else 0
    ),
    "nvmlDeviceGetMigDeviceHandleByIndex": _by_index,
}


_MEMORY_SLICES: Final = 8
_PROFILE_VERSION_2: Final = 0x02000098
_COMPUTE_PROFILE_VERSION_2: Final = 0x02000088
_GPU_INSTANCE, _COMPUTE_INSTANCE = 1, 2
"""Beyond the address of the MIG device that both belong to."""
_NUMBERS: Final = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4}
_MUCH_MEMORY: Final = 9
"""One slice of compute with two of memory."""
_WITH_MEDIA: Final = 7
_IDENTIFIERS: Final = {0: 19, 1: 14, 2: 9, 3: 5, 4: 0, _MUCH_MEMORY: 15, _WITH_MEDIA: 20}
"""What nvidia-smi calls a profile, by NVML's number of it."""


def _slices(profile: MigProfile) -> int:
    return round(profile.compute_share * _MOST_INSTANCES)


def profile_number(profile: MigProfile) -> int:
    """NVML's number of a profile."""
    slices = _slices(profile)
    if slices > 1:
        return _NUMBERS[slices]
    if "+me" in profile.name:
        return _WITH_MEDIA
    return _MUCH_MEMORY if profile.memory_share * _MEMORY_SLICES > 1.5 else 0  # noqa: PLR2004 - 1 or 2.


def _identifier(profile: MigProfile) -> int:
    return _IDENTIFIERS[profile_number(profile)]


def _find(
    device: SimulatedHandle,
    wanted: Any,
    key: Callable[[MigProfile], int] = _identifier,
    refusal: NvmlCode = NvmlCode.INVALID_ARGUMENT,
) -> MigProfile:
    device.need(BoardFeature.MIG)
    for profile in device.unit.slot.board.mig_profiles:
        if key(profile) == number(wanted):
            return profile
    raise NvmlCallError(refusal)


def _multiprocessors(device: SimulatedHandle, profile: MigProfile) -> int:
    return profile.sm_count or round(profile.compute_share * device.unit.slot.board.sm_count)


def _profile_information(device: SimulatedHandle, wanted: Any, info: Any) -> None:
    profile, target = _find(device, wanted, profile_number, NvmlCode.NOT_SUPPORTED), out(info)
    slices, (decoders, others) = _slices(profile), _engines(profile)
    target.id = _identifier(profile)
    target.isP2pSupported = 0
    target.sliceCount, target.instanceCount = slices, profile.maximum_count
    target.multiprocessorCount = _multiprocessors(device, profile)
    target.copyEngineCount, target.encoderCount = slices, 0
    target.decoderCount = decoders
    target.jpegCount, target.ofaCount = others, others
    target.memorySizeMB = instance_memory_bytes(device.unit.slot.board, profile) // MIB


def _profile_information_2(device: SimulatedHandle, wanted: Any, info: Any) -> None:
    target = versioned(info, _PROFILE_VERSION_2)
    _profile_information(device, wanted, info)
    profile = _find(device, wanted, profile_number, NvmlCode.NOT_SUPPORTED)
    target.name = f"MIG {profile.name}".encode()


def _remaining(device: SimulatedHandle, wanted: Any, count: Any) -> None:
    profile = _find(device, wanted)
    used = [_profile(part) for part in device.instances]
    compute = 1.0 - sum(each.compute_share for each in used if each)
    memory = 1.0 - sum(each.memory_share for each in used if each)
    most = min(compute / profile.compute_share, memory / profile.memory_share) + 1e-9
    put(count, min(profile.maximum_count, int(most)))


def _placements(device: SimulatedHandle, wanted: Any, places: Any, count: Any) -> None:
    profile = _find(device, wanted)
    size = round(profile.memory_share * _MEMORY_SLICES)
    put(count, profile.maximum_count)
    if places is not None:
        for place in range(profile.maximum_count):
            target = places[place]
            target.start, target.size = place * size, size


def _instances(device: SimulatedHandle, wanted: Any, found: Any, count: Any) -> None:
    profile = _find(device, wanted)
    same = [part for part in device.instances if _profile(part) == profile]
    put(count, len(same))
    for place, part in enumerate(same):
        point(found[place], part.address + _GPU_INSTANCE)


def _instance_by_id(device: SimulatedHandle, wanted: Any, found: Any) -> None:
    device.need(BoardFeature.MIG)
    part = device.instance(wanted, NvmlCode.NOT_FOUND)
    write_pointer(found, part.address + _GPU_INSTANCE)


def _part(driver: SimulatedDriver, pointer: Any, kind: int) -> SimulatedHandle:
    """The MIG device that a GPU instance or a compute instance belongs to."""
    handle = driver.at(ctypes.c_size_t(read_pointer(pointer) - kind))
    refuse_if(handle not in handle.parent.instances)
    return handle


def _instance_information(driver: SimulatedDriver, instance: Any, info: Any) -> None:
    part, target = _part(driver, instance, _GPU_INSTANCE), out(info)
    profile, mig = _profile(part), part.unit.device.mig
    if profile is None or mig is None:
        raise NvmlCallError(NvmlCode.INVALID_ARGUMENT)
    point(target.device, part.parent.address)
    target.id = mig.gpu_instance_id
    target.profileId = _identifier(profile)
    target.placement.start = part.parent.instances.index(part)
    target.placement.size = round(profile.memory_share * _MEMORY_SLICES)


def _compute_instances(
    driver: SimulatedDriver, instance: Any, wanted: Any, found: Any, count: Any
) -> None:
    part = _part(driver, instance, _GPU_INSTANCE)
    same = number(wanted) == _compute_profile(part)
    put(count, int(same))
    if same:
        point(found[0], part.address + _COMPUTE_INSTANCE)


def _compute_instance_by_id(
    driver: SimulatedDriver, instance: Any, wanted: Any, found: Any
) -> None:
    part = _part(driver, instance, _GPU_INSTANCE)
    one_of(wanted, (0,), NvmlCode.NOT_FOUND)
    write_pointer(found, part.address + _COMPUTE_INSTANCE)


def _compute_profile(part: SimulatedHandle) -> int:
    profile = _profile(part)
    return _NUMBERS[_slices(profile)] if profile else 0


def _compute_information(driver: SimulatedDriver, instance: Any, info: Any) -> None:
    part, target = _part(driver, instance, _COMPUTE_INSTANCE), out(info)
    point(target.device, part.address)
    point(target.gpuInstance, part.address + _GPU_INSTANCE)
    target.id, target.profileId = 0, _compute_profile(part)
    target.placement.start = target.placement.size = 0


def _compute_profile_information(
    driver: SimulatedDriver, instance: Any, wanted: Any, engine: Any, info: Any
) -> None:
    part = _part(driver, instance, _GPU_INSTANCE)
    profile, target = _profile(part), versioned(info, _COMPUTE_PROFILE_VERSION_2)
    if profile is None or number(engine) or number(wanted) != _compute_profile(part):
        raise NvmlCallError(NvmlCode.NOT_SUPPORTED)
    target.id, target.sliceCount, target.instanceCount = number(wanted), _slices(profile), 1
    target.multiprocessorCount = _multiprocessors(part.parent, profile)
    target.name = f"MIG {profile.name}".encode()


INSTANCES: Final[Functions] = {
    "nvmlDeviceGetGpuInstanceProfileInfo": _profile_information,
    "nvmlDeviceGetGpuInstanceProfileInfoV": _profile_information_2,
    "nvmlDeviceGetGpuInstanceRemainingCapacity": _remaining,
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2": _placements,
    "nvmlDeviceGetGpuInstances": _instances,
    "nvmlDeviceGetGpuInstanceById": _instance_by_id,
}
INSTANCES_SYSTEM: Final[Functions] = {
    "nvmlGpuInstanceGetInfo": _instance_information,
    "nvmlGpuInstanceGetComputeInstances": _compute_instances,
    "nvmlGpuInstanceGetComputeInstanceById": _compute_instance_by_id,
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": _compute_profile_information,
    "nvmlComputeInstanceGetInfo_v2": _compute_information,
}
