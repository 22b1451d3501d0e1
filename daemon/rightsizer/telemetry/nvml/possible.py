"""What a reading can be at all: beyond it, a driver answered something that is no reading."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rightsizer.domain.signal import Signal

__all__ = ["is_possible"]

_WATTS: Final = (1e-3, 20e3)
"""From the least that NVML can tell, for no board that answers draws nothing, to ten times what
the largest draws."""
_CELSIUS: Final = (-60.0, 200.0)
_DEGREES_APART: Final = (-200.0, 200.0)
_HERTZ: Final = (0.0, 100e9)
_BYTES: Final = (0.0, 1e15)
_RANGES: Final[Mapping[Signal, tuple[float, float]]] = MappingProxyType(
    {
        Signal.POWER_WATTS: _WATTS,
        Signal.POWER_LIMIT_WATTS: _WATTS,
        # A thousand watts for three centuries.
        Signal.ENERGY_JOULES: (0.0, 1e13),
        Signal.TEMPERATURE_CELSIUS: _CELSIUS,
        Signal.MEMORY_TEMPERATURE_CELSIUS: _CELSIUS,
        Signal.TEMPERATURE_MARGIN_CELSIUS: _DEGREES_APART,
        Signal.SM_CLOCK_HERTZ: _HERTZ,
        Signal.SM_CLOCK_MAXIMUM_HERTZ: _HERTZ,
        Signal.SM_CLOCK_APPLICATION_HERTZ: _HERTZ,
        Signal.MEMORY_CLOCK_HERTZ: _HERTZ,
        Signal.MEMORY_CLOCK_MAXIMUM_HERTZ: _HERTZ,
        Signal.MEMORY_CLOCK_APPLICATION_HERTZ: _HERTZ,
        Signal.VIDEO_CLOCK_HERTZ: _HERTZ,
        Signal.MEMORY_USED_BYTES: _BYTES,
        Signal.MEMORY_TOTAL_BYTES: (1.0, _BYTES[1]),
        Signal.MEMORY_FREE_BYTES: _BYTES,
        Signal.MEMORY_RESERVED_BYTES: _BYTES,
        Signal.BAR1_USED_BYTES: _BYTES,
        Signal.BAR1_TOTAL_BYTES: _BYTES,
        Signal.PCIE_LINK_GENERATION: (1.0, 16.0),
        Signal.PCIE_LINK_WIDTH: (1.0, 64.0),
        # Ten times and more what PCIe 7.0 and NVLink 6 carry.
        Signal.PCIE_RECEIVE_BYTES_PER_SECOND: (0.0, 4e12),
        Signal.PCIE_TRANSMIT_BYTES_PER_SECOND: (0.0, 4e12),
        Signal.NVLINK_RECEIVE_BYTES_PER_SECOND: (0.0, 50e12),
        Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND: (0.0, 50e12),
    }
)
"""In the signals' own units, both ends included. Wide on purpose: boards to come fit in."""


def is_possible(signal: Signal, value: float) -> bool:
    """Whether a device can have this value, in the signal's unit; not whether it is likely."""
    bounds = _RANGES.get(signal)
    return bounds is None or bounds[0] <= value <= bounds[1]
