"""Why a GPU's clocks are what they are: NVML's bit mask, under the names of nvidia-smi."""

from enum import IntFlag


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
