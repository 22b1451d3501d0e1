"""The few figures of a recording that a plan can be held against."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rightsizer.domain.device import Device
from rightsizer.domain.signal import Signal
from rightsizer.telemetry.source import Source

__all__ = ["RecordedDevice", "read_devices"]

_MEANS: Final = (
    Signal.REQUESTS_RUNNING,
    Signal.TIME_PER_OUTPUT_TOKEN_SECONDS,
    Signal.TIME_TO_FIRST_TOKEN_SECONDS,
    Signal.GPU_BUSY,
    Signal.SM_ACTIVE,
    Signal.TENSOR_ACTIVE,
    Signal.DRAM_ACTIVE,
    Signal.POWER,
    Signal.KV_CACHE_USED,
)


@dataclass(slots=True)
class RecordedDevice:
    """One device of a recording."""

    device: Device
    readings: int = 0
    memory_peak_bytes: float | None = None
    _sums: dict[Signal, float] = field(default_factory=dict)
    _counts: dict[Signal, int] = field(default_factory=dict)

    @property
    def means(self) -> Mapping[Signal, float]:
        """Over the readings that have the signal."""
        return {signal: total / self._counts[signal] for signal, total in self._sums.items()}

    def add(self, values: Mapping[Signal, float]) -> None:
        """Count one reading."""
        self.readings += 1
        for signal in _MEANS:
            value = values.get(signal)
            if value is not None:
                self._sums[signal] = self._sums.get(signal, 0.0) + value
                self._counts[signal] = self._counts.get(signal, 0) + 1
        used = self._memory_bytes(values)
        if used is not None:
            self.memory_peak_bytes = max(used, self.memory_peak_bytes or 0.0)

    def _memory_bytes(self, values: Mapping[Signal, float]) -> float | None:
        used = values.get(Signal.MEMORY_USED_BYTES)
        if used is not None:
            return used
        ratio, total = values.get(Signal.MEMORY_USED), self.device.memory_total_bytes
        return None if ratio is None or total is None else ratio * total


def read_devices(source: Source) -> tuple[RecordedDevice, ...]:
    """Every device of a recording that was read at all, in their order."""
    found: dict[str, RecordedDevice] = {}
    while (snapshot := source.read()) is not None:
        for device in snapshot.devices:
            reading = snapshot.readings.get(device.uuid)
            if reading is not None:
                recorded = found.setdefault(device.uuid, RecordedDevice(device))
                recorded.device = device
                recorded.add(reading.values)
    return tuple(found.values())
