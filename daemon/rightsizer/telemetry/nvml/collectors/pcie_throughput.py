"""PCIe traffic where GPM does not tell it: each direction blocks the driver for 20 ms."""

from typing import Final

import pynvml

from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.handle import Handle

__all__ = ["PCIE_THROUGHPUT"]

_CALL: Final = "nvmlDeviceGetPcieThroughput"
_COUNTERS: Final = (
    (Signal.PCIE_RECEIVE_BYTES_PER_SECOND, pynvml.NVML_PCIE_UTIL_RX_BYTES),
    (Signal.PCIE_TRANSMIT_BYTES_PER_SECOND, pynvml.NVML_PCIE_UTIL_TX_BYTES),
)
_KIBIBYTE: Final = 2.0**10


def _read(handle: Handle, draft: Draft) -> None:
    for signal, counter in _COUNTERS:
        if signal not in draft.values:
            draft.put(signal, handle.ask(_CALL, counter), _KIBIBYTE)


PCIE_THROUGHPUT: Final = Collector(
    "pcie_throughput", tuple(signal for signal, _ in _COUNTERS), _read, part_of="pcie"
)
