"""What is said of a GPU that the catalogue does not know: what its driver tells, and no guess."""

from collections.abc import Iterator

from rightsizer.domain.device import Device

__all__ = ["unknown_board"]

_GIB = 2.0**30


def unknown_board(device: Device) -> str:
    """Why nothing can be projected from a device; empty where the catalogue knows its board."""
    if device.board is not None:
        return ""
    name = device.name or "the GPU"
    told = ", ".join(_told(device))
    says = f" (its driver says: {told})" if told else ""
    return f"{name} is unknown to the catalogue{says}; describe it in catalogue.boards_file"


def _told(device: Device) -> Iterator[str]:
    if device.architecture is not None:
        yield device.architecture
    if device.memory_total_bytes is not None:
        yield f"{device.memory_total_bytes / _GIB:.1f} GiB"
    if device.power_limit_watts is not None:
        yield f"{device.power_limit_watts:.0f} W"
    if "cores" in device.facts:
        yield f"{device.facts['cores']} cores"
