"""Base of the NVML collectors: name, signals, read function, rates of counters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rightsizer.model.device import Device
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import FieldKey, NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder


class CounterRate:
    """A counter between two looks; one that went backwards was reset and says nothing."""

    __slots__ = ("_last", "_time")

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._last: float | None = None
        self._time: Nanoseconds = 0

    def per_second(self, value: float, now: Nanoseconds) -> float | None:
        """The growth since the last look; `None` at the first and after a reset."""
        last, since = self._last, self._time
        self._last, self._time = value, now
        if last is None or value < last or now <= since:
            return None
        return (value - last) / seconds(now - since)


_FIRST: Final = NvmlFailure(
    Missing.NO_SAMPLE, "nvmlDeviceGetFieldValues", "the first look at a counter, or a reset one"
)


class CounterRates:
    """Some counters of one device."""

    def __init__(
        self, handle: DeviceHandle, counters: Sequence[tuple[Signal, FieldKey]], scale: float = 1.0
    ) -> None:
        """Nothing was seen yet; a count is worth `scale` of the signal's unit."""
        self._handle, self._counters, self._scale = handle, counters, scale
        self._rates = {signal: CounterRate() for signal, _ in counters}

    def put(self, draft: ReadingBuilder) -> None:
        """Put what has passed since the last time into the draft."""
        now = self._handle.fields_time
        for signal, field in self._counters:
            counted = self._handle.field(field)
            if not isinstance(counted, NvmlFailure):
                rate = self._rates[signal].per_second(counted, now)
                counted = _FIRST if rate is None else rate
            draft.put(signal, counted, self._scale)

    def close(self) -> None:
        """Nothing of the driver's is held."""


@dataclass(frozen=True, slots=True)
class NvmlCollector:
    """Some signals of a device that are read together."""

    name: str
    signals: tuple[Signal, ...]
    read: Callable[[DeviceHandle, ReadingBuilder], None]
    """Asks the handle and puts each answer into the draft, failures too."""
    part_of: str = ""
    """The collector under whose name it is told how it fares; its own where there is none."""
    fields: tuple[FieldKey, ...] = ()
    """NVML's numbered fields that it takes from `Handle.field`: those of all collectors come in
    one call a round."""
    is_essential: bool = False
    """Whether it is asked every round, however slow the driver is; the others wait for room."""
    is_slow: bool = False
    """Whether its signals change so slowly that they are read at the slow interval and hold."""
    tells: tuple[str, ...] = ()
    """What it puts into the draft beside its signals, by attribute."""
    release: Callable[[DeviceHandle, ReadingBuilder], None] | None = None
    """Gives back the counters that it holds, when a profiler needs them, and puts into the draft
    why its signals are missing meanwhile."""
    on_mig_parent: bool = True
    """Whether a GPU that is cut into MIG instances has these signals itself."""
    on_mig_instance: bool = False
    """Whether a MIG instance has these signals itself."""
    settles: bool = False
    """Whether a GPU that has just been woken up gives misleading values."""

    def applies_to(self, device: Device) -> bool:
        """Whether the device is of a kind that can have these signals."""
        if device.mig is not None:
            return self.on_mig_instance
        return self.on_mig_parent or not device.has_mig_instances
