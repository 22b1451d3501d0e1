"""Device spellings of schedulers, and the keys of devices in `Allocations`."""

import re
from collections.abc import Callable
from typing import Final

from rightsizer.host.pcie import kernel_address
from rightsizer.model.values import BY_INDEX, Device

MinorOf = Callable[[int], str | None]
"""Returns the PCI address for a minor number, which is neither GPU nor CUDA index."""

_GPU_UUID: Final = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_FORMER_MIG: Final = re.compile(rf"MIG-(GPU-{_GPU_UUID})/(\d+)/\d+")
_BY_UUID: Final = re.compile(rf"((?:GPU|MIG)-{_GPU_UUID})(?:[:-].*)?")
_BY_MINOR: Final = re.compile(r"(?:/dev/)?nvidia(\d{1,4})(?:/gi(\d{1,3}))?(?:/vgpu\d+)?")
_DRA_DRIVER: Final = "gpu.nvidia.com"
_DRA_DEVICE: Final = re.compile(r"gpu-(\d{1,4})")


def kubelet_device_key(spelling: str, minor_of: MinorOf) -> str | None:
    """Convert a device plugin's spelling to a key; `None` for other resources.

    Whole GPUs and instances are spelled by uuid; a suffix numbers the replicas of a GPU shared by
    time-slicing or MPS. GKE uses `nvidia0`, `nvidia0/gi1`, `nvidia0/gi1/vgpu0`.
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
    """Convert a device allocated by a resource claim to a key; `None` for others.

    The claim of a MIG instance states profile and placement, which NVML does not report for
    instances; it is left without an owner rather than given a wrong one.
    """
    match = _DRA_DEVICE.fullmatch(spelling) if driver == _DRA_DRIVER else None
    return minor_of(int(match[1])) if match else None


def keys_of(device: Device) -> tuple[str, ...]:
    """All keys that a scheduler may use for a device."""
    address = kernel_address(device.pci_bus_id)
    addresses = () if address is None else (address,)
    uuids = (device.uuid,)
    if device.mig is None:
        return (*uuids, f"{BY_INDEX}{device.index}", *addresses)
    gpu = (device.mig.parent_uuid, f"{BY_INDEX}{device.index}", *addresses)
    return (*uuids, *(_instance(key, str(device.mig.gpu_instance_id)) for key in gpu))


def _instance(key: str, number: str | None) -> str:
    return key if number is None else f"{key}/gi{number}"
