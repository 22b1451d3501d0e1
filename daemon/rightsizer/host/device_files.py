"""Device files of GPUs and MIG instances, by minor number."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rightsizer.host.files import read_text
from rightsizer.host.pcie import pci_key
from rightsizer.model.device import Device

_MINOR: Final = re.compile(r"^DeviceFileMinor:\s*([0-9]{1,5})\s*$", re.MULTILINE)


def device_files(procfs: Path, devices: Iterable[Device]) -> dict[str, tuple[str, ...]]:
    """The files that a job must open to use each device, by uuid; none where nobody tells.

    A GPU is `/dev/nvidia<minor>`; a MIG instance is its GPU's and one capability each for its
    GPU instance and its compute instance (NVIDIA's MIG user guide, device nodes).
    """
    known = tuple(devices)
    minors = {each.uuid: each.facts.get("minor_number") for each in known if each.mig is None}
    found: dict[str, tuple[str, ...]] = {}
    for device in known:
        minor = minors.get(device.uuid if device.mig is None else device.mig.parent_uuid)
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
            found[device.uuid] = whole
    return found


def _capability(folder: Path) -> str | None:
    found = _MINOR.search(read_text(folder / "access") or "")
    return None if found is None else f"/dev/nvidia-caps/nvidia-cap{found[1]}"


_GPU_MINOR: Final = re.compile(r"^Device Minor:\s*(\d+)\s*$", re.MULTILINE)


class MinorNumbers:
    """Reads `<procfs>/driver/nvidia/gpus/<PCI address>/information`."""

    def __init__(self, procfs: Path) -> None:
        """Reads nothing yet."""
        self._folder = procfs / "driver" / "nvidia" / "gpus"

    def addresses(self) -> dict[int, str]:
        """PCI addresses by minor number, empty where the driver is not loaded."""
        found: dict[int, str] = {}
        try:
            gpus = sorted(self._folder.iterdir())
        except OSError:
            return {}
        for gpu in gpus:
            try:
                text = (gpu / "information").read_text(errors="replace")
            except OSError:
                continue  # It has left the bus meanwhile.
            minor = _GPU_MINOR.search(text)
            if minor is not None:
                found[int(minor[1])] = pci_key(gpu.name)
        return found
