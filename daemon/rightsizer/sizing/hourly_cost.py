"""What an hour of one GPU costs: rented in a cloud, or owned."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.price import Assumption, OnPremises, Price
from rightsizer.catalogue.prices import Prices
from rightsizer.sizing.estimate import Interval

__all__ = ["HOURS_PER_YEAR", "Billing", "HourlyCost", "Owned", "hourly_costs", "owned"]

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
    dollars_per_hour: Interval
    source: str
    date: str
    is_assumed: bool = False
    """Follows from usual discounts or usual costs, not from a price that anybody offers."""


@dataclass(frozen=True, slots=True)
class Owned:
    """What owning one GPU takes."""

    capital_dollars: Interval
    """The GPU and its part of the server."""
    running_dollars_per_hour: Interval
    """Power, and people, space and repairs, whether it is used or not."""
    dollars_per_used_hour: Interval
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


def owned(board: Board, prices: Prices) -> Owned | None:
    """What owning a board takes; `None` where nobody names a purchase price."""
    price = prices.of(board.key)
    if price is None or not price.purchases:
        return None
    paid = sorted(purchase.dollars for purchase in price.purchases)
    terms = prices.on_premises
    first = price.purchases[0]
    capital = _times(Interval(first.dollars, paid[0], paid[-1]), terms.server_uplift_ratio, 1.0)
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
    return Owned(
        capital_dollars=capital,
        running_dollars_per_hour=running,
        dollars_per_used_hour=Interval(
            (written_off[0] + running.value) / use.value,
            (written_off[1] + running.low) / use.high,
            (written_off[2] + running.high) / use.low,
        ),
        source="; ".join(filter(None, (first.source, terms.source))),
        date=first.date,
    )


def _running(board: Board, price: Price, terms: OnPremises, capital: Interval) -> Interval:
    factor = terms.node_power_factor
    if price.node_power_factor is not None:
        factor = Assumption(*(price.node_power_factor,) * 3)
    kilowatts = Interval(*(board.power_limit_watts / 1000.0,) * 3)
    power = kilowatts
    for each in (factor, terms.pue_ratio, terms.dollars_per_kilowatt_hour):
        power = _times(power, each)
    operation = _times(capital.scaled(1.0 / HOURS_PER_YEAR), terms.operation_ratio_per_year)
    return Interval(
        power.value + operation.value, power.low + operation.low, power.high + operation.high
    )


def _times(figure: Interval, by: Assumption, plus: float = 0.0) -> Interval:
    return Interval(
        figure.value * (plus + by.value),
        figure.low * (plus + by.low),
        figure.high * (plus + by.high),
    )


def _cloud(price: Price) -> tuple[HourlyCost, ...]:
    found = price.on_demand
    if found is None:
        return ()
    dollars = Interval(
        found.median_dollars_per_hour, found.low_dollars_per_hour, found.high_dollars_per_hour
    )
    return (HourlyCost(Billing.ON_DEMAND, dollars, _source(price), price.period),)


def _reserved(price: Price, prices: Prices) -> tuple[HourlyCost, ...]:
    costs = []
    for years, billing in _TERMS:
        offer = prices.reserved(price.key, years)
        if offer is None:
            continue
        dollars = Interval(
            offer.dollars_per_hour, offer.low_dollars_per_hour, offer.high_dollars_per_hour
        )
        source = prices.reserved_source if offer.is_assumed else _source(price)
        costs.append(HourlyCost(billing, dollars, source, price.period, offer.is_assumed))
    return tuple(costs)


def _spot(price: Price) -> tuple[HourlyCost, ...]:
    spot = price.spot_dollars_per_hour
    if spot is None:
        return ()
    return (HourlyCost(Billing.SPOT, Interval(spot, spot, spot), _source(price), price.period),)


def _owned(board: Board, prices: Prices) -> tuple[HourlyCost, ...]:
    found = owned(board, prices)
    if found is None:
        return ()
    dollars = found.dollars_per_used_hour
    return (HourlyCost(Billing.ON_PREMISES, dollars, found.source, found.date, is_assumed=True),)


def _source(price: Price) -> str:
    return "; ".join(price.sources)
