"""The power limit in force: the least of the operator's and what board and chassis allow."""

from typing import Final

from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.handle import Handle

__all__ = ["POWER_LIMIT"]

_FORMS: Final = (("nvmlDeviceGetEnforcedPowerLimit",), ("nvmlDeviceGetPowerManagementLimit",))


def _read(handle: Handle, draft: Draft) -> None:
    draft.put(Signal.POWER_LIMIT_WATTS, handle.ask_first(*_FORMS), 1e-3)


POWER_LIMIT: Final = Collector(
    "power_limit", (Signal.POWER_LIMIT_WATTS,), _read, is_slow=True, part_of="power"
)
