"""How near two GPUs are, in one number."""

from dataclasses import dataclass
from typing import Final

from rightsizer.domain.settings import setting
from rightsizer.domain.topology import GpuLink, LinkKind

__all__ = ["LinkScores", "link_score", "pcie_score"]

_GO_GPUALLOCATOR: Final = (
    "NVIDIA's go-gpuallocator (besteffort policy), by which the Kubernetes device plugin places"
)


@dataclass(frozen=True, slots=True)
class LinkScores:
    """What each way between two GPUs is worth."""

    nvlink: int = setting(
        100,
        help="Each NVLink between two GPUs, or to the switch that joins them.",
        minimum=1,
        maximum=1000,
        source=_GO_GPUALLOCATOR,
    )
    one_bridge: int = setting(
        50,
        help="At most one PCIe bridge between them (PIX).",
        minimum=0,
        maximum=1000,
        source=_GO_GPUALLOCATOR,
    )
    several_bridges: int = setting(
        40,
        help="Several PCIe bridges, not the host bridge (PXB).",
        minimum=0,
        maximum=1000,
        source=_GO_GPUALLOCATOR,
    )
    host_bridge: int = setting(
        30,
        help="The PCIe host bridge between them (PHB).",
        minimum=0,
        maximum=1000,
        source=_GO_GPUALLOCATOR,
    )
    numa_node: int = setting(
        20,
        help="Host bridges of one NUMA node between them (NODE).",
        minimum=0,
        maximum=1000,
        source=_GO_GPUALLOCATOR,
    )
    system: int = setting(
        10,
        help="The link between NUMA nodes between them (SYS).",
        minimum=0,
        maximum=1000,
        source=_GO_GPUALLOCATOR,
    )


def link_score(link: GpuLink | None, scores: LinkScores) -> int:
    """How near two GPUs are by their best way; 0 where nobody knows."""
    if link is None:
        return 0
    if link.kind is LinkKind.NVLINK:
        return scores.nvlink * max(1, link.nvlinks)
    return _bus_score(link.kind, scores)


def pcie_score(link: GpuLink | None, scores: LinkScores) -> int:
    """How near two GPUs are over PCIe, NVLink left aside; 0 where nobody knows.

    GPUs below one switch share the network card there too.
    """
    if link is None:
        return 0
    kind = link.kind if link.pcie_kind is LinkKind.UNKNOWN else link.pcie_kind
    return _bus_score(kind, scores)


def _bus_score(kind: LinkKind, scores: LinkScores) -> int:
    by_kind = {
        LinkKind.PIX: scores.one_bridge,
        LinkKind.PXB: scores.several_bridges,
        LinkKind.PHB: scores.host_bridge,
        LinkKind.NODE: scores.numa_node,
        LinkKind.SYSTEM: scores.system,
    }
    return by_kind.get(kind, 0)
