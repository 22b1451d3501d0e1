"""The collectors, one file each. Where two give a signal, the earlier one's value stands."""

from typing import Final

from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.collectors.clock_events import CLOCK_EVENTS
from rightsizer.telemetry.nvml.collectors.clocks import CLOCKS
from rightsizer.telemetry.nvml.collectors.gpm import GPM
from rightsizer.telemetry.nvml.collectors.memory import MEMORY
from rightsizer.telemetry.nvml.collectors.pcie import PCIE
from rightsizer.telemetry.nvml.collectors.pcie_throughput import PCIE_THROUGHPUT
from rightsizer.telemetry.nvml.collectors.power import POWER
from rightsizer.telemetry.nvml.collectors.processes import PROCESSES
from rightsizer.telemetry.nvml.collectors.temperature import TEMPERATURE
from rightsizer.telemetry.nvml.collectors.utilization import UTILIZATION

__all__ = ["COLLECTORS"]

COLLECTORS: Final[tuple[Collector, ...]] = (
    GPM,
    UTILIZATION,
    MEMORY,
    POWER,
    CLOCKS,
    CLOCK_EVENTS,
    TEMPERATURE,
    PCIE,
    PCIE_THROUGHPUT,
    PROCESSES,
)
