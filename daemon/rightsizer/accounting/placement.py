"""Whether a workload's processes or their memory are far from the GPU that they feed."""

from collections.abc import Mapping
from dataclasses import dataclass

from rightsizer.accounting.signals import highest
from rightsizer.domain.settings import setting
from rightsizer.domain.signal import Signal

__all__ = ["PlacementSettings", "is_misplaced"]


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """From when on processes count as being on the wrong NUMA node."""

    memory_local_ratio: float = setting(
        0.5,
        help="Host memory on the GPU's own NUMA node below which most of it is elsewhere.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="docs/definitions.md, sources: more than half of the pages on another node",
    )
    cpu_local_ratio: float = setting(
        0.1,
        help="CPUs of the GPU's own NUMA node, of those allowed, below which processes are kept "
        "elsewhere; those that may run anywhere have an eighth even on eight nodes.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="docs/definitions.md, sources; eight nodes are the most that a server has",
    )
    traffic_ratio: float = setting(
        0.02,
        help="Traffic of a PCIe direction from which on the way to the host matters.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="KempnerPulse calls 1 GB/s input and output: 1.6 % of a PCIe 5 link",
    )


def is_misplaced(signals: Mapping[Signal, float], settings: PlacementSettings) -> bool:
    """Whether data takes the way over another NUMA node; `False` where nobody measures.

    That processes may run anywhere is no misplacement: the scheduler knows better. That most of
    their memory is elsewhere, or that they are kept elsewhere, is one, once data moves.
    """
    traffic = highest(signals, Signal.PCIE_RECEIVE, Signal.PCIE_TRANSMIT)
    if traffic is None or traffic < settings.traffic_ratio:
        return False
    memory = signals.get(Signal.HOST_MEMORY_LOCAL)
    cpus = signals.get(Signal.CPU_AFFINITY_LOCAL)
    return (memory is not None and memory < settings.memory_local_ratio) or (
        cpus is not None and cpus < settings.cpu_local_ratio
    )
