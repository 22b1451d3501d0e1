"""PCIe traffic where GPM does not tell it: each direction blocks the driver for 20 ms."""

from typing import Final

import pynvml

from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_CALL: Final = "nvmlDeviceGetPcieThroughput"
_COUNTERS: Final = (
    (Signal.PCIE_RECEIVE_BYTES_PER_SECOND, pynvml.NVML_PCIE_UTIL_RX_BYTES),
    (Signal.PCIE_TRANSMIT_BYTES_PER_SECOND, pynvml.NVML_PCIE_UTIL_TX_BYTES),
)
_KIBIBYTE: Final = 2.0**10


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    for signal, counter in _COUNTERS:
        if signal not in draft.values:
            draft.put(signal, handle.ask(_CALL, counter), _KIBIBYTE)


PCIE_THROUGHPUT: Final = NvmlCollector(
    "pcie_throughput", tuple(signal for signal, _ in _COUNTERS), _read, part_of="pcie"
)
