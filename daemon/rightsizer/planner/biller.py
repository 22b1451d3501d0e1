"""Biller of candidates: dollars on all terms, energy, carbon; a plan's own prices come first."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.board import Board, MigProfile
from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.catalogue.prices import Instance, OnPremises, Prices
from rightsizer.model.units import HOUR_SECONDS
from rightsizer.planner.alternatives import Alternative
from rightsizer.planner.candidate import (
    Bill,
    CostAmount,
    OwnershipCost,
    PlanCandidate,
    PredictedRate,
    PriceOffer,
)
from rightsizer.planner.growth import GrowthStep
from rightsizer.sizing import cost
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.load import WorkUnit
from rightsizer.sizing.mig import slice_board
from rightsizer.sizing.requirement import Requirement
from rightsizer.sizing.settings import CostSettings

_Terms = tuple[cost.HourlyCost, ...]
_Answer = TypeVar("_Answer", Alternative, GrowthStep)


class PlanPrices(Struct, frozen=True):
    """Costs of boards and slices in one plan."""

    catalogue: Catalogue
    prices: Prices
    instances: Mapping[str, Sequence[Instance]] | None = None
    """Those of the named clouds, by board; `None` if none is named or known."""

    def board(self, key: str) -> Board:
        """Return a board or a slice of one, by the key of a candidate."""
        whole, profile = self._parts(key)
        return whole if profile is None else slice_board(whole, profile)

    def dollars_per_hour(self, board: Board) -> float | None:
        """Return the price of one GPU, a slice as its share of one; `None` if unknown."""
        board_dollars = self.prices.dollars_per_hour(board.key)
        if board_dollars is not None:
            return board_dollars
        whole, ratio = self._whole(board)
        dollars = self.prices.dollars_per_hour(whole.key)
        return None if dollars is None else dollars * ratio

    def offers(self, board: Board) -> _Terms:
        """Return every way to obtain it."""
        whole, ratio = self._whole(board)
        if ratio == 1.0 or self.prices.of(board.key) is not None:
            return tuple(cost.hourly_costs(board, self.prices))
        offers = (
            (hourly_cost, hourly_cost.dollars_per_hour)
            for hourly_cost in cost.hourly_costs(whole, self.prices)
        )
        return tuple(
            replace(hourly_cost, dollars_per_hour=hour.scaled(ratio))
            for hourly_cost, hour in offers
        )

    def owned(self, board: Board) -> cost.OwnedCost | None:
        """Return the cost of ownership, for a slice its share of the board."""
        whole, ratio = self._whole(board)
        owned_cost = cost.owned_cost(whole, self.prices)
        return None if owned_cost is None else owned_cost.scaled(ratio)

    def terms(self, board: Board) -> OnPremises:
        """Return the terms of ownership apart from the board."""
        return self.prices.terms_of(self._whole(board)[0].key)

    def _whole(self, board: Board) -> tuple[Board, float]:
        """Return the board of a slice, and its share of the price if all slices are used."""
        whole, profile = self._parts(board.key)
        return whole, 1.0 if profile is None else 1.0 / profile.maximum_count

    def _parts(self, key: str) -> tuple[Board, MigProfile | None]:
        """Return the board of a key, and its slice, if any."""
        name, _, profile = key.partition(":")
        board = self.catalogue.boards[name]
        if not profile:
            return board, None
        return board, next(
            mig_profile for mig_profile in board.mig_profiles if mig_profile.name == profile
        )


def _rented_terms(candidate: PlanCandidate, terms: _Terms) -> _Terms:
    """Replace the list price of GPUs by that of the instances."""
    rental = candidate.rental
    if rental is None or rental.dollars_per_hour is None:
        return terms
    interval = EstimateInterval.exactly(rental.dollars_per_hour / rental.gpus)
    source = f"{rental.instance.name}: {rental.instance.source}"
    listed = cost.HourlyCost(cost.Billing.ON_DEMAND, interval, source, rental.instance.date)
    return (listed, *(term for term in terms if term.billing is not cost.Billing.ON_DEMAND))


class Biller(Struct, frozen=True):
    """Bills of one requirement."""

    requirement: Requirement
    prices: PlanPrices
    settings: CostSettings

    def each_billed(self, answers: Iterable[_Answer]) -> tuple[_Answer, ...]:
        """Add bills to the candidates of alternatives or growth steps."""
        return tuple(replace(answer, candidate=self.billed(answer.candidate)) for answer in answers)

    def billed(self, candidate: PlanCandidate) -> PlanCandidate:
        """Return a candidate with its bill."""
        board = self.prices.board(candidate.gpu)
        rate = candidate.rate
        count = candidate.paid_count
        terms = _rented_terms(candidate, self.prices.offers(board))
        energy = self._amount(self._kilowatts(board, candidate.count), rate)
        grams = self.requirement.carbon_grams_per_kilowatt_hour
        grams = self.settings.carbon_grams_per_kilowatt_hour if grams is None else grams
        paid = ((term, term.dollars_per_hour.scaled(count)) for term in terms)
        bill = Bill(
            offers=tuple(
                PriceOffer(hourly_cost, self._amount(dollars, rate))
                for hourly_cost, dollars in paid
            ),
            ownership=self._ownership(board, count, terms),
            kilowatt_hours=energy,
            carbon_kilograms=None if grams is None else energy.scaled(grams / 1000.0),
            carbon_grams_per_kilowatt_hour=grams,
        )
        if (rented := bill.on_demand) is not None:
            bill = replace(bill, per_million_asked=self._asked(rented, rate))
        return replace(candidate, bill=bill)

    def _asked(self, rented: CostAmount, rate: PredictedRate) -> EstimateInterval | None:
        """Return the cost per million of the requested work: unused capacity is paid too."""
        demand = self.requirement.load.units_per_second
        throughput = rate.units_per_second
        if (
            demand is None
            or throughput is None
            or demand >= throughput.value
            or self.requirement.task.trains
        ):
            return rented.per_million
        return rented.per_hour.scaled(1e6 / (demand * HOUR_SECONDS))

    def _amount(self, per_hour: EstimateInterval, rate: PredictedRate) -> CostAmount:
        """Convert an hourly amount to amounts per unit of work."""
        throughput = rate.units_per_second
        hours = rate.training_hours
        interval = (
            cost.dollars_per_unit(per_hour, throughput)
            if throughput and throughput.low > 0.0
            else None
        )
        return CostAmount(
            per_hour=per_hour,
            per_million=None if interval is None else interval.scaled(1e6),
            per_image=interval if self.requirement.unit is WorkUnit.IMAGES else None,
            per_run=None if hours is None else per_hour.times(hours),
        )

    def _ownership(self, board: Board, count: int, terms: _Terms) -> OwnershipCost | None:
        owned_cost = self.prices.owned(board)
        if owned_cost is None:
            return None
        use = self.prices.prices.on_premises.utilization_ratio.value
        cloud = next((term for term in terms if term.billing is cost.Billing.ON_DEMAND), None)
        hours = months = None
        if cloud is not None:
            hours = cost.break_even_hours(cloud, owned_cost)
            months = cost.break_even_months(cloud, owned_cost, use, self.settings.hours_per_month)
        return OwnershipCost(owned_cost.scaled(count), hours, months, use)

    def _kilowatts(self, board: Board, count: int) -> EstimateInterval:
        """Return the draw of all GPUs under load, including nodes and building."""
        settings = self.settings
        trains = self.requirement.task.trains
        ratio = settings.training_power_ratio if trains else settings.serving_power_ratio
        usual = cost.board_watts(board, ratio)
        spread = EstimateInterval.around(usual, settings.power_error_factor)
        highest_watts = min(spread.high, max(usual, board.power_limit_watts))
        watts = replace(spread, high=highest_watts).scaled(count)
        return cost.metered_kilowatts(watts, self.prices.terms(board))
