"""How many programs encode video."""

from typing import Final

from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    statistics = handle.ask("nvmlDeviceGetEncoderStats")
    # Beside the count: frames per second and latency, means over the sessions.
    count = statistics if isinstance(statistics, NvmlFailure) else statistics[0]
    draft.put(Signal.ENCODER_SESSIONS, count)


ENCODER_SESSIONS: Final = NvmlCollector(
    "encoder_sessions",
    (Signal.ENCODER_SESSIONS,),
    _read,
    on_mig_parent=False,
    is_slow=True,
    part_of="utilization",
)
