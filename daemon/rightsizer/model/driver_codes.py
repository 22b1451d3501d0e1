"""Driver codes: clock event reasons and Xid errors."""

from collections.abc import Mapping
from enum import IntFlag
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from rightsizer.model.table import table_rows
from rightsizer.model.units import Nanoseconds

OTHER_XID: Final = 0
"""Bucket for codes beyond the limit; the driver has no Xid 0."""
_UNKNOWN_XIDS_MAXIMUM: Final = 16
_XIDS: Final = {int(row["code"]): row for row in table_rows(__file__, "xids.csv")}
XID_MEANINGS: Final = MappingProxyType({code: row["meaning"] for code, row in _XIDS.items()})
"""Short descriptions, based on NVIDIA's Xid catalog."""
CRITICAL_XIDS: Final = frozenset(code for code, row in _XIDS.items() if row["is_critical"])
"""Xids that need an operator; most others are application errors.

Source: NVIDIA's Xid catalog; nvidia_gpu_exporter's alerts (48, 62, 64, 74, 79, 95, 119, 120).
"""


class ClockEvent(IntFlag):
    """Bits of `clock_event_reasons` (nvml.h, nvmlClocksEventReason*)."""

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
        """Name used by nvidia-smi and our metrics: `sw_power_cap`."""
        return str(self.name).lower()


class XidLog(Struct, frozen=True):
    """Xids of one device since the agent started; independent of its readings."""

    counts: Mapping[int, int]
    """By code; `OTHER_XID` counts codes beyond the limit."""
    last: int | None = None
    last_wall_time: Nanoseconds | None = None
    is_standing: bool = False
    """Whether the source still shows the last one, so the GPU was not reset since."""

    @property
    def total(self) -> int:
        """Number of all Xids."""
        return sum(self.counts.values())

    def counted(self, code: int, wall_time: Nanoseconds) -> "XidLog":
        """Add one Xid; codes missing in the catalog are counted separately up to a limit.

        Codes come from the driver, and each adds a time series.
        """
        unknown = self.counts.keys() - XID_MEANINGS.keys() - {OTHER_XID}
        has_own = code in XID_MEANINGS or code in unknown or len(unknown) < _UNKNOWN_XIDS_MAXIMUM
        kept = code if has_own else OTHER_XID
        return XidLog({**self.counts, kept: self.counts.get(kept, 0) + 1}, code, wall_time)
