"""The collectors of all signals. Where two give a signal, the earlier one's value stands."""

from typing import Final

from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.collectors import board, gpm, health, nvlink, processes, utilization

COLLECTORS: Final[tuple[NvmlCollector, ...]] = (
    *(gpm.GPM, utilization.UTILIZATION, board.MEMORY, board.POWER, utilization.ENGINES),
    *(board.CLOCKS, board.CLOCK_EVENTS, board.VIOLATIONS, board.TEMPERATURE, board.PCIE),
    *(board.PCIE_COUNTERS, board.PCIE_THROUGHPUT, nvlink.NVLINK_THROUGHPUT, processes.PROCESSES),
    *(board.POWER_LIMIT, board.CLOCK_LIMITS, board.PERFORMANCE_STATE, board.TEMPERATURE_MARGIN),
    *(board.FANS, board.BAR1, utilization.ENCODER_SESSIONS, board.PCIE_REPLAYS),
    *(processes.OTHER_PROCESSES, processes.PROCESS_UTILIZATION, nvlink.NVLINK, nvlink.FABRIC),
    *(health.ECC, health.RETIRED_PAGES, health.REMAPPED_ROWS, health.RECOVERY),
)
