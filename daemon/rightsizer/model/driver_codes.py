"""Codes of the driver: reasons for clock limits, and Xid errors."""

from collections.abc import Mapping
from enum import IntFlag
from types import MappingProxyType
from typing import Final

from rightsizer.model.frozen import dataclass
from rightsizer.model.units import Nanoseconds


class ClockEvent(IntFlag):
    """The bits of `clock_event_reasons` (nvml.h, nvmlClocksEventReason*)."""

    GPU_IDLE = 0x001
    APPLICATIONS_CLOCKS_SETTING = 0x002
    SW_POWER_CAP = 0x004
    HW_SLOWDOWN = 0x008
    SYNC_BOOST = 0x010
    SW_THERMAL_SLOWDOWN = 0x020
    HW_THERMAL_SLOWDOWN = 0x040
    HW_POWER_BRAKE_SLOWDOWN = 0x080
    DISPLAY_CLOCK_SETTING = 0x100

    @property
    def label(self) -> str:
        """What nvidia-smi and our metrics call it: `sw_power_cap`."""
        return str(self.name).lower()


@dataclass(frozen=True, slots=True)
class XidLog:
    """The Xids of one device since the agent started; they outlive the device's readings."""

    counts: Mapping[int, int]
    """By code."""
    last: int | None = None
    last_wall_time: Nanoseconds | None = None

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.counts.values())


XID_MEANINGS: Final[Mapping[int, str]] = MappingProxyType(
    {
        13: "graphics engine exception: most often the program's own fault",
        31: "memory page fault: most often the program's own fault",
        32: "invalid or corrupted push buffer stream",
        38: "driver firmware error",
        43: "GPU stopped processing: the program ended on a fault of its own",
        45: "preemptive cleanup after earlier errors",
        48: "double-bit memory error",
        61: "internal micro-controller breakpoint or warning",
        62: "internal micro-controller halt",
        63: "memory row remapped or page retired",
        64: "remapping a row or retiring a page failed",
        68: "video processor exception",
        69: "graphics engine class error",
        74: "NVLink error",
        79: "the GPU has fallen off the bus",
        92: "high single-bit memory error rate",
        94: "contained memory error: the program on it ended",
        95: "uncontained memory error",
        109: "context switch timed out",
        119: "the GPU's system processor did not answer",
        120: "error of the GPU's system processor",
        122: "SPI remote call failed",
        140: "unrecovered memory error",
        143: "GPU initialization error",
        145: "NVLink: remote translation error",
        149: "NVLink: link error",
        154: "a recovery action is needed",
    }
)
"""In words of our own, after NVIDIA's Xid catalog."""

CRITICAL_XIDS: Final = frozenset({48, 62, 64, 74, 79, 95, 119, 120, 140, 143})
"""After these the hardware needs somebody; others are mostly the fault of a program.

Source: NVIDIA's Xid catalog; nvidia_gpu_exporter's alerts (48, 62, 64, 74, 79, 95, 119, 120).
"""
