"""The collectors of all signals. Where two give a signal, the earlier one's value stands."""

from typing import Final

from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.collectors.clocks import (
    CLOCK_EVENTS,
    CLOCK_LIMITS,
    CLOCKS,
    PERFORMANCE_STATE,
)
from rightsizer.telemetry.nvml.collectors.gpm import GPM
from rightsizer.telemetry.nvml.collectors.health import ECC, RECOVERY, REMAPPED_ROWS, RETIRED_PAGES
from rightsizer.telemetry.nvml.collectors.memory import BAR1, MEMORY
from rightsizer.telemetry.nvml.collectors.nvlink import FABRIC, NVLINK, NVLINK_THROUGHPUT
from rightsizer.telemetry.nvml.collectors.pcie import (
    PCIE,
    PCIE_COUNTERS,
    PCIE_REPLAYS,
    PCIE_THROUGHPUT,
)
from rightsizer.telemetry.nvml.collectors.power import POWER, POWER_LIMIT, VIOLATIONS
from rightsizer.telemetry.nvml.collectors.processes import (
    OTHER_PROCESSES,
    PROCESS_UTILIZATION,
    PROCESSES,
)
from rightsizer.telemetry.nvml.collectors.temperature import FANS, TEMPERATURE, TEMPERATURE_MARGIN
from rightsizer.telemetry.nvml.collectors.utilization import ENCODER_SESSIONS, ENGINES, UTILIZATION

COLLECTORS: Final[tuple[NvmlCollector, ...]] = (
    *(GPM, UTILIZATION, MEMORY, POWER, ENGINES, CLOCKS, CLOCK_EVENTS, VIOLATIONS, TEMPERATURE),
    *(PCIE, PCIE_COUNTERS, PCIE_THROUGHPUT, NVLINK_THROUGHPUT, PROCESSES, POWER_LIMIT),
    *(CLOCK_LIMITS, PERFORMANCE_STATE, TEMPERATURE_MARGIN, FANS, BAR1, ENCODER_SESSIONS),
    *(PCIE_REPLAYS, OTHER_PROCESSES, PROCESS_UTILIZATION, NVLINK, FABRIC, ECC, RETIRED_PAGES),
    *(REMAPPED_ROWS, RECOVERY),
)
