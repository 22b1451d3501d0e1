"""How many programs encode video."""

from typing import Final

from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.handle import Handle

__all__ = ["ENCODER_SESSIONS"]


def _read(handle: Handle, draft: Draft) -> None:
    statistics = handle.ask("nvmlDeviceGetEncoderStats")
    # Beside the count: frames per second and latency, means over the sessions.
    count = statistics if isinstance(statistics, Failure) else statistics[0]
    draft.put(Signal.ENCODER_SESSIONS, count)


ENCODER_SESSIONS: Final = Collector(
    "encoder_sessions",
    (Signal.ENCODER_SESSIONS,),
    _read,
    on_mig_parent=False,
    is_slow=True,
    part_of="utilization",
)
