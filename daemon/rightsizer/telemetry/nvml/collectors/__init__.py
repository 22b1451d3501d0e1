"""The collectors of all signals. Where two give a signal, the earlier one's value stands."""

from typing import Final

from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.collectors.ecc import ECC
from rightsizer.telemetry.nvml.collectors.gpm import GPM
from rightsizer.telemetry.nvml.collectors.memory import BAR1, MEMORY
from rightsizer.telemetry.nvml.collectors.nvlink import FABRIC, NVLINK, NVLINK_THROUGHPUT
from rightsizer.telemetry.nvml.collectors.pcie import PCIE_THROUGHPUT
from rightsizer.telemetry.nvml.collectors.power import POWER
from rightsizer.telemetry.nvml.collectors.processes import (
    OTHER_PROCESSES,
    PROCESS_UTILIZATION,
    PROCESSES,
)
from rightsizer.telemetry.nvml.collectors.temperature import FANS, TEMPERATURE
from rightsizer.telemetry.nvml.collectors.utilization import UTILIZATION

_ALL: Final = (
    *(GPM, UTILIZATION, MEMORY, POWER, "engines", "clocks", "clock_events", "violations"),
    *(TEMPERATURE, "pcie", "pcie_counters", PCIE_THROUGHPUT, NVLINK_THROUGHPUT, PROCESSES),
    *("power_limit", "clock_limits", "performance_state", "temperature_margin", FANS, BAR1),
    *("encoder_sessions", "pcie_replays", OTHER_PROCESSES, PROCESS_UTILIZATION, NVLINK, FABRIC),
    *(ECC, "retired_pages", "remapped_rows", "recovery"),
)
COLLECTORS: Final[tuple[NvmlCollector, ...]] = tuple(
    NvmlCollector.listed(each) if isinstance(each, str) else each for each in _ALL
)
