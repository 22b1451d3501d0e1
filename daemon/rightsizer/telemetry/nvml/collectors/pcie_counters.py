"""PCIe traffic by the counters that newer drivers keep, where GPM does not tell it."""

from typing import Final

from rightsizer.domain.reading import Missing
from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.handle import Handle
from rightsizer.telemetry.nvml.rate import Rate

__all__ = ["PCIE_COUNTERS"]

# NVML_FI_DEV_PCIE_COUNT_TX_BYTES and _RX_BYTES, which the oldest bindings allowed do not name.
_COUNTERS: Final = (
    (Signal.PCIE_TRANSMIT_BYTES_PER_SECOND, 197),
    (Signal.PCIE_RECEIVE_BYTES_PER_SECOND, 198),
)
_FIRST: Final = Failure(
    Missing.NO_SAMPLE, "nvmlDeviceGetFieldValues", "the first look at a counter, or a reset one"
)


class _Rates:
    """The counters of one device."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._rates = {signal: Rate() for signal, _ in _COUNTERS}

    def put(self, draft: Draft) -> None:
        """Put what has passed since the last time into the draft."""
        now = self._handle.clock.time()
        for signal, field in _COUNTERS:
            counted = self._handle.field(field)
            if not isinstance(counted, Failure):
                rate = self._rates[signal].per_second(counted, now)
                counted = _FIRST if rate is None else rate
            draft.put(signal, counted)

    def close(self) -> None:
        """Nothing is held of the driver's."""


def _read(handle: Handle, draft: Draft) -> None:
    handle.hold(_Rates).put(draft)


PCIE_COUNTERS: Final = Collector(
    "pcie_counters",
    tuple(signal for signal, _ in _COUNTERS),
    _read,
    fields=tuple(field for _, field in _COUNTERS),
    part_of="pcie",
)
