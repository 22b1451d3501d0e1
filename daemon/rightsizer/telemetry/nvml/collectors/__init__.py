"""The collectors, one file each. Where two give a signal, the earlier one's value stands."""

from typing import Final

from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.collectors.bar1 import BAR1
from rightsizer.telemetry.nvml.collectors.clock_events import CLOCK_EVENTS
from rightsizer.telemetry.nvml.collectors.clocks import CLOCK_LIMITS, CLOCKS
from rightsizer.telemetry.nvml.collectors.ecc import ECC
from rightsizer.telemetry.nvml.collectors.encoder_sessions import ENCODER_SESSIONS
from rightsizer.telemetry.nvml.collectors.fabric import FABRIC
from rightsizer.telemetry.nvml.collectors.fans import FANS
from rightsizer.telemetry.nvml.collectors.gpm import GPM
from rightsizer.telemetry.nvml.collectors.memory import MEMORY
from rightsizer.telemetry.nvml.collectors.nvlink import NVLINK
from rightsizer.telemetry.nvml.collectors.nvlink_throughput import NVLINK_THROUGHPUT
from rightsizer.telemetry.nvml.collectors.pcie import PCIE
from rightsizer.telemetry.nvml.collectors.pcie_counters import PCIE_COUNTERS
from rightsizer.telemetry.nvml.collectors.pcie_replays import PCIE_REPLAYS
from rightsizer.telemetry.nvml.collectors.pcie_throughput import PCIE_THROUGHPUT
from rightsizer.telemetry.nvml.collectors.performance_state import PERFORMANCE_STATE
from rightsizer.telemetry.nvml.collectors.power import POWER
from rightsizer.telemetry.nvml.collectors.power_limit import POWER_LIMIT
from rightsizer.telemetry.nvml.collectors.process_utilization import PROCESS_UTILIZATION
from rightsizer.telemetry.nvml.collectors.processes import OTHER_PROCESSES, PROCESSES
from rightsizer.telemetry.nvml.collectors.recovery import RECOVERY
from rightsizer.telemetry.nvml.collectors.remapped_rows import REMAPPED_ROWS
from rightsizer.telemetry.nvml.collectors.retired_pages import RETIRED_PAGES
from rightsizer.telemetry.nvml.collectors.temperature import TEMPERATURE, TEMPERATURE_MARGIN
from rightsizer.telemetry.nvml.collectors.utilization import ENGINES, UTILIZATION
from rightsizer.telemetry.nvml.collectors.violations import VIOLATIONS

COLLECTORS: Final[tuple[NvmlCollector, ...]] = (
    GPM,
    UTILIZATION,
    MEMORY,
    POWER,
    ENGINES,
    CLOCKS,
    CLOCK_EVENTS,
    VIOLATIONS,
    TEMPERATURE,
    PCIE,
    PCIE_COUNTERS,
    PCIE_THROUGHPUT,
    NVLINK_THROUGHPUT,
    PROCESSES,
    POWER_LIMIT,
    CLOCK_LIMITS,
    PERFORMANCE_STATE,
    TEMPERATURE_MARGIN,
    FANS,
    BAR1,
    ENCODER_SESSIONS,
    PCIE_REPLAYS,
    OTHER_PROCESSES,
    PROCESS_UTILIZATION,
    NVLINK,
    FABRIC,
    ECC,
    RETIRED_PAGES,
    REMAPPED_ROWS,
    RECOVERY,
)
