"""The PCIe link as it is now: a lower generation is normal while a GPU idles."""

from typing import Final

from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    draft.put(Signal.PCIE_LINK_GENERATION, handle.ask("nvmlDeviceGetCurrPcieLinkGeneration"))
    draft.put(Signal.PCIE_LINK_WIDTH, handle.ask("nvmlDeviceGetCurrPcieLinkWidth"))


PCIE: Final = NvmlCollector("pcie", (Signal.PCIE_LINK_GENERATION, Signal.PCIE_LINK_WIDTH), _read)
