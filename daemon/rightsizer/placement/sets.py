"""Sets of GPUs by how well their links join them; exact over all sets of up to sixteen.

The scores of pairs are those of NVIDIA's go-gpuallocator, which the Kubernetes device plugin
places by (besteffort policy: SYS 10, NODE 20, PHB 30, PXB 40, PIX 50, each NVLink 100). It adds
them up; here the weakest pair comes first, for a collective is as fast as its slowest link
(NCCL's rings and trees), and the sum decides among those.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from rightsizer.domain.topology import GpuLink, Topology
from rightsizer.placement.link_scores import LinkScores, link_score

__all__ = ["MOST_CANDIDATES", "PlacementSet", "SetScore", "best_set", "pair_score", "score_of"]

MOST_CANDIDATES: Final = 16
"""Sets of eight of sixteen are 12,870."""

_SCORES: Final = LinkScores()


@dataclass(frozen=True, slots=True, order=True)
class SetScore:
    """How well a set is joined: larger is better."""

    weakest: int
    """Of its worst pair; that of a single GPU is 0."""
    total: int
    """Over all pairs."""


@dataclass(frozen=True, slots=True)
class PlacementSet:
    """GPUs that would work together."""

    uuids: tuple[str, ...]
    score: SetScore


def pair_score(link: GpuLink | None) -> int:
    """How near two GPUs are; 0 where nobody knows."""
    return link_score(link, _SCORES)


def score_of(uuids: Collection[str], topology: Topology) -> SetScore:
    """The score of some GPUs, in whatever order."""
    scores = _matrix(topology)
    pairs = [scores.get(frozenset(pair), 0) for pair in combinations(uuids, 2)]
    return SetScore(min(pairs, default=0), sum(pairs))


def best_set(
    candidates: Sequence[str],
    count: int,
    topology: Topology,
    present: Collection[str] = (),
) -> PlacementSet | None:
    """The best joined set of some size; `None` where there are too few candidates.

    Of equal ones that with the most GPUs that are present already, then the first in the order of
    the candidates.

    Args:
        candidates: GPUs to choose from, at most `MOST_CANDIDATES`.
        count: How many are wanted.
        topology: How they are joined.
        present: Those that are held already, and need not be moved.

    Raises:
        ValueError: there are more candidates than can be looked through.
    """
    if len(candidates) > MOST_CANDIDATES:
        raise ValueError(
            f"{len(candidates)} GPUs are too many to look through all sets of them; "
            f"name {MOST_CANDIDATES} at most"
        )
    if not 0 < count <= len(candidates):
        return None
    search = _Search(candidates, count, _matrix(topology), frozenset(present))
    search.extend((), 0, _UNBOUNDED, 0, 0)
    score, chosen = search.best
    weakest = score[0] if count > 1 else 0
    return PlacementSet(tuple(candidates[at] for at in chosen), SetScore(weakest, score[1]))


_UNBOUNDED: Final = 1 << 30


class _Search:
    """All sets, depth first; branches that can only be worse are left out."""

    def __init__(
        self,
        candidates: Sequence[str],
        count: int,
        scores: Mapping[frozenset[str], int],
        present: frozenset[str],
    ) -> None:
        self._count = count
        self._is_present = [int(uuid in present) for uuid in candidates]
        self._scores = [
            [scores.get(frozenset((one, other)), 0) for other in candidates] for one in candidates
        ]
        self.best: tuple[tuple[int, int, int], tuple[int, ...]] = ((-1, -1, -1), ())
        """Weakest pair, sum and how many stay; and their places among the candidates."""

    def extend(
        self, chosen: tuple[int, ...], after: int, weakest: int, total: int, kept: int
    ) -> None:
        """Look through all sets that begin with some, in the order of the candidates."""
        if len(chosen) == self._count:
            score = (weakest, total, kept)
            if score > self.best[0]:
                self.best = (score, chosen)
            return
        last = len(self._scores) - (self._count - len(chosen))
        for at in range(after, last + 1):
            row = self._scores[at]
            joined = [row[other] for other in chosen]
            least = min(joined, default=weakest)
            if min(weakest, least) < self.best[0][0]:
                continue
            self.extend(
                (*chosen, at),
                at + 1,
                min(weakest, least),
                total + sum(joined),
                kept + self._is_present[at],
            )


def _matrix(topology: Topology) -> dict[frozenset[str], int]:
    return {frozenset((link.uuid, link.peer_uuid)): pair_score(link) for link in topology.links}
