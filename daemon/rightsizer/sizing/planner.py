"""From a requirement to GPUs: memory, compute, bandwidth and latency, then cost."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.catalogue.prices import Prices
from rightsizer.domain.errors import RequirementError, UsageError
from rightsizer.sizing.alternatives import Alternative, alternatives
from rightsizer.sizing.biller import Biller
from rightsizer.sizing.candidates import Candidate, Filter
from rightsizer.sizing.consistency import check_requirement
from rightsizer.sizing.estimate import MemoryEstimate
from rightsizer.sizing.growth import GrowthStep, growing_kinds, growth_steps
from rightsizer.sizing.mig_board import slice_board
from rightsizer.sizing.outlook import Outlook, look_ahead
from rightsizer.sizing.plan_prices import PlanPrices
from rightsizer.sizing.ranking import ranked
from rightsizer.sizing.rates import predict_rate
from rightsizer.sizing.requirement import Requirement
from rightsizer.sizing.search import Search
from rightsizer.sizing.settings import SizingSettings

__all__ = ["Plan", "Planner", "boards_of"]


@dataclass(frozen=True, slots=True)
class Plan:
    """What came of a requirement."""

    requirement: Requirement
    candidates: tuple[Candidate, ...]
    """The best first; those that do not fit, with their reasons, after it."""
    alternatives: tuple[Alternative, ...] = ()
    growth: tuple[GrowthStep, ...] = ()
    outlook: Outlook | None = None
    """What the leading candidates come to while the load grows; `None` where it does not."""
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


_REMEDY: Final = (
    "what nobody knows is not guessed: describe it in a file of boards (--catalogue FILE,"
    " 'rightsizer catalogue --help' shows one)"
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
    settings: SizingSettings = field(default_factory=SizingSettings)

    def plan(self, requirement: Requirement) -> Plan:
        """Candidates for a requirement.

        Raises:
            RequirementError: the requirement contradicts itself, or names a GPU nobody knows.
        """
        check_requirement(requirement)
        prices = self._prices(requirement)
        boards = boards_of(requirement.gpus, self.catalogue)
        search = self._search(requirement)
        found = ranked(search.best(each, prices.dollars_per_hour(each)) for each in boards)
        biller = Biller(requirement, prices, self.settings.cost)
        plan = Plan(requirement, tuple(map(biller.billed, found)))
        if plan.best is None:
            least = self._least(requirement, prices)
            return replace(plan, least=None if least is None else biller.billed(least))
        by_key = {board.key: board for board in boards}
        fitting = [(by_key[each.gpu], each) for each in plan.candidates if each.fits]
        kinds = growing_kinds(
            requirement,
            fitting[: self.settings.plan.growth_candidates],
            self._search,
            prices.dollars_per_hour,
            self.settings.cost.hours_per_month,
        )
        return replace(
            plan,
            alternatives=tuple(
                replace(each, candidate=biller.billed(each.candidate))
                for each in alternatives(
                    requirement,
                    fitting[: self.settings.plan.alternatives],
                    self._search,
                    prices.dollars_per_hour,
                )
            ),
            growth=tuple(growth_steps(kinds[0])) if kinds else (),
            outlook=look_ahead(kinds, self.settings.plan.switch_saving_ratio),
        )

    def predicted(self, requirement: Requirement, gpu: str) -> Candidate:
        """One kind of GPU for a requirement, whether it fits or not.

        Raises:
            RequirementError: nobody knows the GPU.
        """
        (board,) = boards_of((gpu,), self.catalogue)
        prices = self._prices(requirement)
        found = self._search(requirement).best(board, prices.dollars_per_hour(board))
        return Biller(requirement, prices, self.settings.cost).billed(found)

    def _search(self, requirement: Requirement) -> Search:
        settings = self.settings
        predict = partial(predict_rate, settings=settings)
        return Search(requirement, predict, settings.plan, settings.memory)

    def _least(self, requirement: Requirement, prices: PlanPrices) -> Candidate | None:
        """The first in rank of all GPUs, the layout left open."""
        search = self._search(replace(requirement, parallel=None, gpus=()))
        boards = boards_of((), self.catalogue)
        first = ranked(search.best(each, prices.dollars_per_hour(each)) for each in boards)[0]
        return first if first.fits else None

    def _prices(self, requirement: Requirement) -> PlanPrices:
        stated = {
            board.key: dollars
            for name, dollars in requirement.prices.items()
            for board in boards_of((name,), self.catalogue, "prices")
        }
        return PlanPrices.of(self.catalogue, self.prices, stated)


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
        raise RequirementError(f"{place}: {error}; {_REMEDY}") from None
    if not profile:
        return board
    for each in board.mig_profiles:
        if each.name == profile:
            return slice_board(board, each)
    known = ", ".join(each.name for each in board.mig_profiles) or "none: it has no MIG"
    raise RequirementError(f"{place}: {board.key} has no slice '{profile}'; it has {known}")
