"""Device files of GPUs and MIG instances, by minor number."""

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from rightsizer.host.files import read_line, read_names
from rightsizer.host.pcie import kernel_address
from rightsizer.model.values import Device

_FILE_MINOR: Final = re.compile(r"^DeviceFileMinor:\s*([0-9]{1,5})\s*$", re.MULTILINE)
_GPU_MINOR: Final = re.compile(r"^Device Minor:\s*(\d+)\s*$", re.MULTILINE)


def device_files(procfs: Path, devices: Iterable[Device]) -> dict[str, tuple[str, ...]]:
    """Device files that a job must open to use each device, by uuid; unknown ones are omitted.

    A GPU needs `/dev/nvidia<minor>`; a MIG instance also one capability each for its GPU instance
    and its compute instance (NVIDIA's MIG user guide, device nodes).
    """
    listed = tuple(devices)
    minors = {
        device.uuid: device.facts.get("minor_number") for device in listed if device.mig is None
    }
    files_by_uuid: dict[str, tuple[str, ...]] = {}
    for device in listed:
        minor = minors.get(device.board_uuid)
        if minor is None:
            continue
        files: tuple[str | None, ...] = (f"/dev/nvidia{minor}",)
        if device.mig is not None:
            folder = procfs / "driver/nvidia/capabilities" / f"gpu{minor}" / "mig"
            instance = folder / f"gi{device.mig.gpu_instance_id}"
            compute = instance / f"ci{device.mig.compute_instance_id}"
            files = (*files, _capability(instance), _capability(compute))
        whole = tuple(file for file in files if file is not None)
        if len(whole) == len(files):
            files_by_uuid[device.uuid] = whole
    return files_by_uuid


def _capability(folder: Path) -> str | None:
    match = _FILE_MINOR.search(read_line(folder / "access"))
    return None if match is None else f"/dev/nvidia-caps/nvidia-cap{match[1]}"


def gpu_addresses(procfs: Path) -> dict[int, str]:
    """PCI addresses of GPUs by minor number; empty if the driver is not loaded."""
    folder = procfs / "driver/nvidia/gpus"
    matches = {
        kernel_address(name) or name: _GPU_MINOR.search(read_line(folder / name / "information"))
        for name in read_names(folder)
    }
    return {int(minor[1]): address for address, minor in matches.items() if minor is not None}


def _may_open(file: Path) -> bool:
    """Whether the file is there for this process; asks device control groups, opens nothing."""
    return os.access(file, os.R_OK | os.W_OK)


def openable_gpus(root: Path, may_open: Callable[[Path], bool] = _may_open) -> frozenset[str]:
    """PCI addresses of the GPUs that may be opened here; empty if that is not known.

    A container shows all GPUs of its node in /sys, but has the files of its own alone; a job of
    Slurm has all files, but may open those of its own alone. A GPU that fell off the bus keeps its
    file.
    """
    addresses = gpu_addresses(root / "proc")
    return frozenset(
        address for minor, address in addresses.items() if may_open(root / f"dev/nvidia{minor}")
    )
