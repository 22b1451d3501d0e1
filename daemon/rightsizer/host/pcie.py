"""PCIe: addresses, NVIDIA GPUs on the bus, links, and paths between devices."""

import itertools
import os
import re
from pathlib import Path
from typing import Final

from msgspec import Struct

from rightsizer.host.files import link_name, read_integer, read_line, read_names
from rightsizer.model.values import LinkKind

_ADDRESS: Final = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.IGNORECASE)
_HOST_BRIDGE: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_NVIDIA: Final = 0x10DE
_DISPLAY_CLASSES: Final = frozenset({0x0300, 0x0302})
"""With and without display; NVSwitches, audio functions and USB ports have other classes."""
_ASLEEP: Final = frozenset({"suspended", "suspending"})
_GENERATIONS: Final = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6, 128.0: 7}
"""By gigatransfers per second."""
_WIDTHS: Final = frozenset({1, 2, 4, 8, 12, 16, 32})
"""The kernel reports 0 without a link and 255 if unknown."""


def kernel_address(text: str | None) -> str | None:
    """Normalize an address to sysfs format: `0000:1b:00.0` for NVML's `00000000:1B:00.0`."""
    match = _ADDRESS.fullmatch(text or "")
    return f"{int(match[1], 16):04x}:{match[2].lower()}" if match else None


def is_address(name: str) -> bool:
    """Whether a sysfs directory name is a PCI function."""
    return kernel_address(name) == name


def is_host_bridge(name: str) -> bool:
    """Whether a sysfs directory name is a PCI host bridge."""
    return _HOST_BRIDGE.fullmatch(name) is not None


class BusGpu(Struct, frozen=True):
    """GPU listed by the kernel, found without waking it."""

    pci_bus_id: str
    """Kernel format: `0000:1b:00.0`."""
    runtime_status: str | None
    """Kernel's value: `active`, `suspended`, `error`, `unsupported`."""
    driver_name: str | None
    """Bound driver: `nvidia`, `vfio-pci`, `nouveau`; `None` for none."""

    @property
    def is_asleep(self) -> bool:
        """Whether the kernel has suspended it, so that a query would wake it."""
        return self.runtime_status in _ASLEEP


def expected_gpus(sysfs: Path) -> tuple[BusGpu, ...]:
    """All NVIDIA GPUs on the bus, by address."""
    devices = sysfs / "bus/pci/devices"
    return tuple(
        BusGpu(
            pci_bus_id=name,
            runtime_status=read_line(devices / name / "power/runtime_status") or None,
            driver_name=link_name(devices / name / "driver"),
        )
        for name in sorted(read_names(devices))
        if is_address(name) and _is_gpu(devices / name)
    )


def is_asleep(device: Path) -> bool:
    """Whether a device is suspended, so that reading its configuration would wake it."""
    return read_line(device / "power/runtime_status") in _ASLEEP


def _is_gpu(device: Path) -> bool:
    kind = read_integer(device / "class") or 0
    return read_integer(device / "vendor") == _NVIDIA and kind >> 8 in _DISPLAY_CLASSES


def read_link(device: Path) -> dict[str, int | None]:
    """Known properties of the link above a device, or below a port, by field of `Bridge`.

    Kernels wake the device to read these files from its registers, so nothing is read from a
    suspended one.
    """
    if is_asleep(device):
        return {}
    return {
        "generation": generation_of(read_line(device / "current_link_speed")),
        "width": _width(device / "current_link_width"),
        "generation_maximum": generation_of(read_line(device / "max_link_speed")),
        "width_maximum": _width(device / "max_link_width"),
    }


def generation_of(speed: str) -> int | None:
    """PCIe generation of a speed in kernel format: `32.0 GT/s PCIe`, formerly `8 GT/s`."""
    number, _, unit = speed.partition(" ")
    if not unit.startswith("GT/s"):
        return None
    try:
        return _GENERATIONS.get(float(number))
    except ValueError:
        return None


def _width(file: Path) -> int | None:
    width = read_integer(file)
    return width if width in _WIDTHS else None


class PciPath(Struct, frozen=True):
    """Location on the bus."""

    chain: tuple[str, ...] = ()
    """From the host bridge down to the device; empty if the real path is not visible."""
    numa_node: int | None = None

    @property
    def bridges(self) -> tuple[str, ...]:
        """Bridges above the device, up to the root port."""
        return tuple(name for name in reversed(self.chain[:-1]) if is_address(name))


def chain_of(sysfs: Path, link: str) -> tuple[str, ...]:
    """Buses and devices on the real path of a sysfs link, from the host bridge.

    Ends with the last PCI function, whatever is below it; empty if there is none.
    """
    # Unlike `Path.resolve`, this does not raise for a link to itself.
    real = Path(os.path.relpath(os.path.realpath(sysfs / link), os.path.realpath(sysfs)))
    chain = [part for part in real.parts if is_host_bridge(part) or is_address(part)]
    if not chain or not is_host_bridge(chain[0]) or not is_address(chain[-1]):
        return ()  # A bind mount into a container does not reveal its path.
    return tuple(chain)


def relate(one: PciPath, other: PciPath, *, has_one_node: bool) -> LinkKind:
    """PCIe path between two devices.

    Args:
        one: First device.
        other: Second device.
        has_one_node: Whether the machine has a single NUMA node, so that missing node numbers are
            irrelevant.
    """
    if one.chain and one.chain == other.chain:
        return LinkKind.SELF
    pairs = zip(one.chain, other.chain, strict=False)
    shared = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    if shared:
        if is_host_bridge(one.chain[shared - 1]):
            return LinkKind.PHB
        # Two ports of one switch below its upstream port count as one bridge.
        bridges = max(len(one.chain), len(other.chain)) - shared - 1
        return LinkKind.PIX if bridges <= 1 else LinkKind.PXB
    if one.numa_node is not None and other.numa_node is not None:
        if one.numa_node != other.numa_node:
            return LinkKind.SYSTEM
    elif not has_one_node:
        return LinkKind.UNKNOWN
    return LinkKind.NODE if one.chain and other.chain else LinkKind.UNKNOWN
