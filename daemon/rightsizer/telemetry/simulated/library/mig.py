"""MIG: its mode, the instances of a GPU, and the way back from an instance to its GPU."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rightsizer.catalogue.board import MigProfile
from rightsizer.telemetry.simulated.feature import Feature
from rightsizer.telemetry.simulated.library.calls import Code, Refusal, number, out, put
from rightsizer.telemetry.simulated.library.driver import Driver, Handle

__all__ = ["MIG", "MIG_OF_INSTANCES", "engines_of"]

_MOST_INSTANCES: Final = 7
_MIB: Final = 2**20


def _mode(driver: Driver, device: Handle, current: Any, pending: Any) -> None:
    del driver
    device.need(Feature.MIG)
    put(current, int(bool(device.instances)))
    put(pending, int(bool(device.instances)))


def _most(driver: Driver, device: Handle, count: Any) -> None:
    del driver
    put(count, _MOST_INSTANCES if device.support.has(Feature.MIG) else 0)


def _by_index(driver: Driver, device: Handle, index: Any, instance: Any) -> None:
    device.need(Feature.MIG)
    place = number(index)
    if place >= len(device.instances):
        raise Refusal(Code.NOT_FOUND if place < _MOST_INSTANCES else Code.INVALID_ARGUMENT)
    driver.give(instance, device.instances[place])


def _is_instance(driver: Driver, device: Handle, answer: Any) -> None:
    del driver
    put(answer, int(device.unit.is_instance))


def _gpu_instance_id(driver: Driver, device: Handle, identifier: Any) -> None:
    del driver
    mig = device.unit.device.mig
    if mig is None:
        raise Refusal(Code.NOT_SUPPORTED)
    put(identifier, mig.gpu_instance_id)


def _compute_instance_id(driver: Driver, device: Handle, identifier: Any) -> None:
    del driver
    mig = device.unit.device.mig
    if mig is None:
        raise Refusal(Code.NOT_SUPPORTED)
    put(identifier, mig.compute_instance_id)


def _parent(driver: Driver, device: Handle, gpu: Any) -> None:
    if not device.unit.is_instance:
        raise Refusal(Code.INVALID_ARGUMENT)
    driver.give(gpu, device.parent)


def _attributes(driver: Driver, device: Handle, attributes: Any) -> None:
    del driver
    slot, target = device.unit.slot, out(attributes)
    profile = slot.profile(device.unit.spot.instance)
    if profile is None:
        raise Refusal(Code.NOT_SUPPORTED)
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
class Engines:
    """The media engines of an instance."""

    decoders: int
    jpeg: int
    ofa: int


def engines_of(profile: MigProfile) -> Engines:
    """What an instance of a profile has; JPEG and optical flow go with the whole GPU alone."""
    slices = round(profile.compute_share * _MOST_INSTANCES)
    is_whole = int(slices == _MOST_INSTANCES)
    return Engines(slices // 2 + is_whole * 2, is_whole, is_whole)


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
