"""What an operator may change about recordings."""

from dataclasses import dataclass

from rightsizer.model.settings import setting


@dataclass(frozen=True, slots=True)
class RecordingSettings:
    """How recordings are read and written."""

    hold_intervals: float = setting(
        2.0,
        help="A value holds for so many of its own file's intervals, then it is stale.",
        minimum=1.0,
        maximum=100.0,
        source="Slower signals hold for at most two of their own intervals.",
    )
    poll_gap_seconds: float = setting(
        0.5,
        help="Readings of several devices that follow each other faster are of one poll, "
        "unless that is more than half the recording's interval.",
        unit="seconds",
        minimum=0.0,
        maximum=60.0,
        source="nvidia-smi takes a few milliseconds a device, and 22 ms without persistence.",
    )
    flush_interval_seconds: float = setting(
        10.0,
        help="How much of a recording may be lost when its recorder is killed.",
        unit="seconds",
        minimum=0.0,
        maximum=3600.0,
        source="A flush costs a compressed file about a tenth of its size at one a second.",
    )
