"""What is behind the driver: its GPUs and their MIG instances, with the handles to ask them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pynvml

from rightsizer.domain.device import Device
from rightsizer.telemetry.nvml.facts import Facts, describe_gpu
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.mig import describe_instance

__all__ = ["Gpu", "Inventory", "Target", "take_inventory"]


@dataclass(frozen=True, slots=True)
class Target:
    """A device and how the driver knows it."""

    device: Device
    handle: Any = field(compare=False)
    parent_handle: Any = field(compare=False, default=None)

    @property
    def sampled_handle(self) -> Any:
        """The handle that GPM wants: a MIG instance's samples are asked of its GPU."""
        return self.handle if self.parent_handle is None else self.parent_handle


@dataclass(frozen=True, slots=True)
class Gpu:
    """A physical GPU with its MIG instances: what hangs together when the driver hangs."""

    whole: Target
    instances: tuple[Target, ...] = ()
    is_persistent: bool = True
    """Whether the driver keeps it awake while nobody asks; true where it does not say."""

    @property
    def targets(self) -> tuple[Target, ...]:
        """The GPU itself, then its instances."""
        return (self.whole, *self.instances)


@dataclass(frozen=True, slots=True)
class Inventory:
    """All that one opening of NVML offers."""

    generation: int
    """Which opening: handles of another are worth nothing."""
    gpus: tuple[Gpu, ...]
    unopened: Mapping[int, Failure] = field(default_factory=dict)
    """GPUs that the driver counts and does not give a handle for, by index."""


def take_inventory(facts: Facts, generation: int) -> Inventory | Failure:
    """Ask the driver for all of its devices."""
    count = facts.library.ask("nvmlDeviceGetCount")
    if isinstance(count, Failure):
        return count
    gpus: list[Gpu] = []
    unopened: dict[int, Failure] = {}
    for index in range(count):
        handle = facts.library.ask("nvmlDeviceGetHandleByIndex", index)
        if not isinstance(handle, Failure):
            gpus.append(_gpu(facts, handle, index))
        elif handle.driver_is_gone:
            return handle
        else:
            unopened[index] = handle
    return Inventory(generation, tuple(gpus), unopened)


def _gpu(facts: Facts, handle: Any, index: int) -> Gpu:
    mode = facts.ask("nvmlDeviceGetMigMode", handle)
    has_mig = mode is not None and mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE
    whole = Target(describe_gpu(facts, handle, index, has_mig_instances=has_mig), handle)
    persistence = facts.ask("nvmlDeviceGetPersistenceMode", handle)
    return Gpu(
        whole,
        tuple(_instances(facts, whole)) if has_mig else (),
        is_persistent=persistence != pynvml.NVML_FEATURE_DISABLED,
    )


def _instances(facts: Facts, whole: Target) -> Iterator[Target]:
    slices = facts.ask("nvmlDeviceGetMaxMigDeviceCount", whole.handle) or 0
    for place in range(slices):
        handle = facts.ask("nvmlDeviceGetMigDeviceHandleByIndex", whole.handle, place)
        if handle is not None:
            device = describe_instance(facts, handle, whole.device, place, slices)
            yield Target(device, handle, whole.handle)
