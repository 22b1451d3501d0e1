"""Numbered fields that only grow, as rates: what passed since the round before."""

from collections.abc import Sequence
from typing import Final

from rightsizer.domain.reading import Missing
from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.handle import Handle
from rightsizer.telemetry.nvml.library import FieldKey
from rightsizer.telemetry.nvml.rate import Rate

__all__ = ["CounterRates"]

_FIRST: Final = Failure(
    Missing.NO_SAMPLE, "nvmlDeviceGetFieldValues", "the first look at a counter, or a reset one"
)


class CounterRates:
    """Some counters of one device."""

    def __init__(
        self, handle: Handle, counters: Sequence[tuple[Signal, FieldKey]], scale: float = 1.0
    ) -> None:
        """Nothing was seen yet; a count is worth `scale` of the signal's unit."""
        self._handle, self._counters, self._scale = handle, counters, scale
        self._rates = {signal: Rate() for signal, _ in counters}

    def put(self, draft: Draft) -> None:
        """Put what has passed since the last time into the draft."""
        now = self._handle.fields_time
        for signal, field in self._counters:
            counted = self._handle.field(field)
            if not isinstance(counted, Failure):
                rate = self._rates[signal].per_second(counted, now)
                counted = _FIRST if rate is None else rate
            draft.put(signal, counted, self._scale)

    def close(self) -> None:
        """Nothing of the driver's is held."""
