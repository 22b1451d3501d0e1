"""PCIe link: state (a lower generation is normal while idle), traffic and replays."""

from typing import Final

import pynvml

from rightsizer.model.values import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector, NvmlRate, NvmlValue
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
    """Read traffic not known from another collector: each direction blocks the driver for 20 ms."""
    for signal, direction in _DIRECTIONS.items():
        if signal not in builder.values:
            builder.put(signal, handle.ask("nvmlDeviceGetPcieThroughput", direction), _KIBIBYTE)


PCIE: Final = NvmlCollector.of(
    "pcie",
    NvmlValue(Signal.PCIE_LINK_GENERATION, (("nvmlDeviceGetCurrPcieLinkGeneration",),)),
    NvmlValue(Signal.PCIE_LINK_WIDTH, (("nvmlDeviceGetCurrPcieLinkWidth",),)),
)
# Counters of newer drivers, for boards without GPM.
PCIE_COUNTERS: Final = NvmlCollector.of(
    "pcie_counters",
    # NVML_FI_DEV_PCIE_COUNT_TX_BYTES and _RX_BYTES; not named in the oldest supported bindings.
    NvmlRate(_TRANSMITTED, 197),
    NvmlRate(_RECEIVED, 198),
    part_of="pcie",
)
PCIE_THROUGHPUT: Final = NvmlCollector(
    "pcie_throughput", tuple(_DIRECTIONS), _read_throughput, part_of="pcie"
)
PCIE_REPLAYS: Final = NvmlCollector.of(
    "pcie_replays",
    NvmlValue(
        Signal.PCIE_REPLAYS,
        (("nvmlDeviceGetPcieReplayCounter",),),
        pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER,
    ),
    is_slow=True,
    part_of="pcie",
)
