"""Metric families and the collectors that switch them on or off."""

from enum import Enum, StrEnum, auto
from typing import Final

from rightsizer.model.frozen import dataclass, replace


class Collector(StrEnum):
    """A group's name, as the configuration, a flag and `collect[]` spell it."""

    AGENT = "agent"
    PROCESS = "process"
    DEVICE = "device"
    WORKLOAD = "workload"
    ERRORS = "errors"
    STATES = "states"
    WASTE = "waste"
    DISTRIBUTIONS = "distributions"
    ACTIVITY = "activity"
    MEMORY = "memory"
    POWER = "power"
    TEMPERATURE = "temperature"
    CLOCKS = "clocks"
    PCIE = "pcie"
    NVLINK = "nvlink"
    SERVING = "serving"
    PROVISIONING = "provisioning"
    ADVICE = "advice"
    RECOMMENDER = "recommender"
    TOPOLOGY = "topology"
    LINKS = "links"
    FABRIC = "fabric"
    HOST = "host"
    EXTRA = "extra"


COLLECTORS: Final[dict[Collector, str]] = {
    Collector.AGENT: "The agent: its version, sampling, jobs, history, configuration and log.",
    Collector.PROCESS: "The agent's process: CPU time, memory and open files.",
    Collector.DEVICE: "Which devices there are, whether they answer, and on which telemetry.",
    Collector.WORKLOAD: "Who holds which device.",
    Collector.ERRORS: "Xids, memory errors, retired pages, remapped rows, the recovery action.",
    Collector.STATES: "Where the time went, by state and by condition.",
    Collector.WASTE: "Time and energy put to use, and left unused by cause.",
    Collector.DISTRIBUTIONS: "Histograms of the seconds by how busy they were.",
    Collector.ACTIVITY: "How busy each engine is, and the number of processes.",
    Collector.MEMORY: "Memory of the devices, used and in all.",
    Collector.POWER: "Draw, limit and energy.",
    Collector.TEMPERATURE: "Temperatures and fans.",
    Collector.CLOCKS: "Clocks, and what holds them down.",
    Collector.PCIE: "The PCIe link and its traffic.",
    Collector.NVLINK: "All NVLinks of a device together.",
    Collector.SERVING: "What serving engines say of themselves.",
    Collector.PROVISIONING: "Need, over- and under-provisioning by window.",
    Collector.ADVICE: "Open advice, and how advice ended.",
    Collector.RECOMMENDER: "The recommender's runs, and how its advice is passed on.",
    Collector.TOPOLOGY: "The way between any two GPUs: 28 series for eight.",
    Collector.LINKS: "Each NVLink by itself: 6 series a link.",
    Collector.FABRIC: "InfiniBand and RoCE ports, which node_exporter has too.",
    Collector.HOST: "The host by workload: CPU, disk, network, pressure, NUMA locality.",
    Collector.EXTRA: "What is rarely needed: BAR1, application clocks, errors in a board's life.",
}
"""What each exports, in one sentence."""

DEFAULT_COLLECTORS: Final = frozenset(Collector) - {
    Collector.TOPOLOGY,
    Collector.LINKS,
    Collector.FABRIC,
    Collector.HOST,
    Collector.EXTRA,
}
"""Those that are on unless switched off; with the rest eight GPUs pass 1,900 series."""


_UNITS: Final = (
    "bytes_per_second",
    "dollars_per_hour",
    "seconds",
    "bytes",
    "watts",
    "joules",
    "hertz",
    "celsius",
    "ratio",
    "gpus",
)


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


def gauge(name: str, origin: Origin, sentence: str, *labels: str) -> MetricFamily:
    """A value that goes up and down, by its name without the prefix."""
    return MetricFamily(f"rightsizer_{name}", MetricKind.GAUGE, sentence, labels, origin)


def counter(name: str, origin: Origin, sentence: str, *labels: str) -> MetricFamily:
    """A value that only grows, by its name without prefix and `_total`."""
    return MetricFamily(f"rightsizer_{name}_total", MetricKind.COUNTER, sentence, labels, origin)


def info(name: str, origin: Origin, sentence: str, *labels: str) -> MetricFamily:
    """Facts as labels, by its name without prefix and `_info`."""
    return MetricFamily(f"rightsizer_{name}_info", MetricKind.INFO, sentence, labels, origin)


def collected_by(collector: Collector, *metrics: MetricFamily) -> tuple[MetricFamily, ...]:
    """The metrics as a part of a collector."""
    return tuple(replace(metric, collector=collector) for metric in metrics)
