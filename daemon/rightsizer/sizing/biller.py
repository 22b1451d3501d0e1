"""Writes the bill of a candidate: dollars on all terms, energy, carbon."""

from dataclasses import dataclass, replace

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.price import Assumption
from rightsizer.sizing.bill import Amount, Bill, Offer, Ownership
from rightsizer.sizing.candidates import Candidate, Rate
from rightsizer.sizing.carbon import carbon_kilograms
from rightsizer.sizing.cost import (
    break_even_hours,
    break_even_months,
    dollars_per_image,
    dollars_per_million_tokens,
    dollars_per_training,
)
from rightsizer.sizing.cost_settings import CostSettings
from rightsizer.sizing.energy_cost import board_watts, kilowatt_hours
from rightsizer.sizing.estimate import Interval
from rightsizer.sizing.hourly_cost import Billing, HourlyCost
from rightsizer.sizing.models import ConvolutionalNetwork, Diffusion, VisionTransformer
from rightsizer.sizing.plan_prices import PlanPrices
from rightsizer.sizing.requirement import Requirement

__all__ = ["Biller"]


@dataclass(frozen=True, slots=True)
class Biller:
    """One requirement's bills."""

    requirement: Requirement
    prices: PlanPrices
    settings: CostSettings

    def billed(self, candidate: Candidate) -> Candidate:
        """A candidate with its bill."""
        return replace(candidate, bill=self.bill(candidate))

    def bill(self, candidate: Candidate) -> Bill:
        """What a candidate costs."""
        board = self.prices.board(candidate.gpu)
        terms = self.prices.offers(board)
        energy = self._amount(self._kilowatts(board, candidate.count), candidate.rate)
        grams = self._grams
        return Bill(
            offers=tuple(self._offer(each, candidate) for each in terms),
            ownership=self._ownership(board, candidate.count, terms),
            kilowatt_hours=energy,
            carbon_kilograms=None if grams is None else _carbon(energy, grams),
            carbon_grams_per_kilowatt_hour=grams,
        )

    @property
    def _grams(self) -> float | None:
        own = self.requirement.carbon_grams_per_kilowatt_hour
        return self.settings.carbon_grams_per_kilowatt_hour if own is None else own

    def _offer(self, terms: HourlyCost, candidate: Candidate) -> Offer:
        hourly = terms.dollars_per_hour.scaled(candidate.count)
        return Offer(terms, self._amount(hourly, candidate.rate))

    def _amount(self, per_hour: Interval, rate: Rate) -> Amount:
        """Of an amount that each hour takes, what goes into a unit of work."""
        made, hours = rate.tokens_per_second, rate.training_hours
        is_made = made is not None and made.low > 0.0
        return Amount(
            per_hour=per_hour,
            per_million=dollars_per_million_tokens(per_hour, made) if made and is_made else None,
            per_image=dollars_per_image(per_hour, made)
            if made and is_made and isinstance(self.requirement.model, _OF_IMAGES)
            else None,
            per_run=None if hours is None else dollars_per_training(per_hour, hours),
        )

    def _ownership(
        self, board: Board, count: int, terms: tuple[HourlyCost, ...]
    ) -> Ownership | None:
        own = self.prices.owned(board)
        if own is None:
            return None
        use = self.prices.prices.on_premises.utilization_ratio.value
        cloud = next((each for each in terms if each.billing is Billing.ON_DEMAND), None)
        return Ownership(
            capital_dollars=own.capital_dollars.scaled(count),
            running_dollars_per_hour=own.running_dollars_per_hour.scaled(count),
            break_even_hours=None if cloud is None else break_even_hours(cloud, own),
            break_even_months=None
            if cloud is None
            else break_even_months(cloud, own, use, self.settings.hours_per_month),
            utilization_ratio=use,
        )

    def _kilowatts(self, board: Board, count: int) -> Interval:
        """What all GPUs draw under the load, with their nodes and their building."""
        settings, trains = self.settings, self.requirement.task.trains
        ratio = settings.training_power_ratio if trains else settings.serving_power_ratio
        usual = board_watts(board, ratio)
        spread = Interval.around(usual, settings.power_error_factor)
        watts = Interval(usual, spread.low, min(spread.high, max(usual, board.power_limit_watts)))
        terms = self.prices.prices.on_premises
        factor = self.prices.node_power_factor(board)
        if factor is not None:
            terms = replace(terms, node_power_factor=Assumption(factor, factor, factor))
        return kilowatt_hours(watts.scaled(count), 1.0, terms)


_OF_IMAGES = ConvolutionalNetwork | VisionTransformer | Diffusion


def _carbon(energy: Amount, grams_per_kilowatt_hour: float) -> Amount:
    def carbon(part: Interval | None) -> Interval | None:
        return None if part is None else carbon_kilograms(part, grams_per_kilowatt_hour)

    return Amount(
        per_hour=energy.per_hour.scaled(grams_per_kilowatt_hour / 1000.0),
        per_million=carbon(energy.per_million),
        per_image=carbon(energy.per_image),
        per_run=carbon(energy.per_run),
    )
