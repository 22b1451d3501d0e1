"""Cost of an hour of a GPU, rented or owned, of its energy and carbon, and of work."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.prices import Assumption, OnPremises, Price, Prices
from rightsizer.model.units import HOUR_SECONDS
from rightsizer.sizing.estimate import EstimateInterval

HOURS_PER_YEAR: Final = 8760.0


class Billing(StrEnum):
    """Under what terms a GPU is had."""

    ON_DEMAND = "on_demand"
    RESERVED_1_YEAR = "reserved_1_year"
    RESERVED_3_YEARS = "reserved_3_years"
    SPOT = "spot"
    ON_PREMISES = "on_premises"


@dataclass(frozen=True, slots=True)
class HourlyCost:
    """The price of one GPU-hour. Never a quote of today: see its date."""

    billing: Billing
    dollars_per_hour: EstimateInterval
    source: str
    date: str
    is_assumed: bool = False
    """Follows from usual discounts or usual costs, not from a price that anybody offers."""


@dataclass(frozen=True, slots=True)
class OwnedCost:
    """What owning one GPU takes."""

    capital_dollars: EstimateInterval
    """The GPU and its part of the server."""
    running_dollars_per_hour: EstimateInterval
    """Power, and people, space and repairs, whether it is used or not."""
    dollars_per_used_hour: EstimateInterval
    """All of it, over the hours that somebody uses it."""
    source: str
    date: str


_TERMS: Final = ((1, Billing.RESERVED_1_YEAR), (3, Billing.RESERVED_3_YEARS))


def hourly_costs(board: Board, prices: Prices) -> tuple[HourlyCost, ...]:
    """Every way to have a board for an hour that somebody names a price for, clouds first."""
    price = prices.of(board.key)
    if price is None:
        return ()
    return (*_cloud(price), *_reserved(price, prices), *_spot(price), *_owned(board, prices))


def owned_cost(board: Board, prices: Prices) -> OwnedCost | None:
    """What owning a board takes; `None` where nobody names a purchase price."""
    price = prices.of(board.key)
    if price is None or not price.purchases:
        return None
    paid = sorted(purchase.dollars for purchase in price.purchases)
    terms = prices.on_premises
    first = price.purchases[0]
    capital = _times(
        EstimateInterval(first.dollars, paid[0], paid[-1]), terms.server_uplift_ratio, 1.0
    )
    running = _running(board, price, terms, capital)
    written_off = [
        dollars / (years * HOURS_PER_YEAR)
        for dollars, years in (
            (capital.value, terms.years.value),
            (capital.low, terms.years.high),
            (capital.high, terms.years.low),
        )
    ]
    use = terms.utilization_ratio
    return OwnedCost(
        capital_dollars=capital,
        running_dollars_per_hour=running,
        dollars_per_used_hour=EstimateInterval(
            (written_off[0] + running.value) / use.value,
            (written_off[1] + running.low) / use.high,
            (written_off[2] + running.high) / use.low,
        ),
        source="; ".join(filter(None, (first.source, terms.source))),
        date=first.date,
    )


def _running(
    board: Board, price: Price, terms: OnPremises, capital: EstimateInterval
) -> EstimateInterval:
    factor = terms.node_power_factor
    if price.node_power_factor is not None:
        factor = Assumption(*(price.node_power_factor,) * 3)
    kilowatts = EstimateInterval(*(board.power_limit_watts / 1000.0,) * 3)
    power = kilowatts
    for each in (factor, terms.pue_ratio, terms.dollars_per_kilowatt_hour):
        power = _times(power, each)
    operation = _times(capital.scaled(1.0 / HOURS_PER_YEAR), terms.operation_ratio_per_year)
    return EstimateInterval(
        power.value + operation.value, power.low + operation.low, power.high + operation.high
    )


def _times(figure: EstimateInterval, by: Assumption, plus: float = 0.0) -> EstimateInterval:
    return EstimateInterval(
        figure.value * (plus + by.value),
        figure.low * (plus + by.low),
        figure.high * (plus + by.high),
    )


def _cloud(price: Price) -> tuple[HourlyCost, ...]:
    found = price.on_demand
    if found is None:
        return ()
    dollars = EstimateInterval(
        found.median_dollars_per_hour, found.low_dollars_per_hour, found.high_dollars_per_hour
    )
    return (HourlyCost(Billing.ON_DEMAND, dollars, _source(price), price.period),)


def _reserved(price: Price, prices: Prices) -> tuple[HourlyCost, ...]:
    costs = []
    for years, billing in _TERMS:
        offer = prices.reserved(price.key, years)
        if offer is None:
            continue
        dollars = EstimateInterval(
            offer.dollars_per_hour, offer.low_dollars_per_hour, offer.high_dollars_per_hour
        )
        source = prices.reserved_source if offer.is_assumed else _source(price)
        costs.append(HourlyCost(billing, dollars, source, price.period, offer.is_assumed))
    return tuple(costs)


def _spot(price: Price) -> tuple[HourlyCost, ...]:
    spot = price.spot_dollars_per_hour
    if spot is None:
        return ()
    return (
        HourlyCost(Billing.SPOT, EstimateInterval(spot, spot, spot), _source(price), price.period),
    )


def _owned(board: Board, prices: Prices) -> tuple[HourlyCost, ...]:
    found = owned_cost(board, prices)
    if found is None:
        return ()
    dollars = found.dollars_per_used_hour
    return (HourlyCost(Billing.ON_PREMISES, dollars, found.source, found.date, is_assumed=True),)


def _source(price: Price) -> str:
    return "; ".join(price.sources)


_IDLE_RATIO: Final = 0.15
"""Of the power limit, which a GPU draws doing nothing (docs/definitions.md, states)."""


def board_watts(board: Board, power_ratio: float) -> float:
    """The draw of a board.

    `power_ratio`: draw above idle, of the limit above idle, 0 to 1.
    """
    idle = board.power_limit_watts * _IDLE_RATIO
    return idle + power_ratio * (board.power_limit_watts - idle)


def kilowatt_hours(
    watts: EstimateInterval, hours: float, terms: OnPremises | None = None
) -> EstimateInterval:
    """What GPUs take over some hours; at the meter of the building where its terms are given."""
    energy = watts.scaled(hours / 1000.0)
    if terms is None:
        return energy
    node, building = terms.node_power_factor, terms.pue_ratio
    return EstimateInterval(
        energy.value * node.value * building.value,
        energy.low * node.low * building.low,
        energy.high * node.high * building.high,
    )


def carbon_kilograms(
    kilowatt_hours: EstimateInterval, grams_per_kilowatt_hour: float | None
) -> EstimateInterval | None:
    """Carbon dioxide equivalents; `None` without an intensity, which differs by place and hour."""
    if grams_per_kilowatt_hour is None:
        return None
    return kilowatt_hours.scaled(grams_per_kilowatt_hour / 1000.0)


_MILLION: Final = 1e6


def per_hour(cost: HourlyCost, gpus: int = 1, share_ratio: float = 1.0) -> EstimateInterval:
    """Dollars an hour of some GPUs, or of a slice that is a part of one."""
    return cost.dollars_per_hour.scaled(gpus * share_ratio)


def dollars_per_million_tokens(
    dollars_per_hour: EstimateInterval,
    tokens_per_second: EstimateInterval,
    utilization_ratio: float = 1.0,
) -> EstimateInterval:
    """What a million tokens cost where the GPUs are used for a part of the hours paid for."""
    return _per_unit(dollars_per_hour, tokens_per_second.scaled(utilization_ratio)).scaled(_MILLION)


def dollars_per_image(
    dollars_per_hour: EstimateInterval,
    images_per_second: EstimateInterval,
    utilization_ratio: float = 1.0,
) -> EstimateInterval:
    """What an image costs where the GPUs are used for a part of the hours paid for."""
    return _per_unit(dollars_per_hour, images_per_second.scaled(utilization_ratio))


def dollars_per_training(
    dollars_per_hour: EstimateInterval, hours: EstimateInterval
) -> EstimateInterval:
    """What a run of some hours costs on GPUs that cost as much in each."""
    return _product(dollars_per_hour, hours)


def break_even_hours(cloud: HourlyCost, own: OwnedCost) -> EstimateInterval | None:
    """After how many used hours an owned GPU has cost less than a rented one.

    `None` where it never has; the upper end is infinite where that cannot be ruled out.
    """
    rented, running = cloud.dollars_per_hour, own.running_dollars_per_hour
    usual = _hours(own.capital_dollars.value, rented.value - running.value)
    if math.isinf(usual):
        return None
    return EstimateInterval(
        usual,
        _hours(own.capital_dollars.low, rented.high - running.low),
        _hours(own.capital_dollars.high, rented.low - running.high),
    )


def break_even_months(
    cloud: HourlyCost, own: OwnedCost, utilization_ratio: float, hours_per_month: float
) -> EstimateInterval | None:
    """The same in months, of which only a part is used, while an owned GPU runs through all.

    `utilization_ratio`: the part of a month that the GPU is used for.
    """
    used = cloud.dollars_per_hour.scaled(utilization_ratio)
    hours = break_even_hours(replace(cloud, dollars_per_hour=used), own)
    return None if hours is None else hours.scaled(1.0 / hours_per_month)


def _hours(capital_dollars: float, saved_per_hour: float) -> float:
    return capital_dollars / saved_per_hour if saved_per_hour > 0.0 else math.inf


def _per_unit(
    dollars_per_hour: EstimateInterval, units_per_second: EstimateInterval
) -> EstimateInterval:
    """The rate must be positive."""
    seconds = EstimateInterval(
        1.0 / units_per_second.value, 1.0 / units_per_second.high, 1.0 / units_per_second.low
    ).scaled(1.0 / HOUR_SECONDS)
    return _product(dollars_per_hour, seconds)


def _product(first: EstimateInterval, second: EstimateInterval) -> EstimateInterval:
    """Of two figures that err independently: their errors add in squares."""
    value = first.value * second.value
    if value <= 0.0 or min(first.low, second.low) <= 0.0:
        return EstimateInterval(value, first.low * second.low, first.high * second.high)
    below = math.hypot(math.log(first.value / first.low), math.log(second.value / second.low))
    above = math.hypot(math.log(first.high / first.value), math.log(second.high / second.value))
    return EstimateInterval(value, value * math.exp(-below), value * math.exp(above))
