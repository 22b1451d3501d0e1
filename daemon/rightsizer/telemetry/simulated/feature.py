"""Which kind of board supports what: one table, from which every NOT_SUPPORTED follows.

Sources: NVML's API notes, DataDog's published support spec, public nvidia-smi captures and issue
threads. Cells for Ada and Blackwell are mostly "this architecture or newer" notes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["ARCHITECTURES", "SUPPORT", "Feature", "Row", "Trait"]


class Feature(StrEnum):
    """What a board's driver offers or does not."""

    UTILIZATION = "utilization"
    ENCODER_DECODER = "encoder_decoder"
    JPEG = "jpeg"
    OFA = "ofa"
    MEMORY = "memory"
    POWER = "power"
    POWER_AVERAGE = "power_average"
    """A mean over a second; without it power is instantaneous."""
    ENERGY = "energy"
    CLOCKS = "clocks"
    APPLICATION_CLOCKS = "application_clocks"
    CLOCK_EVENTS = "clock_events"
    TEMPERATURE = "temperature"
    TEMPERATURE_THRESHOLDS = "temperature_thresholds"
    TEMPERATURE_MARGIN = "temperature_margin"
    MEMORY_TEMPERATURE = "memory_temperature"
    FANS = "fans"
    PCIE = "pcie"
    PCIE_COUNTERS = "pcie_counters"
    """Bytes since the driver was loaded."""
    NVLINK = "nvlink"
    NVLINK_OLD_COUNTERS = "nvlink_old_counters"
    """Utilization counters and bandwidth fields, which later boards no longer have."""
    NVLINK_NEW_COUNTERS = "nvlink_new_counters"
    """Packets, symbol errors and bit error rates."""
    FABRIC = "fabric"
    C2C = "c2c"
    """The link between a GPU and the processor on its module."""
    ECC = "ecc"
    VOLATILE_ECC = "volatile_ecc"
    ROW_REMAPPING = "row_remapping"
    RETIRED_PAGES = "retired_pages"
    GPM = "gpm"
    PROCESSES = "processes"
    PROCESS_UTILIZATION = "process_utilization"
    ACCOUNTING = "accounting"
    MIG = "mig"
    NUMA_NODE = "numa_node"
    """The GPU's memory is a NUMA node of the host."""
    SERIAL = "serial"
    CORES = "cores"


class Trait(StrEnum):
    """What differs between boards of one architecture."""

    DATACENTER = "datacenter"
    """Or workstation: everything but GeForce. They have ECC too."""
    HBM = "hbm"
    JPEG = "jpeg"
    FAN = "fan"
    AVERAGED = "averaged"
    """Anything but GA100."""
    NVLINK = "nvlink"
    SWITCHED = "switched"
    """Its NVLinks lead to switches."""
    MIG = "mig"
    GRACE = "grace"


@dataclass(frozen=True, slots=True)
class Row:
    """Where a feature is supported."""

    cells: str
    """`y`, `n` or the trait that decides, for each of `ARCHITECTURES`."""
    when_cut: bool = True
    """Whether a GPU with MIG instances still has it."""

    def cell(self, architecture: str) -> str:
        """What decides for an architecture; `n` for one that the table does not know."""
        cells = dict(zip(ARCHITECTURES, self.cells.split(), strict=True))
        return cells.get(architecture, "n")


ARCHITECTURES: Final = ("Pascal", "Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell")
_EVERY: Final = "y y y y y y y"
_DATACENTER: Final = " ".join([Trait.DATACENTER] * 7)
SUPPORT: Final[Mapping[Feature, Row]] = {
    Feature.UTILIZATION: Row(_EVERY, when_cut=False),
    Feature.ENCODER_DECODER: Row(_EVERY, when_cut=False),
    Feature.JPEG: Row("n n n jpeg y y y", when_cut=False),
    Feature.OFA: Row("n n y y y y y", when_cut=False),
    Feature.MEMORY: Row(_EVERY),
    Feature.POWER: Row(_EVERY),
    Feature.POWER_AVERAGE: Row("n n n averaged y y y"),
    Feature.ENERGY: Row("n y y y y y y"),
    Feature.CLOCKS: Row(_EVERY),
    Feature.APPLICATION_CLOCKS: Row(_DATACENTER),
    Feature.CLOCK_EVENTS: Row(_EVERY),
    Feature.TEMPERATURE: Row(_EVERY),
    Feature.TEMPERATURE_THRESHOLDS: Row("y y y y y n n"),
    Feature.TEMPERATURE_MARGIN: Row("n n n n y y y"),
    Feature.MEMORY_TEMPERATURE: Row("hbm hbm n hbm n y y"),
    Feature.FANS: Row("fan fan fan fan fan fan fan"),
    Feature.PCIE: Row(_EVERY),
    Feature.PCIE_COUNTERS: Row("n n n n n y y"),
    Feature.NVLINK: Row("nvlink nvlink nvlink nvlink n nvlink nvlink"),
    Feature.NVLINK_OLD_COUNTERS: Row("nvlink nvlink nvlink n n n n"),
    Feature.NVLINK_NEW_COUNTERS: Row("n n n n n n nvlink"),
    Feature.FABRIC: Row("n n n n n switched switched"),
    Feature.C2C: Row("n n n n n grace grace"),
    Feature.ECC: Row(_DATACENTER),
    Feature.VOLATILE_ECC: Row(_DATACENTER, when_cut=False),
    Feature.ROW_REMAPPING: Row("n n n datacenter datacenter datacenter datacenter", when_cut=False),
    Feature.RETIRED_PAGES: Row("datacenter datacenter datacenter n n n n"),
    Feature.GPM: Row("n n n n n datacenter datacenter"),
    Feature.PROCESSES: Row(_EVERY),
    Feature.PROCESS_UTILIZATION: Row(_EVERY, when_cut=False),
    Feature.ACCOUNTING: Row(_EVERY, when_cut=False),
    Feature.MIG: Row("n n n mig n mig mig"),
    Feature.NUMA_NODE: Row("n n n n n grace grace"),
    Feature.SERIAL: Row(_DATACENTER),
    Feature.CORES: Row(_EVERY, when_cut=False),
}
