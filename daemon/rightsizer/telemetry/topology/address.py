"""PCI addresses, which kernel and driver write differently."""

import re
from typing import Final

__all__ = ["is_address", "is_host_bridge", "kernel_address"]

_ADDRESS: Final = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.IGNORECASE)
_HOST_BRIDGE: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")


def kernel_address(text: str | None) -> str | None:
    """An address as sysfs writes it: `0000:1b:00.0`, where NVML says `00000000:1B:00.0`."""
    match = _ADDRESS.fullmatch(text or "")
    return f"{int(match[1], 16):04x}:{match[2].lower()}" if match else None


def is_address(name: str) -> bool:
    """Whether a folder of sysfs is a PCI function."""
    return kernel_address(name) == name


def is_host_bridge(name: str) -> bool:
    """Whether a folder of sysfs is where a PCI bus leaves the CPU."""
    return _HOST_BRIDGE.fullmatch(name) is not None
