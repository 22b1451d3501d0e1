"""Metric families and the collectors that enable them."""

from enum import Enum, StrEnum, auto
from typing import Final, Self

from msgspec import Struct

from rightsizer.model.units import Unit


class Collector(StrEnum):
    """Group of metrics; the name in the configuration, the flag and `collect[]`."""

    exports: str
    """Exported metrics, in one sentence."""

    def __new__(cls, name: str, exports: str = "") -> Self:
        """Make a member with its description."""
        collector = str.__new__(cls, name)
        collector._value_ = name
        collector.exports = exports
        return collector

    AGENT = "agent", "The agent: its version, sampling, jobs, history, configuration and log."
    PROCESS = "process", "The agent's process: CPU time, memory and open files."
    DEVICE = "device", "Devices, whether they respond, and their telemetry."
    WORKLOAD = "workload", "The workloads that hold each device."
    ERRORS = "errors", "Xids, memory errors, retired pages, remapped rows, the recovery action."
    STATES = "states", "Time by state and by condition."
    WASTE = "waste", "Used time and energy, and waste by cause."
    DISTRIBUTIONS = "distributions", "Histograms of time by utilization."
    ACTIVITY = "activity", "Utilization of each engine, and the number of processes."
    MEMORY = "memory", "Used and total memory of the devices."
    POWER = "power", "Power, power limit and energy."
    TEMPERATURE = "temperature", "Temperatures and fans."
    CLOCKS = "clocks", "Clocks, and why they are reduced."
    PCIE = "pcie", "The PCIe link and its traffic."
    NVLINK = "nvlink", "Total over all NVLinks of a device."
    SERVING = "serving", "Models, load, queue, cache and latency of serving engines."
    PROVISIONING = "provisioning", "Need, over- and under-provisioning by window."
    ADVICE = "advice", "Open recommendations and how they ended."
    RECOMMENDER = "recommender", "The recommender's runs, and delivery of recommendations."
    TOPOLOGY = "topology", "Links between each two GPUs: 28 series for eight."
    LINKS = "links", "Each NVLink separately: 6 series per link."
    FABRIC = "fabric", "InfiniBand and RoCE ports, also exported by node_exporter."
    HOST = "host", "The host by workload: CPU, disk, network, pressure, NUMA locality."
    EXTRA = "extra", "Rarely needed: BAR1, application clocks, lifetime errors of a board."


class Level(StrEnum):
    """Export level, lowest first; each includes the ones before."""

    ESSENTIAL = "essential"
    """States, waste, provisioning, advice, health: at most 40 series a GPU."""
    STANDARD = "standard"
    """With conditions, errors and the readings that dashboards draw: at most 90 series a GPU."""
    FULL = "full"
    """Everything that the collectors provide: histograms, needs by resource, energy by cause."""

    @property
    def rank(self) -> int:
        """Position, lowest first."""
        return tuple(Level).index(self)


COLLECTORS: Final = {collector: collector.exports for collector in Collector}

DEFAULT_COLLECTORS: Final = frozenset(Collector) - {
    Collector.TOPOLOGY,
    Collector.LINKS,
    Collector.FABRIC,
    Collector.HOST,
    Collector.EXTRA,
}
"""Enabled by default; with the others eight GPUs exceed 1,920 series."""

_UNITS: Final = (*(unit for unit in Unit if unit is not Unit.COUNT), "dollars_per_hour", "gpus")


class MetricKind(StrEnum):
    """Prometheus type of a metric; an info metric is a gauge that is always 1."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


class Origin(StrEnum):
    """Source of a metric's value; for a reading, the required telemetry tier."""

    DRIVER = "driver"
    BASIC = "basic tier"
    POWER = "power tier"
    PROFILING = "profiling tier"
    HOST = "host"
    SERVING = "serving engine"
    ACCOUNTING = "accounting"
    ADVICE = "advice"
    AGENT = "agent"
    FLEET = "fleet"


class Export(Enum):
    """How a signal is exported."""

    GAUGE = auto()
    """Last reading as a gauge."""
    HISTOGRAM = auto()
    """Last reading as a gauge, and a histogram of seconds."""
    COUNTER = auto()
    """Counter that grows until the driver or the engine restarts."""
    NAMED = auto()
    """No metric of its own: one series per bit."""


class MetricFamily(Struct, frozen=True):
    """Metric family; its name is that of the text format, including the suffix."""

    name: str
    kind: MetricKind
    help: str
    """Full sentence with a period."""
    labels: tuple[str, ...]
    origin: Origin
    collector: Collector = Collector.AGENT
    """Collector that enables it."""
    level: Level = Level.FULL
    """Lowest level that exports it."""

    @property
    def stem(self) -> str:
        """Name without `_total` or `_info`, which OpenMetrics adds to samples only."""
        return self.name.removesuffix("_total").removesuffix("_info")

    @property
    def unit(self) -> str:
        """Base unit at the end of the name; empty if there is none."""
        stem = self.name.removesuffix("_total")
        return next((unit for unit in _UNITS if stem.endswith(f"_{unit}")), "")


def series_key(name: str, **labels: str) -> str:
    """Key of a labeled series in `AgentReport.metrics`.

    Without labels it is just the metric's name.
    """
    pairs = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{name}{{{pairs}}}" if pairs else name
