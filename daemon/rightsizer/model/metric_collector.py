"""The collectors of the exposition: groups of metrics that are exported, or not, together."""

from enum import StrEnum
from typing import Final


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
