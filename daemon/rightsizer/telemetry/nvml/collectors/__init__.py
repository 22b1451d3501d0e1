"""All collectors in order of precedence: the first that gives a signal wins."""

from typing import Final

from rightsizer.io.extensions import extended
from rightsizer.telemetry.nvml.collector import NvmlCollector, checked_collector
from rightsizer.telemetry.nvml.collectors import (
    clocks,
    gpm,
    health,
    memory,
    nvlink,
    pcie,
    power,
    processes,
    temperature,
    utilization,
)

_OURS: Final[tuple[NvmlCollector, ...]] = (
    gpm.GPM,
    utilization.UTILIZATION,
    memory.MEMORY,
    power.POWER,
    utilization.ENGINES,
    clocks.CLOCKS,
    clocks.CLOCK_EVENTS,
    temperature.TEMPERATURE,
    pcie.PCIE,
    pcie.PCIE_COUNTERS,
    pcie.PCIE_THROUGHPUT,
    nvlink.NVLINK_THROUGHPUT,
    processes.PROCESSES,
    power.ENERGY,
    power.VIOLATIONS,
    power.POWER_LIMIT,
    clocks.CLOCK_LIMITS,
    clocks.PERFORMANCE_STATE,
    temperature.TEMPERATURE_MARGIN,
    temperature.FANS,
    memory.BAR1,
    utilization.ENCODER_SESSIONS,
    pcie.PCIE_REPLAYS,
    processes.OTHER_PROCESSES,
    processes.PROCESS_UTILIZATION,
    nvlink.NVLINK,
    nvlink.FABRIC,
    health.ECC,
    health.RETIRED_PAGES,
    health.REMAPPED_ROWS,
    health.RECOVERY,
)
COLLECTORS: Final = extended(
    "collectors", _OURS, checked_collector, lambda collector: collector.name
)
"""Those of other packages are the last: they add what ours did not give."""
