"""How schedulers spell a device, and by which keys it is known here (`Allocations`)."""

import re
from collections.abc import Callable
from typing import Final

from rightsizer.host.pcie import kernel_address
from rightsizer.model.device import Device

MinorOf = Callable[[int], str | None]
"""The PCI address of the GPU with a minor number, which is neither its index nor CUDA's."""

_GPU_UUID: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_FORMER_MIG: Final = re.compile(rf"MIG-(GPU-{_GPU_UUID})/(\d+)/\d+")
_BY_UUID: Final = re.compile(rf"((?:GPU|MIG)-{_GPU_UUID})(?:[:-].*)?")
_BY_MINOR: Final = re.compile(r"(?:/dev/)?nvidia(\d{1,4})(?:/gi(\d{1,3}))?(?:/vgpu\d+)?")
_DRA_DRIVER: Final = "gpu.nvidia.com"
_DRA_DEVICE: Final = re.compile(r"gpu-(\d{1,4})")


def kubelet_device_key(spelling: str, minor_of: MinorOf) -> str | None:
    """The key of a device that a device plugin spells its own way; `None` for other things.

    Whole GPUs and instances go by uuid; what stands behind the uuid numbers the replicas of a
    GPU shared by time-slicing or MPS. GKE spells `nvidia0`, `nvidia0/gi1`, `nvidia0/gi1/vgpu0`.
    """
    if former := _FORMER_MIG.fullmatch(spelling):
        return f"{former[1]}/gi{former[2]}"
    if by_uuid := _BY_UUID.fullmatch(spelling):
        return by_uuid[1]
    if by_minor := _BY_MINOR.fullmatch(spelling):
        address = minor_of(int(by_minor[1]))
        return _instance(address, by_minor[2]) if address is not None else None
    return kernel_address(spelling)


def dra_device_key(driver: str, spelling: str, minor_of: MinorOf) -> str | None:
    """The key of a device that a resource claim allocates; `None` for other things.

    The claim of a MIG instance tells profile and placement, neither of which NVML tells of an
    instance; no owner is named then rather than the wrong one.
    """
    found = _DRA_DEVICE.fullmatch(spelling) if driver == _DRA_DRIVER else None
    return minor_of(int(found[1])) if found else None


def keys_of(device: Device) -> tuple[str, ...]:
    """All the keys that a scheduler may have used for a device."""
    address = kernel_address(device.pci_bus_id)
    addresses = () if address is None else (address,)
    own = (device.uuid,)
    if device.mig is None:
        return (*own, f"index:{device.index}", *addresses)
    gpu = (device.mig.parent_uuid, f"index:{device.index}", *addresses)
    return (*own, *(_instance(key, str(device.mig.gpu_instance_id)) for key in gpu))


def _instance(key: str, number: str | None) -> str:
    return key if number is None else f"{key}/gi{number}"
