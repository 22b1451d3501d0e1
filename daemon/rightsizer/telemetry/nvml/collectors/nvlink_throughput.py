"""NVLink traffic over all links by the driver's counters, where GPM does not tell it."""

from typing import Final

import pynvml

from rightsizer.domain.reading import Missing
from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.handle import Handle
from rightsizer.telemetry.nvml.rate import Rate

__all__ = ["NVLINK_THROUGHPUT"]

_ALL_LINKS: Final = 0xFFFFFFFF
_COUNTERS: Final = (
    (
        Signal.NVLINK_RECEIVE_BYTES_PER_SECOND,
        (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, _ALL_LINKS),
    ),
    (
        Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND,
        (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, _ALL_LINKS),
    ),
)
_KIBIBYTE: Final = 2.0**10
_CALL: Final = "nvmlDeviceGetFieldValues"
_FIRST: Final = Failure(Missing.NO_SAMPLE, _CALL, "the first look at a counter, or a reset one")
_NO_LINK: Final = Failure(Missing.NOT_SUPPORTED, _CALL, "no NVLink leads anywhere")


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
            draft.put(signal, counted, _KIBIBYTE)

    def close(self) -> None:
        """Nothing of the driver's is held."""


def _read(handle: Handle, draft: Draft) -> None:
    wiring = handle.target.wiring
    if wiring.count is not None and not wiring.links:
        for signal, _ in _COUNTERS:
            draft.fail(signal, _NO_LINK)
        return
    handle.hold(_Rates).put(draft)


NVLINK_THROUGHPUT: Final = Collector(
    "nvlink_throughput",
    tuple(signal for signal, _ in _COUNTERS),
    _read,
    fields=tuple(field for _, field in _COUNTERS),
    part_of="nvlink",
)
