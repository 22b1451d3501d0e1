"""The PCIe link of a device or bridge: what it runs at, and what it could."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from rightsizer.telemetry.topology.bus import is_asleep
from rightsizer.telemetry.topology.files import read_integer, read_text

__all__ = ["Link", "generation_of", "read_link"]

_GENERATIONS: Final[Mapping[float, int]] = MappingProxyType(
    {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6, 128.0: 7}
)
"""By giga-transfers a second."""
_WIDTHS: Final = frozenset({1, 2, 4, 8, 12, 16, 32})
"""The kernel writes 0 where there is no link and 255 where it does not know."""


@dataclass(frozen=True, slots=True)
class Link:
    """What of it is known."""

    generation: int | None = None
    width: int | None = None
    generation_maximum: int | None = None
    width_maximum: int | None = None


def read_link(device: Path) -> Link:
    """The link above a device, or below a port.

    These files are read from the device's own registers, for which kernels wake it up; of one
    that is asleep nothing is said.
    """
    if is_asleep(device):
        return Link()
    return Link(
        generation=generation_of(read_text(device / "current_link_speed")),
        width=_width(device / "current_link_width"),
        generation_maximum=generation_of(read_text(device / "max_link_speed")),
        width_maximum=_width(device / "max_link_width"),
    )


def generation_of(speed: str | None) -> int | None:
    """The generation of a speed as the kernel writes it: `32.0 GT/s PCIe`, formerly `8 GT/s`."""
    number, _, unit = (speed or "").partition(" ")
    if not unit.startswith("GT/s"):
        return None
    try:
        return _GENERATIONS.get(float(number))
    except ValueError:
        return None


def _width(file: Path) -> int | None:
    width = read_integer(file)
    return width if width in _WIDTHS else None
