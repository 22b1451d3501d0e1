"""The NVIDIA GPUs that are on the bus, whether or not the driver offers them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rightsizer.telemetry.topology.address import is_address
from rightsizer.telemetry.topology.files import read_integer, read_names, read_text

__all__ = ["BusGpu", "expected_gpus", "is_asleep"]

_NVIDIA: Final = 0x10DE
_DISPLAY_CLASSES: Final = frozenset({0x0300, 0x0302})
"""With a display and without; NVSwitches, audio functions and USB ports have others."""
_ASLEEP: Final = frozenset({"suspended", "suspending"})


@dataclass(frozen=True, slots=True)
class BusGpu:
    """A GPU as the kernel sees it; finding it wakes nothing."""

    pci_bus_id: str
    """As the kernel writes it: `0000:1b:00.0`."""
    runtime_status: str | None
    """The kernel's word: `active`, `suspended`, `error`, `unsupported`."""
    vendor: int
    driver_name: str | None
    """Which driver has it: `nvidia`, `vfio-pci`, `nouveau`; `None` for none."""

    @property
    def is_asleep(self) -> bool:
        """Whether the kernel has switched it off to save power, so that asking would wake it."""
        return self.runtime_status in _ASLEEP


def expected_gpus(sysfs: Path) -> tuple[BusGpu, ...]:
    """All NVIDIA GPUs on the bus, in the order of their addresses."""
    devices = sysfs / "bus/pci/devices"
    return tuple(
        BusGpu(
            pci_bus_id=name,
            runtime_status=read_text(devices / name / "power/runtime_status") or None,
            vendor=_NVIDIA,
            driver_name=_driver_name(devices / name),
        )
        for name in sorted(read_names(devices))
        if is_address(name) and _is_gpu(devices / name)
    )


def is_asleep(device: Path) -> bool:
    """Whether a device's configuration may not be read: the kernel would wake it for that."""
    return read_text(device / "power/runtime_status") in _ASLEEP


def _is_gpu(device: Path) -> bool:
    if read_integer(device / "vendor") != _NVIDIA:
        return False
    kind = read_integer(device / "class")
    return kind is not None and kind >> 8 in _DISPLAY_CLASSES


def _driver_name(device: Path) -> str | None:
    try:
        return (device / "driver").readlink().name or None
    except OSError:
        return None
