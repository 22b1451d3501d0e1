"""PCIe traffic by the counters that newer drivers keep, where GPM does not tell it."""

from typing import Final

from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import CounterRates, NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

# NVML_FI_DEV_PCIE_COUNT_TX_BYTES and _RX_BYTES, which the oldest bindings allowed do not name.
_COUNTERS: Final = (
    (Signal.PCIE_TRANSMIT_BYTES_PER_SECOND, 197),
    (Signal.PCIE_RECEIVE_BYTES_PER_SECOND, 198),
)


def _rates(handle: DeviceHandle) -> CounterRates:
    return CounterRates(handle, _COUNTERS)


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    handle.hold(_rates).put(draft)


PCIE_COUNTERS: Final = NvmlCollector(
    "pcie_counters",
    tuple(signal for signal, _ in _COUNTERS),
    _read,
    fields=tuple(field for _, field in _COUNTERS),
    part_of="pcie",
)
