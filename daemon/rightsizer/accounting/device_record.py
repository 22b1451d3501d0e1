"""Record of a device and its holder in the history."""

from collections.abc import Container
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.accounting.power import LearnedPower
from rightsizer.model.values import (
    Device,
    Holding,
    Nanoseconds,
    Reading,
    Signal,
    Topology,
    Workload,
    XidLog,
)

_STATED_BY: Final = {
    "memory_total_bytes": Signal.MEMORY_TOTAL_BYTES,
    "power_limit_watts": Signal.POWER_LIMIT_WATTS,
    "sm_clock_maximum_hertz": Signal.SM_CLOCK_MAXIMUM_HERTZ,
}
"""Capacities that readings may state, and then take precedence."""


class DeviceRecord(Struct, frozen=True, rename={"holder_since": "held_since"}):
    """Device with its holder and last known state."""

    device: Device
    holder: Workload | None = None
    holder_since: Nanoseconds = 0
    power: LearnedPower | None = None
    """Learned power range."""
    reading: Reading | None = None
    """Last reading, so that the history shows which signals were available."""
    xids: XidLog | None = None
    holdings: tuple[Holding, ...] = ()
    topology: Topology | None = None
    """Topology of the node, stored with one of its devices."""
    nvlinks_up: float = 0.0
    """Most NVLinks that were ever seen up."""
    is_forgotten: bool = False
    """Whether an operator said that it is gone; its windows are kept."""

    @property
    def most_nvlinks_up(self) -> float:
        """The same, where an earlier version has stored nothing but the last reading."""
        last = None if self.reading is None else self.reading.get(Signal.NVLINK_LINKS_UP)
        return max(self.nvlinks_up, last or 0.0)

    @property
    def device_as_read(self) -> Device:
        """Device whose assumed capacities are those that its last reading does not state either."""
        return read_with(self.device, () if self.reading is None else self.reading.values)

    @property
    def is_of_recording(self) -> bool:
        """Whether `replay` filled it in: what an agent reads itself names its collector."""
        return self.reading is not None and bool(self.reading.values and not self.reading.origins)


def read_with(device: Device, signals: Container[Signal]) -> Device:
    """Return a device whose assumed capacities are those that such readings do not state."""
    assumed = tuple(name for name in device.assumed if _STATED_BY.get(name) not in signals)
    return replace(device, assumed=assumed)
