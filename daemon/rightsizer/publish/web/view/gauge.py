"""The few readings that say at a glance what a device is doing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.signal import Signal
from rightsizer.publish.web.view.words import percent

__all__ = ["Gauge", "gauges"]

_GIB: Final = 2.0**30
_SHOWN: Final = (
    (Signal.GPU_BUSY, "Busy", "Share of time with a kernel resident: what GPU_UTIL shows"),
    (Signal.SM_WORK, "Work", "SM activity times clock: what was computed with"),
    (Signal.MEMORY_USED, "Memory", "Framebuffer used of total"),
    (Signal.POWER, "Power", "Draw above idle, of the limit above idle"),
)


@dataclass(frozen=True, slots=True)
class Gauge:
    """A reading between nothing and everything; `ratio` is `None` where it is not read."""

    key: str
    """The signal's name."""
    name: str
    meaning: str
    ratio: float | None
    text: str
    detail: str


def gauges(signals: Mapping[Signal, float]) -> tuple[Gauge, ...]:
    """The gauges of a device, those without a reading included."""
    details = {
        Signal.MEMORY_USED: _of(signals, Signal.MEMORY_USED_BYTES, Signal.MEMORY_TOTAL_BYTES, _GIB),
        Signal.POWER: _of(signals, Signal.POWER_WATTS, Signal.POWER_LIMIT_WATTS, 1.0),
    }
    units = {Signal.MEMORY_USED: "GiB", Signal.POWER: "W"}
    return tuple(
        Gauge(
            signal,
            name,
            meaning,
            signals.get(signal),
            percent(signals[signal]) if signal in signals else "not read",
            f"{details[signal]} {units[signal]}" if details.get(signal) else "",
        )
        for signal, name, meaning in _SHOWN
    )


def _of(signals: Mapping[Signal, float], part: Signal, whole: Signal, unit: float) -> str:
    if part not in signals:
        return ""
    text = f"{signals[part] / unit:.0f}"
    return f"{text} of {signals[whole] / unit:.0f}" if whole in signals else text
