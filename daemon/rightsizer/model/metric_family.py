"""Metric families and the collectors that switch them on or off."""

from enum import Enum, StrEnum, auto
from typing import Final, Self

from rightsizer.model.frozen import dataclass
from rightsizer.model.units import Unit


class Collector(StrEnum):
    """A group's name, as the configuration, a flag and `collect[]` spell it."""

    exports: str
    """What it exports, in one sentence."""

    def __new__(cls, name: str, exports: str = "") -> Self:
        """Make the member of a row."""
        collector = str.__new__(cls, name)
        collector._value_, collector.exports = name, exports
        return collector

    AGENT = "agent", "The agent: its version, sampling, jobs, history, configuration and log."
    PROCESS = "process", "The agent's process: CPU time, memory and open files."
    DEVICE = "device", "Which devices there are, whether they answer, and on which telemetry."
    WORKLOAD = "workload", "Who holds which device."
    ERRORS = "errors", "Xids, memory errors, retired pages, remapped rows, the recovery action."
    STATES = "states", "Where the time went, by state and by condition."
    WASTE = "waste", "Used time and energy, and waste by cause."
    DISTRIBUTIONS = "distributions", "Histograms of the seconds by how busy they were."
    ACTIVITY = "activity", "How busy each engine is, and the number of processes."
    MEMORY = "memory", "Memory of the devices, used and in all."
    POWER = "power", "Draw, limit and energy."
    TEMPERATURE = "temperature", "Temperatures and fans."
    CLOCKS = "clocks", "Clocks, and what holds them down."
    PCIE = "pcie", "The PCIe link and its traffic."
    NVLINK = "nvlink", "All NVLinks of a device together."
    SERVING = "serving", "What serving engines say of themselves."
    PROVISIONING = "provisioning", "Need, over- and under-provisioning by window."
    ADVICE = "advice", "Open recommendations and how they ended."
    RECOMMENDER = "recommender", "The recommender's runs, and how its advice is passed on."
    TOPOLOGY = "topology", "The way between any two GPUs: 28 series for eight."
    LINKS = "links", "Each NVLink by itself: 6 series a link."
    FABRIC = "fabric", "InfiniBand and RoCE ports, which node_exporter has too."
    HOST = "host", "The host by workload: CPU, disk, network, pressure, NUMA locality."
    EXTRA = "extra", "What is rarely needed: BAR1, application clocks, errors in a board's life."


class Level(StrEnum):
    """How much is exported, least first; each level has all that the one before it has."""

    ESSENTIAL = "essential"
    """States, waste, provisioning, advice, health: at most 40 series a GPU."""
    STANDARD = "standard"
    """With conditions, errors and the readings that dashboards draw: at most 90 series a GPU."""
    FULL = "full"
    """All that the collectors have: histograms, needs by resource, energy by cause."""

    @property
    def rank(self) -> int:
        """Its place, least first."""
        return tuple(Level).index(self)


COLLECTORS: Final = {collector: collector.exports for collector in Collector}

DEFAULT_COLLECTORS: Final = frozenset(Collector) - {
    Collector.TOPOLOGY,
    Collector.LINKS,
    Collector.FABRIC,
    Collector.HOST,
    Collector.EXTRA,
}
"""Those that are on unless switched off; with the rest eight GPUs pass 1,900 series."""

_UNITS: Final = (*(each for each in Unit if each is not Unit.COUNT), "dollars_per_hour", "gpus")


class MetricKind(StrEnum):
    """What a metric is to Prometheus; an info metric is a gauge that is always 1."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


class Origin(StrEnum):
    """Where a metric's value comes from; for a reading, the telemetry tier that it needs."""

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
    """The metrics that carry a signal."""

    GAUGE = auto()
    """Last reading."""
    HISTOGRAM = auto()
    """Last reading as a gauge, seconds as a histogram."""
    COUNTER = auto()
    """Total; the value only grows until the driver or the engine restarts."""
    NAMED = auto()
    """No metric of its own: a series for each of its bits."""


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """One metric; its name is that of Prometheus's text format, suffix and all."""

    name: str
    kind: MetricKind
    help: str
    """A sentence with its full stop."""
    labels: tuple[str, ...]
    origin: Origin
    collector: Collector = Collector.AGENT
    """The group that it is switched on and off with."""
    level: Level = Level.FULL
    """The least level that it is exported at."""

    @property
    def stem(self) -> str:
        """The name without its suffix, which OpenMetrics gives to samples alone."""
        return self.name.removesuffix("_total").removesuffix("_info")

    @property
    def unit(self) -> str:
        """The base unit that ends the name; empty for a number without one."""
        stem = self.name.removesuffix("_total")
        return next((unit for unit in _UNITS if stem.endswith(f"_{unit}")), "")


def series_key(name: str, **labels: str) -> str:
    """How `AgentReport.counters` and `gauges` name a series that has labels.

    Without labels it is the metric's name alone.
    """
    pairs = ",".join(f'{label}="{value}"' for label, value in labels.items())
    return f"{name}{{{pairs}}}" if pairs else name
