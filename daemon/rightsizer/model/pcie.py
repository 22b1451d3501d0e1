"""What a PCIe link carries."""

from typing import Final

_LANE_BYTES_PER_SECOND: Final = {
    1: 0.25e9,
    2: 0.5e9,
    3: 8e9 * 128 / 130 / 8,
    4: 16e9 * 128 / 130 / 8,
    5: 32e9 * 128 / 130 / 8,
    6: 64e9 * 242 / 256 / 8,
}
"""One direction of one lane by generation: line rate less its code (PCI-SIG)."""


def link_bytes_per_second(generation: float, width: float) -> float | None:
    """One direction of a link; `None` for a generation or a width that does not exist."""
    lane = _LANE_BYTES_PER_SECOND.get(int(generation))
    return lane * width if lane is not None and width > 0 else None
