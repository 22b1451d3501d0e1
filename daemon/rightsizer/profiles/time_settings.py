"""What the arithmetic of time lines takes for near and for long."""

from dataclasses import dataclass

from rightsizer.domain.settings import setting

__all__ = ["TimeSettings"]


@dataclass(frozen=True, slots=True)
class TimeSettings:
    """Thresholds of where a device's time went."""

    adjacent_maximum_nanoseconds: int = setting(
        30,
        help="Kernels no further apart than this follow each other directly.",
        minimum=0,
        source="HolisticTraceAnalysis, consecutive_kernel_delay",
    )
    long_collective_minimum_ratio: float = setting(
        0.01,
        help="Part of its step that a collective takes at least, for its start to tell a "
        "straggler.",
        unit="ratio",
        minimum=0.0,
        maximum=1.0,
        source="HolisticTraceAnalysis, straggler analysis",
    )
