"""From a requirement to GPUs: memory, compute, bandwidth and latency, then cost."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.catalogue.prices import Prices
from rightsizer.domain.errors import RequirementError, UsageError
from rightsizer.sizing.alternatives import Alternative, alternatives
from rightsizer.sizing.candidates import Candidate, Filter
from rightsizer.sizing.consistency import check_requirement
from rightsizer.sizing.estimate import MemoryEstimate
from rightsizer.sizing.growth import GrowthStep, growth_steps
from rightsizer.sizing.layouts import PlanSettings
from rightsizer.sizing.memory_settings import MemorySettings
from rightsizer.sizing.mig_board import slice_board, slice_price_ratio
from rightsizer.sizing.ranking import ranked
from rightsizer.sizing.rates import predict_rate
from rightsizer.sizing.requirement import Requirement
from rightsizer.sizing.search import Predict, Search

__all__ = ["Plan", "Planner", "boards_of"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What came of a requirement."""

    requirement: Requirement
    candidates: tuple[Candidate, ...]
    """The best first; those that do not fit, with their reasons, after it."""
    alternatives: tuple[Alternative, ...] = ()
    growth: tuple[GrowthStep, ...] = ()
    least: Candidate | None = None
    """Where nothing fits: what would, of all GPUs that are known and in any layout."""

    @property
    def best(self) -> Candidate | None:
        """The first in rank; `None` where nothing fits."""
        first = self.candidates[0]
        return first if first.fits else None

    @property
    def memory(self) -> MemoryEstimate:
        """What one GPU of the best candidate needs, or of the one nearest to fitting."""
        return self.candidates[0].memory

    @property
    def why_nothing_fits(self) -> str:
        """A sentence; empty where something fits."""
        if self.best is not None:
            return ""
        counts = Counter(each.rejections[0].by for each in self.candidates)
        of = len(self.candidates)
        lacks = ", ".join(
            f"{_LACKS[each]} on {counts[each]} of {of} kinds of GPU"
            for each in Filter
            if counts[each]
        )
        nearest = self.candidates[0]
        reasons = "; ".join(map(str, nearest.rejections))
        return (
            f"nothing fits, because {lacks};"
            f" the nearest, {nearest.count} x {nearest.gpu}: {reasons}"
        )


_LACKS: Final = {
    Filter.LAYOUT: "links are too few",
    Filter.MEMORY: "memory is too small",
    Filter.COMPUTE: "compute is too slow",
    Filter.BANDWIDTH: "memory bandwidth is too low",
    Filter.THROUGHPUT: "throughput is too low",
}


@dataclass(frozen=True, slots=True)
class Planner:
    """What plans rest on."""

    catalogue: Catalogue
    prices: Prices
    settings: PlanSettings = field(default_factory=PlanSettings)
    memory_settings: MemorySettings = field(default_factory=MemorySettings)
    predict: Predict = predict_rate

    def plan(self, requirement: Requirement) -> Plan:
        """Candidates for a requirement.

        Raises:
            RequirementError: the requirement contradicts itself, or names a GPU nobody knows.
        """
        check_requirement(requirement)
        stated = self._stated_prices(requirement)
        boards = boards_of(requirement.gpus, self.catalogue)
        search = self._search(requirement)
        found = ranked(search.best(each, self._price(each, stated)) for each in boards)
        plan = Plan(requirement, found)
        if plan.best is None:
            return replace(plan, least=self._least(requirement, stated))
        by_key = {board.key: board for board in boards}
        leading = [
            (by_key[each.gpu], each) for each in found[: self.settings.alternatives] if each.fits
        ]
        others = alternatives(
            requirement, leading, self._search, lambda board: self._price(board, stated)
        )
        board = by_key[found[0].gpu]
        steps = growth_steps(requirement, board, found[0], self._search, self._price(board, stated))
        return replace(plan, alternatives=tuple(others), growth=tuple(steps))

    def predicted(self, requirement: Requirement, gpu: str) -> Candidate:
        """One kind of GPU for a requirement, whether it fits or not.

        Raises:
            RequirementError: nobody knows the GPU.
        """
        (board,) = boards_of((gpu,), self.catalogue)
        price = self._price(board, self._stated_prices(requirement))
        return self._search(requirement).best(board, price)

    def _search(self, requirement: Requirement) -> Search:
        return Search(requirement, self.predict, self.settings, self.memory_settings)

    def _least(self, requirement: Requirement, stated: dict[str, float]) -> Candidate | None:
        """The first in rank of all GPUs, the layout left open."""
        search = self._search(replace(requirement, parallel=None, gpus=()))
        boards = boards_of((), self.catalogue)
        first = ranked(search.best(each, self._price(each, stated)) for each in boards)[0]
        return first if first.fits else None

    def _stated_prices(self, requirement: Requirement) -> dict[str, float]:
        return {
            board.key: dollars
            for name, dollars in requirement.prices.items()
            for board in boards_of((name,), self.catalogue, "prices")
        }

    def _price(self, board: Board, stated: dict[str, float]) -> float | None:
        """Of one GPU for an hour: as the plan says, else as the catalogue knows."""
        if board.key in stated:
            return stated[board.key]
        whole, _, profile = board.key.partition(":")
        dollars = stated.get(whole, self.prices.dollars_per_hour(whole))
        if dollars is None or not profile:
            return dollars
        parent = self.catalogue.boards[whole]
        found = next(each for each in parent.mig_profiles if each.name == profile)
        return dollars * slice_price_ratio(found)


def boards_of(names: Sequence[str], catalogue: Catalogue, place: str = "gpus") -> tuple[Board, ...]:
    """Boards by key or name, each once; a slice is named like `H100-SXM5-80GB:1g.10gb`.

    Raises:
        RequirementError: one is unknown; the message suggests the nearest.
    """
    if not names:
        return tuple(catalogue.boards.values())
    boards = [_board(name, catalogue, place) for name in names]
    return tuple({board.key: board for board in boards}.values())


def _board(name: str, catalogue: Catalogue, place: str) -> Board:
    whole, _, profile = name.partition(":")
    try:
        board = catalogue.get(whole)
    except UsageError as error:
        raise RequirementError(f"{place}: {error}") from None
    if not profile:
        return board
    for each in board.mig_profiles:
        if each.name == profile:
            return slice_board(board, each)
    known = ", ".join(each.name for each in board.mig_profiles) or "none: it has no MIG"
    raise RequirementError(f"{place}: {board.key} has no slice '{profile}'; it has {known}")
