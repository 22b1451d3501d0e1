"""The PCIe link as it is now: a lower generation is normal while a GPU idles."""

from typing import Final

from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.handle import Handle

__all__ = ["PCIE"]


def _read(handle: Handle, draft: Draft) -> None:
    draft.put(Signal.PCIE_LINK_GENERATION, handle.ask("nvmlDeviceGetCurrPcieLinkGeneration"))
    draft.put(Signal.PCIE_LINK_WIDTH, handle.ask("nvmlDeviceGetCurrPcieLinkWidth"))


PCIE: Final = Collector("pcie", (Signal.PCIE_LINK_GENERATION, Signal.PCIE_LINK_WIDTH), _read)
