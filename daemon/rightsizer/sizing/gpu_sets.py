"""Sets of GPUs scored by their interconnect; exact search over all sets of up to sixteen."""

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import Annotated, Final

from msgspec import Struct

from rightsizer.model.settings import Spec
from rightsizer.model.topology import GpuLink, LinkKind, Topology

_GO_GPUALLOCATOR: Final = (
    "NVIDIA's go-gpuallocator (besteffort policy), by which the Kubernetes device plugin places"
)
_Score = Annotated[int, Spec(within=(0, 1000), source=_GO_GPUALLOCATOR)]
MOST_CANDIDATES: Final = 16
"""There are 12,870 sets of eight out of sixteen."""


class LinkScores(Struct, frozen=True):
    """Score of each connection between two GPUs; a higher score is preferred.

    Attributes:
        nvlink: Per NVLink between two GPUs, or to the switch that connects them.
        one_bridge: Connection over at most one PCIe bridge (PIX).
        several_bridges: Connection over several PCIe bridges, but not the host bridge (PXB).
        host_bridge: Connection over the PCIe host bridge (PHB).
        numa_node: Connection over host bridges of one NUMA node (NODE).
        system: Connection over the link between NUMA nodes (SYS).
    """

    nvlink: Annotated[_Score, Spec(within=(1, 1000))] = 100
    one_bridge: _Score = 50
    several_bridges: _Score = 40
    host_bridge: _Score = 30
    numa_node: _Score = 20
    system: _Score = 10


_SCORES: Final = LinkScores()


def link_score(link: GpuLink | None, scores: LinkScores = _SCORES) -> int:
    """Score of two GPUs by their best connection; 0 if unknown."""
    if link is None:
        return 0
    if link.kind is LinkKind.NVLINK:
        return scores.nvlink * max(1, link.nvlinks)
    return _bus_score(link.kind, scores)


def pcie_score(link: GpuLink | None, scores: LinkScores) -> int:
    """Score over PCIe only, so also to a network card below the same switch; 0 if unknown."""
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


class SetScore(Struct, frozen=True, order=True):
    """Quality of the interconnect of a set: larger is better."""

    weakest: int
    """Score of its worst pair; 0 for a single GPU."""
    total: int


class PlacementSet(Struct, frozen=True):
    """GPUs to use together."""

    uuids: tuple[str, ...]
    score: SetScore


def score_of(uuids: Collection[str], topology: Topology) -> SetScore:
    """Score of a set of GPUs in any order."""
    return _set_score(uuids, _pair_scores(topology))


def best_set(
    candidates: Sequence[str], count: int, topology: Topology, present: Collection[str] = ()
) -> PlacementSet | None:
    """Best connected set of the given size, or `None` if there are too few candidates.

    Ties are broken by the number of `present` GPUs, then by the order of the candidates.

    GPUs that are `present` are already held and need no move.

    Raises:
        ValueError: there are too many candidates for an exact search.
    """
    if len(candidates) > MOST_CANDIDATES:
        fault = f"{len(candidates)} GPUs are too many to look through all sets of them"
        raise ValueError(f"{fault}; name {MOST_CANDIDATES} at most")
    if not 0 < count <= len(candidates):
        return None
    scores = _pair_scores(topology)

    def preference(chosen: Sequence[str]) -> tuple[SetScore, int]:
        return _set_score(chosen, scores), sum(uuid in present for uuid in chosen)

    best = max(combinations(candidates, count), key=preference)
    return PlacementSet(best, _set_score(best, scores))


def _set_score(uuids: Collection[str], scores: Mapping[frozenset[str], int]) -> SetScore:
    pairs = [scores.get(frozenset(pair), 0) for pair in combinations(uuids, 2)]
    return SetScore(min(pairs, default=0), sum(pairs))


def _pair_scores(topology: Topology) -> dict[frozenset[str], int]:
    return {frozenset((link.uuid, link.peer_uuid)): link_score(link) for link in topology.links}
