"""NVLink traffic over all links by the driver's counters, where GPM does not tell it."""

from typing import Final

import pynvml

from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import CounterRates, NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

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
_NO_LINK: Final = NvmlFailure(Missing.NOT_SUPPORTED, _CALL, "no NVLink leads anywhere")


def _rates(handle: DeviceHandle) -> CounterRates:
    return CounterRates(handle, _COUNTERS, _KIBIBYTE)


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    wiring = handle.target.wiring
    if wiring.count is not None and not wiring.links:
        for signal, _ in _COUNTERS:
            draft.fail(signal, _NO_LINK)
        return
    handle.hold(_rates).put(draft)


NVLINK_THROUGHPUT: Final = NvmlCollector(
    "nvlink_throughput",
    tuple(signal for signal, _ in _COUNTERS),
    _read,
    fields=tuple(field for _, field in _COUNTERS),
    part_of="nvlink",
)
