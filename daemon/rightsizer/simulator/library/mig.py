"""MIG: mode, GPU instances, compute instances and their profiles."""

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rightsizer.catalogue.board import MigProfile
from rightsizer.simulator.library.calls import (
    NvmlCallError,
    NvmlCode,
    number,
    out,
    point,
    put,
    read_pointer,
    write_pointer,
)
from rightsizer.simulator.library.driver import SimulatedDriver, SimulatedHandle
from rightsizer.simulator.physics import instance_memory_bytes
from rightsizer.simulator.support import BoardFeature

_MOST_INSTANCES: Final = 7
_MIB: Final = 2**20


def _mode(driver: SimulatedDriver, device: SimulatedHandle, current: Any, pending: Any) -> None:
    del driver
    device.need(BoardFeature.MIG)
    put(current, int(bool(device.instances)))
    put(pending, int(bool(device.instances)))


def _most(driver: SimulatedDriver, device: SimulatedHandle, count: Any) -> None:
    del driver
    put(count, _MOST_INSTANCES if device.support.has(BoardFeature.MIG) else 0)


def _by_index(driver: SimulatedDriver, device: SimulatedHandle, index: Any, instance: Any) -> None:
    device.need(BoardFeature.MIG)
    place = number(index)
    if place >= len(device.instances):
        raise NvmlCallError(
            NvmlCode.NOT_FOUND if place < _MOST_INSTANCES else NvmlCode.INVALID_ARGUMENT
        )
    driver.give(instance, device.instances[place])


def _is_instance(driver: SimulatedDriver, device: SimulatedHandle, answer: Any) -> None:
    del driver
    put(answer, int(device.unit.is_instance))


def _gpu_instance_id(driver: SimulatedDriver, device: SimulatedHandle, identifier: Any) -> None:
    del driver
    mig = device.unit.device.mig
    if mig is None:
        raise NvmlCallError(NvmlCode.NOT_SUPPORTED)
    put(identifier, mig.gpu_instance_id)


def _compute_instance_id(driver: SimulatedDriver, device: SimulatedHandle, identifier: Any) -> None:
    del driver
    mig = device.unit.device.mig
    if mig is None:
        raise NvmlCallError(NvmlCode.NOT_SUPPORTED)
    put(identifier, mig.compute_instance_id)


def _parent(driver: SimulatedDriver, device: SimulatedHandle, gpu: Any) -> None:
    if not device.unit.is_instance:
        raise NvmlCallError(NvmlCode.INVALID_ARGUMENT)
    driver.give(gpu, device.parent)


def _attributes(driver: SimulatedDriver, device: SimulatedHandle, attributes: Any) -> None:
    del driver
    slot, target = device.unit.slot, out(attributes)
    profile = slot.profile(device.unit.spot.instance)
    if profile is None:
        raise NvmlCallError(NvmlCode.NOT_SUPPORTED)
    slices, engines = round(profile.compute_share * _MOST_INSTANCES), engines_of(profile)
    target.multiprocessorCount = profile.sm_count or round(
        profile.compute_share * slot.board.sm_count
    )
    target.sharedCopyEngineCount = slices
    target.sharedDecoderCount = engines.decoders
    target.sharedJpegCount, target.sharedOfaCount = engines.jpeg, engines.ofa
    target.gpuInstanceSliceCount = slices
    target.computeInstanceSliceCount = slices
    target.memorySizeMB = device.state.memory_total_bytes // _MIB


@dataclass(frozen=True, slots=True)
class MigEngines:
    """The media engines of an instance."""

    decoders: int
    jpeg: int
    ofa: int


def engines_of(profile: MigProfile) -> MigEngines:
    """What an instance of a profile has; JPEG and optical flow go with the whole GPU alone."""
    slices = round(profile.compute_share * _MOST_INSTANCES)
    is_whole = int(slices == _MOST_INSTANCES)
    return MigEngines(slices // 2 + is_whole * 2, is_whole, is_whole)


MIG_OF_INSTANCES: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceIsMigDeviceHandle": _is_instance,
    "nvmlDeviceGetGpuInstanceId": _gpu_instance_id,
    "nvmlDeviceGetComputeInstanceId": _compute_instance_id,
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": _parent,
    "nvmlDeviceGetAttributes_v2": _attributes,
}
MIG: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetMigMode": _mode,
    "nvmlDeviceGetMaxMigDeviceCount": _most,
    "nvmlDeviceGetMigDeviceHandleByIndex": _by_index,
}


_SLICES: Final = 7
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
    return round(profile.compute_share * _SLICES)


def profile_number(profile: MigProfile) -> int:
    """NVML's number of a profile."""
    slices = _slices(profile)
    if slices > 1:
        return _NUMBERS[slices]
    if "+me" in profile.name:
        return _WITH_MEDIA
    return _MUCH_MEMORY if profile.memory_share * _MEMORY_SLICES > 1.5 else 0  # noqa: PLR2004 - 1 or 2.


def _of_number(device: SimulatedHandle, wanted: Any) -> MigProfile:
    device.need(BoardFeature.MIG)
    for profile in device.unit.slot.board.mig_profiles:
        if profile_number(profile) == number(wanted):
            return profile
    raise NvmlCallError(NvmlCode.NOT_SUPPORTED)


def _of_identifier(device: SimulatedHandle, wanted: Any) -> MigProfile:
    device.need(BoardFeature.MIG)
    for profile in device.unit.slot.board.mig_profiles:
        if _IDENTIFIERS[profile_number(profile)] == number(wanted):
            return profile
    raise NvmlCallError(NvmlCode.INVALID_ARGUMENT)


def _multiprocessors(device: SimulatedHandle, profile: MigProfile) -> int:
    return profile.sm_count or round(profile.compute_share * device.unit.slot.board.sm_count)


def _profile_information(
    driver: SimulatedDriver, device: SimulatedHandle, wanted: Any, info: Any
) -> None:
    del driver
    profile, target = _of_number(device, wanted), out(info)
    slices, engines = _slices(profile), engines_of(profile)
    target.id = _IDENTIFIERS[profile_number(profile)]
    target.isP2pSupported = 0
    target.sliceCount, target.instanceCount = slices, profile.maximum_count
    target.multiprocessorCount = _multiprocessors(device, profile)
    target.copyEngineCount, target.encoderCount = slices, 0
    target.decoderCount = engines.decoders
    target.jpegCount, target.ofaCount = engines.jpeg, engines.ofa
    target.memorySizeMB = instance_memory_bytes(device.unit.slot.board, profile) // _MIB


def _profile_information_2(
    driver: SimulatedDriver, device: SimulatedHandle, wanted: Any, info: Any
) -> None:
    target = out(info)
    if target.version != _PROFILE_VERSION_2:
        raise NvmlCallError(NvmlCode.ARGUMENT_VERSION_MISMATCH)
    _profile_information(driver, device, wanted, info)
    target.name = f"MIG {_of_number(device, wanted).name}".encode()


def _remaining(driver: SimulatedDriver, device: SimulatedHandle, wanted: Any, count: Any) -> None:
    del driver
    profile = _of_identifier(device, wanted)
    used = [device.unit.slot.profile(part.unit.spot.instance) for part in device.instances]
    compute = 1.0 - sum(each.compute_share for each in used if each)
    memory = 1.0 - sum(each.memory_share for each in used if each)
    most = min(compute / profile.compute_share, memory / profile.memory_share) + 1e-9
    put(count, min(profile.maximum_count, int(most)))


def _placements(
    driver: SimulatedDriver, device: SimulatedHandle, wanted: Any, places: Any, count: Any
) -> None:
    del driver
    profile = _of_identifier(device, wanted)
    size = round(profile.memory_share * _MEMORY_SLICES)
    put(count, profile.maximum_count)
    if places is not None:
        for place in range(profile.maximum_count):
            target = places[place]
            target.start, target.size = place * size, size


def _instances(
    driver: SimulatedDriver, device: SimulatedHandle, wanted: Any, found: Any, count: Any
) -> None:
    del driver
    profile = _of_identifier(device, wanted)
    same = [
        part
        for part in device.instances
        if device.unit.slot.profile(part.unit.spot.instance) == profile
    ]
    put(count, len(same))
    for place, part in enumerate(same):
        point(found[place], part.address + _GPU_INSTANCE)


def _instance_by_id(
    driver: SimulatedDriver, device: SimulatedHandle, wanted: Any, found: Any
) -> None:
    del driver
    device.need(BoardFeature.MIG)
    for part in device.instances:
        mig = part.unit.device.mig
        if mig is not None and mig.gpu_instance_id == number(wanted):
            write_pointer(found, part.address + _GPU_INSTANCE)
            return
    raise NvmlCallError(NvmlCode.NOT_FOUND)


def _part(driver: SimulatedDriver, pointer: Any, kind: int) -> SimulatedHandle:
    """The MIG device that a GPU instance or a compute instance belongs to."""
    handle = driver.at(ctypes.c_size_t(read_pointer(pointer) - kind))
    if handle not in handle.parent.instances:
        raise NvmlCallError(NvmlCode.INVALID_ARGUMENT)
    return handle


def _instance_information(driver: SimulatedDriver, instance: Any, info: Any) -> None:
    part, target = _part(driver, instance, _GPU_INSTANCE), out(info)
    profile, mig = part.unit.slot.profile(part.unit.spot.instance), part.unit.device.mig
    if profile is None or mig is None:
        raise NvmlCallError(NvmlCode.INVALID_ARGUMENT)
    driver.give_into(target.device, part.parent)
    target.id = mig.gpu_instance_id
    target.profileId = _IDENTIFIERS[profile_number(profile)]
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
    if number(wanted):
        raise NvmlCallError(NvmlCode.NOT_FOUND)
    write_pointer(found, part.address + _COMPUTE_INSTANCE)


def _compute_profile(part: SimulatedHandle) -> int:
    profile = part.unit.slot.profile(part.unit.spot.instance)
    return _NUMBERS[_slices(profile)] if profile else 0


def _compute_information(driver: SimulatedDriver, instance: Any, info: Any) -> None:
    part, target = _part(driver, instance, _COMPUTE_INSTANCE), out(info)
    driver.give_into(target.device, part)
    point(target.gpuInstance, part.address + _GPU_INSTANCE)
    target.id, target.profileId = 0, _compute_profile(part)
    target.placement.start = target.placement.size = 0


def _compute_profile_information(
    driver: SimulatedDriver, instance: Any, wanted: Any, engine: Any, info: Any
) -> None:
    part, target = _part(driver, instance, _GPU_INSTANCE), out(info)
    profile = part.unit.slot.profile(part.unit.spot.instance)
    if target.version != _COMPUTE_PROFILE_VERSION_2:
        raise NvmlCallError(NvmlCode.ARGUMENT_VERSION_MISMATCH)
    if profile is None or number(engine) or number(wanted) != _compute_profile(part):
        raise NvmlCallError(NvmlCode.NOT_SUPPORTED)
    target.id, target.sliceCount, target.instanceCount = number(wanted), _slices(profile), 1
    target.multiprocessorCount = _multiprocessors(part.parent, profile)
    target.name = f"MIG {profile.name}".encode()


INSTANCES: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetGpuInstanceProfileInfo": _profile_information,
    "nvmlDeviceGetGpuInstanceProfileInfoV": _profile_information_2,
    "nvmlDeviceGetGpuInstanceRemainingCapacity": _remaining,
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2": _placements,
    "nvmlDeviceGetGpuInstances": _instances,
    "nvmlDeviceGetGpuInstanceById": _instance_by_id,
}
INSTANCES_SYSTEM: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlGpuInstanceGetInfo": _instance_information,
    "nvmlGpuInstanceGetComputeInstances": _compute_instances,
    "nvmlGpuInstanceGetComputeInstanceById": _compute_instance_by_id,
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV": _compute_profile_information,
    "nvmlComputeInstanceGetInfo_v2": _compute_information,
}
