"""A GPU that the catalogue does not know, with what its driver says of it: nothing is guessed."""

from collections.abc import Iterator
from typing import Any, Final

from rightsizer.cli.short_number import short_number
from rightsizer.domain.device import Device

__all__ = ["unknown_form", "unknown_text"]

_GIB: Final = 2.0**30
_REMEDY: Final = """\
  Memory bandwidth, peaks and prices are unknown, so that nothing is planned or projected on it and
  no advice names it. Describe it in a file of boards: 'rightsizer catalogue --help' shows one."""


def unknown_text(device: Device) -> str:
    """A card of what the driver says."""
    rows = [("architecture", device.architecture or "unknown"), *_figures(device)]
    width = max(len(label) for label, _ in rows)
    return "\n".join(
        [
            device.name,
            "  unknown to the catalogue",
            "",
            "What the driver of this node says",
            *(f"  {label.ljust(width)}  {text}" for label, text in rows),
            "",
            _REMEDY,
        ]
    )


def unknown_form(device: Device) -> dict[str, Any]:
    """The same for programs, under the names that a board's figures have; no key, no price."""
    return {
        "key": None,
        "names": [device.name],
        "architecture": device.architecture,
        "compute_capability": device.facts.get("compute_capability"),
        "cores": int(device.facts["cores"]) if "cores" in device.facts else None,
        "memory_bytes": device.memory_total_bytes,
        "power_limit_watts": device.power_limit_watts,
        "sm_clock_maximum_hertz": device.sm_clock_maximum_hertz,
        "pcie_generation": device.pcie_generation_maximum,
        "pcie_width": device.pcie_width_maximum,
        "price": None,
        "source": "the driver of this node",
    }


def _figures(device: Device) -> Iterator[tuple[str, str]]:
    """What it tells; what it does not is left out."""
    if "compute_capability" in device.facts:
        yield "compute capability", device.facts["compute_capability"]
    if "cores" in device.facts:
        yield "CUDA cores", device.facts["cores"]
    if device.memory_total_bytes is not None:
        yield "memory", f"{device.memory_total_bytes / _GIB:.2f} GiB"
    if device.power_limit_watts is not None:
        yield "power limit", f"{short_number(device.power_limit_watts)} W"
    if device.sm_clock_maximum_hertz is not None:
        yield "highest SM clock", f"{short_number(device.sm_clock_maximum_hertz / 1e6)} MHz"
    if device.pcie_generation_maximum is not None:
        width = device.pcie_width_maximum
        lanes = "" if width is None else f" x{width}"
        yield "PCIe, with its slot", f"gen{device.pcie_generation_maximum}{lanes}"
