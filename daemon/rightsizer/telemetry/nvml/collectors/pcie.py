"""Traffic over the PCIe link, as the driver measures it."""

from typing import Final

import pynvml

from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_KIBIBYTE: Final = 2.0**10
_RECEIVED: Final = Signal.PCIE_RECEIVE_BYTES_PER_SECOND
_TRANSMITTED: Final = Signal.PCIE_TRANSMIT_BYTES_PER_SECOND
_DIRECTIONS: Final = {
    _RECEIVED: pynvml.NVML_PCIE_UTIL_RX_BYTES,
    _TRANSMITTED: pynvml.NVML_PCIE_UTIL_TX_BYTES,
}


def _read_throughput(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    """Ask where no other collector has it: each direction blocks the driver for 20 ms."""
    for signal, direction in _DIRECTIONS.items():
        if signal not in builder.values:
            builder.put(signal, handle.ask("nvmlDeviceGetPcieThroughput", direction), _KIBIBYTE)


PCIE_THROUGHPUT: Final = NvmlCollector(
    "pcie_throughput", tuple(_DIRECTIONS), _read_throughput, part_of="pcie"
)
