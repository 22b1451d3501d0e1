"""Planner: from a requirement to ranked GPUs; answers to every requirement of a file."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.catalogue.prices import Prices
from rightsizer.model.errors import RequirementError, UsageError
from rightsizer.model.units import percent_text
from rightsizer.planner.alternatives import Alternative, alternatives, remedies
from rightsizer.planner.biller import Biller, PlanPrices
from rightsizer.planner.candidate import PlanCandidate, ranked, rejected
from rightsizer.planner.disaggregation import disaggregated
from rightsizer.planner.display import dollars as dollars_text
from rightsizer.planner.display import percent
from rightsizer.planner.growth import (
    GrowingKind,
    GrowthOutlook,
    GrowthStep,
    growing_kinds,
    growth_outlook,
    growth_steps,
)
from rightsizer.planner.plan_file import PlanFile, PlanFileItem
from rightsizer.planner.rental import instances_of, providers_of
from rightsizer.planner.requirement_checks import check_requirement
from rightsizer.planner.search import Search, SearchFactory
from rightsizer.sizing.collectives import joined_by
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.memory_estimate import MemoryEstimate
from rightsizer.sizing.mig import slice_board
from rightsizer.sizing.requirement import Requirement
from rightsizer.sizing.settings import SizingSettings
from rightsizer.sizing.site import SiteResiduals

if TYPE_CHECKING:
    from rightsizer.planner.curve import CurvePoint

_REMEDY: Final = (
    "what is not known is not guessed: describe it in a file of boards (--catalogue FILE,"
    " 'rightsizer catalogue --help' shows one)"
)
_PRICES: Final = "the plan's own prices"
_COUNTED: Final = re.compile(r"\d+ *[xX*] *(?P<kind>\S.*)|(?P<before>\S.*?) *[xX*:] *\d+")
"""`8xH100`, `h100:8`."""
_NAMED: Final = 3
_FASTEST: Final = 1
"""Kinds of GPU that a curve tries beside the cheapest, since short latencies need fast ones."""


class GpuPlan(Struct, frozen=True):
    """Result for a requirement."""

    requirement: Requirement
    candidates: tuple[PlanCandidate, ...]
    """Best first, followed by unsuitable ones with reasons."""
    gpu_maximum: int
    """GPUs of one candidate that the search allows."""
    alternatives: tuple[Alternative, ...] = ()
    growth: tuple[GrowthStep, ...] = ()
    outlook: GrowthOutlook | None = None
    """Leading candidates under a growing load; `None` if it does not grow."""
    curve: "tuple[CurvePoint, ...]" = ()
    """What other rates and latencies cost, cheapest first."""
    least: PlanCandidate | None = None
    """If nothing fits: what would, of all known GPUs and in any layout."""

    @property
    def best(self) -> PlanCandidate | None:
        """First in rank; `None` if nothing fits as surely as asked."""
        first = self.candidates[0]
        return first if first.holds else None

    @property
    def memory(self) -> MemoryEstimate:
        """Memory per GPU of the best candidate, or of the nearest to fitting."""
        return self.candidates[0].memory

    def span_dollars(self, kind: GrowingKind) -> EstimateInterval | None:
        """Return the cost of a kind over all months, by the range of its hourly price."""
        dollars = kind.dollars() if kind.outgrown is None else None
        hourly = next(
            candidate.hourly_range for candidate in self.candidates if candidate.gpu == kind.gpu
        )
        return None if dollars is None or hourly is None else hourly.scaled(dollars / hourly.value)

    @property
    def why_nothing_fits(self) -> str:
        """Return an explanation; empty if something fits."""
        if self.best is not None:
            return ""
        kinds = f"of {len(self.candidates)} kinds of GPU"
        rejections = rejected(self.candidates).items()
        lacks = ", ".join(f"{by.lack} on {len(failed)} {kinds}" for by, failed in rejections)
        nearest = self.candidates[0]
        if nearest.fits:
            budget = self.requirement.budget
            within = "" if budget is None else f" ${dollars_text(budget)} an hour"
            sure = f"{percent_text(self.requirement.load.certainty)} certainty (--sure)"
            nearly = f"{nearest}, at {percent(nearest.certainty)}"
            return f"nothing fits{within} at {sure}; the nearest, {nearly}"
        reasons = "; ".join(map(str, nearest.rejections))
        return f"nothing fits, because {lacks}; the nearest, {nearest}: {reasons}"


class Planner(Struct, frozen=True):
    """Data and settings of plans."""

    catalogue: Catalogue
    prices: Prices
    settings: SizingSettings = SizingSettings()
    site: SiteResiduals | None = None
    """What engines of the site were measured to do beside their predictions."""
    site_note: str = ""
    """Why that is unknown; empty if it is known, or there is nothing."""

    def plan(self, requirement: Requirement) -> GpuPlan:
        """Return candidates for a requirement, and alternatives or remedies."""
        check_requirement(requirement)
        requirement = self._completed(requirement)
        prices = self._prices(requirement)
        boards = self._boards(requirement, prices)
        search = self._searches(prices)
        biller = Biller(requirement, prices, self.settings.cost)
        ordered = _ranked(requirement, boards, search(requirement).best, prices.prices)
        gpu_maximum = self.settings.plan.gpu_maximum
        plan = GpuPlan(requirement, tuple(map(biller.billed, ordered)), gpu_maximum)
        by_key = {board.key: board for board in boards}
        if plan.best is not None:
            return self._with_alternatives(plan, by_key, search, biller)
        nearest = plan.candidates[: self.settings.plan.growth_candidates]
        near_boards = [by_key[candidate.gpu] for candidate in nearest]
        others = chain(
            remedies(requirement, near_boards, search, has_likely=plan.candidates[0].fits),
            self._disaggregated(plan, near_boards, search),
        )
        least = self._least(requirement, search, prices.prices)
        least_billed = None if least is None else biller.billed(least)
        return replace(plan, least=least_billed, alternatives=biller.each_billed(others))

    def _least(
        self, requirement: Requirement, search: SearchFactory, prices: Prices
    ) -> PlanCandidate | None:
        """Return what would fit of all GPUs in any layout; the cheapest if all exceed the budget.

        As surely as asked, on however many GPUs.
        """
        is_open = replace(requirement, parallel=None, tensor=None, gpus=())
        boards = self._joined(is_open)
        first = _ranked(is_open, boards, search(is_open).surest, prices)[0]
        if first.fits or requirement.budget is None:
            return first if first.fits else None
        unbounded = replace(is_open, budget=None)
        others = _ranked(unbounded, boards, search(unbounded).surest, prices)
        return min((candidate for candidate in others if candidate.fits), key=_hourly, default=None)

    def _with_alternatives(
        self, plan: GpuPlan, boards: Mapping[str, Board], search: SearchFactory, biller: Biller
    ) -> GpuPlan:
        """Return a plan with alternatives to its best candidates, and with its growth."""
        requirement = plan.requirement
        settings = self.settings.plan
        fitting = [
            (boards[candidate.gpu], candidate) for candidate in plan.candidates if candidate.fits
        ]
        leading = fitting[: settings.alternatives]
        growing = fitting[: settings.growth_candidates]
        others = chain(
            alternatives(requirement, leading, search),
            self._disaggregated(plan, [board for board, _ in leading], search),
        )
        hours = self.settings.cost.hours_per_month
        kinds = growing_kinds(requirement, growing, search, hours)
        steps = growth_steps(kinds[0]) if kinds else ()
        return replace(
            plan,
            alternatives=biller.each_billed(others),
            growth=biller.each_billed(steps),
            outlook=growth_outlook(kinds, settings.switch_saving_ratio),
        )

    def with_curve(self, plan: GpuPlan) -> GpuPlan:
        """Return a plan with its curve, by its cheapest and its fastest kinds of GPU."""
        # Imported on use: no summary shows it.
        from rightsizer.planner.curve import curve_boards, curve_of  # noqa: PLC0415

        best = plan.best
        if best is None:
            return plan
        requirement = plan.requirement
        prices = self._prices(requirement)
        kinds = curve_boards(plan.candidates, self.settings.plan.alternatives, _FASTEST)
        boards = [board for board in self._boards(requirement, prices) if board.key in kinds]
        points = curve_of(requirement, best, boards, self._searches(prices))
        return replace(
            plan, curve=Biller(requirement, prices, self.settings.cost).each_billed(points)
        )

    def _disaggregated(
        self, plan: GpuPlan, boards: Sequence[Board], search: SearchFactory
    ) -> Iterator[Alternative]:
        network = self.settings.serving.network_bytes_per_second
        return disaggregated(plan.requirement, boards, search, network, together=plan.best)

    def candidates(self, requirement: Requirement) -> tuple[PlanCandidate, ...]:
        """Return those of a plan alone, without alternatives and growth."""
        check_requirement(requirement)
        requirement = self._completed(requirement)
        prices = self._prices(requirement)
        boards = self._boards(requirement, prices)
        search = self._searches(prices)
        ordered = _ranked(requirement, boards, search(requirement).best, prices.prices)
        biller = Biller(requirement, prices, self.settings.cost)
        return tuple(map(biller.billed, ordered))

    def predicted(self, requirement: Requirement, gpu: str) -> PlanCandidate:
        """Predict one kind of GPU for a requirement, whether it fits or not."""
        requirement = self._completed(requirement)
        (board,) = self._joined(replace(requirement, gpus=(gpu,)))
        prices = self._prices(requirement)
        candidate = self._searches(prices)(requirement).best(board)
        return Biller(requirement, prices, self.settings.cost).billed(candidate)

    def _completed(self, requirement: Requirement) -> Requirement:
        """Return a requirement with the acceptance and certainty of the settings, unless stated."""
        load = requirement.load.accepting(self.settings.serving.token_acceptance_ratio)
        if load.sure_ratio is None:
            load = replace(load, sure_ratio=self.settings.plan.sure_ratio)
        return replace(requirement, load=load)

    def _boards(self, requirement: Requirement, prices: PlanPrices) -> tuple[Board, ...]:
        """Return the named boards, or all; of named clouds those with a price or an instance."""
        boards = self._joined(requirement)
        if requirement.gpus or not requirement.provider:
            return boards
        rented = prices.instances or {}
        price = prices.dollars_per_hour
        return tuple(board for board in boards if board.key in rented or price(board) is not None)

    def _joined(self, requirement: Requirement) -> tuple[Board, ...]:
        """Return the named boards, or all, as the links of the host join them."""
        boards = boards_of(requirement.gpus, self.catalogue)
        joined = tuple(filter(None, (joined_by(board, requirement.link) for board in boards)))
        if not joined:
            fault = f"{boards[0].key} has no links of its own"
            raise RequirementError(f"link: {requirement.link}: {fault}; take pcie or none")
        return joined

    def _searches(self, prices: PlanPrices) -> SearchFactory:
        price = prices.dollars_per_hour
        instances = prices.instances
        return partial(
            Search, settings=self.settings, price=price, instances=instances, site=self.site
        )

    def _prices(self, requirement: Requirement) -> PlanPrices:
        """Return the plan's own prices, and the others of the named clouds, or of all."""
        stated: dict[str, float] = {}
        for name, dollars in requirement.prices.items():
            boards = boards_of((name,), self.catalogue, "prices")
            stated |= {board.key: dollars for board in boards}
        prices = self.prices.at_spot() if requirement.spot else self.prices
        instances = None
        if requirement.provider:
            if requirement.spot:
                fault = "prices of spot capacity are medians over all clouds"
                raise RequirementError(f"spot: {fault}; leave out provider")
            clouds = providers_of(requirement, prices)
            instances = instances_of(clouds, prices, tuple(stated)) or None
            prices = prices.of_providers(clouds)
        return PlanPrices(self.catalogue, prices.with_stated(stated, _PRICES), instances)


def _ranked(
    requirement: Requirement,
    boards: Iterable[Board],
    best: Callable[[Board], PlanCandidate],
    prices: Prices,
) -> tuple[PlanCandidate, ...]:
    """Return the best candidate of each board, best first.

    If neither GPUs nor clouds are named, each tells the only cloud with a price for it.
    """
    candidates: Iterable[PlanCandidate] = map(best, boards)
    if not (requirement.gpus or requirement.provider):
        candidates = (
            replace(candidate, sole_cloud=prices.sole_cloud(candidate.gpu.partition(":")[0]))
            for candidate in candidates
        )
    return ranked(candidates)


def _hourly(candidate: PlanCandidate) -> tuple[bool, float]:
    """Return the sort key of the price; what only one cloud offers is last."""
    hourly = candidate.dollars_per_hour
    return bool(candidate.sole_cloud), math.inf if hourly is None else hourly


def boards_of(names: Sequence[str], catalogue: Catalogue, place: str = "gpus") -> tuple[Board, ...]:
    """Return boards by key or name, each once; slices are named like `H100-SXM5-80GB:1g.10gb`."""
    if not names:
        return tuple(catalogue.boards.values())
    boards = [board for name in names for board in _boards(name, catalogue, place)]
    return tuple({board.key: board for board in boards}.values())


def _boards(name: str, catalogue: Catalogue, place: str) -> tuple[Board, ...]:
    whole, _, profile = name.partition(":")
    family = catalogue.family(whole)
    if family and not profile:
        return family
    slices = ((board, part) for board in family for part in board.mig_profiles)
    if boards := [slice_board(*slice_) for slice_ in slices if slice_[1].name == profile]:
        return tuple(boards)
    counted = _COUNTED.fullmatch(name.strip())
    kind = (counted["kind"] or counted["before"]) if counted else ""
    if kind and catalogue.family(kind):
        raise RequirementError(f"{place}: '{name}': the plan finds how many; write {kind}")
    try:
        board = catalogue.get(whole)
    except UsageError as error:
        raise RequirementError(f"{place}: {error}; {_REMEDY}") from None
    profiles = (
        ", ".join(mig_profile.name for mig_profile in board.mig_profiles) or "none: it has no MIG"
    )
    raise RequirementError(f"{place}: {board.key} has no slice '{profile}'; it has {profiles}")


def _format_notes(candidates: Iterable[PlanCandidate]) -> Iterator[str]:
    """Yield notes on formats that replace the requested one, and on which GPUs."""
    others: dict[str, list[str]] = {}
    for candidate in candidates:
        if candidate.format is not None and candidate.fits:
            others.setdefault(candidate.format.note, []).append(candidate.gpu)
    for note, gpus in others.items():
        more = len(gpus) - _NAMED
        yield f"{', '.join(gpus[:_NAMED])}{f' and {more} more' if more > 0 else ''}: {note}"


def _site_notes(plan: GpuPlan) -> Iterator[str]:
    """Yield how the measurements of a site change the first candidate."""
    first = plan.candidates[0]
    if first.adjustment is not None:
        yield f"{first.gpu}: {first.adjustment}"


class PlanAnswer(Struct, frozen=True):
    """A plan, or an error."""

    plan: GpuPlan | None
    notes: tuple[str, ...] = ()
    error: str = ""


def plan_answers(
    file: PlanFile, planner: Planner, *, has_curve: bool = False
) -> tuple[PlanAnswer, ...]:
    """Return an answer for each requirement; `has_curve` adds the curve of a single one."""
    answers = tuple(_answer(item, planner) for item in file.items)
    if file.is_list:
        return answers
    (answer,) = answers
    if answer.plan is None:
        raise RequirementError(answer.error)
    return (replace(answer, plan=planner.with_curve(answer.plan)),) if has_curve else answers


def _answer(planned: PlanFileItem, planner: Planner) -> PlanAnswer:
    if planned.requirement is None:
        return PlanAnswer(None, error=planned.error)
    try:
        plan = planner.plan(planned.requirement)
    except RequirementError as error:
        return PlanAnswer(None, error=str(planned.question.placed(error)))
    notes = (*planned.notes, *_format_notes(plan.candidates), *_site_notes(plan), planner.site_note)
    return PlanAnswer(plan, tuple(filter(None, notes)))
