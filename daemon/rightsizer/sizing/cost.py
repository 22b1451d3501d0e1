"""Cost of a GPU-hour, rented or owned, of its energy and carbon, and of work."""

import math
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.prices import Assumption, OnPremises, Prices
from rightsizer.model.units import HOUR_SECONDS
from rightsizer.sizing.estimate import EstimateInterval

HOURS_PER_YEAR: Final = 8760.0
_IDLE_RATIO: Final = 0.15
"""Idle draw of a GPU as a fraction of its power limit (docs/definitions.md, states)."""


class Billing(StrEnum):
    """Terms of payment for a GPU."""

    ON_DEMAND = "on_demand"
    RESERVED_1_YEAR = "reserved_1_year"
    RESERVED_3_YEARS = "reserved_3_years"
    SPOT = "spot"
    ON_PREMISES = "on_premises"


class HourlyCost(Struct, frozen=True):
    """Price of one GPU-hour at its date; never a current quote."""

    billing: Billing
    dollars_per_hour: EstimateInterval
    source: str
    date: str
    is_assumed: bool = False
    """Derived from usual discounts or usual costs, not from an offered price."""
    is_stated: bool = False
    """The operator's own price."""

    @property
    def basis(self) -> str:
        """What kind of price it is."""
        if self.is_stated:
            return "your prices"
        return "assumed costs" if self.is_assumed else "list prices"


class OwnedCost(Struct, frozen=True):
    """Cost of owning one GPU."""

    capital_dollars: EstimateInterval
    """GPU and its share of the server."""
    running_dollars_per_hour: EstimateInterval
    """Power, staff, space and repairs, independent of use."""
    dollars_per_used_hour: EstimateInterval
    """All costs divided by hours in use."""
    source: str
    date: str

    def scaled(self, by: float) -> "OwnedCost":
        """Cost of several GPUs, or of a fraction of one."""
        parts = ("capital_dollars", "running_dollars_per_hour", "dollars_per_used_hour")
        return replace(self, **{part: getattr(self, part).scaled(by) for part in parts})


_TERMS: Final = ((1, Billing.RESERVED_1_YEAR), (3, Billing.RESERVED_3_YEARS))


def hourly_costs(board: Board, prices: Prices) -> Iterator[HourlyCost]:
    """Yield all known prices of a board per hour, clouds first."""
    if (price := prices.of(board.key)) is None:
        return
    source = "; ".join(price.sources)
    date = price.period
    if (demand := price.on_demand) is not None:
        low = demand.low_dollars_per_hour
        high = demand.high_dollars_per_hour
        dollars = EstimateInterval(demand.median_dollars_per_hour, low, high)
        yield HourlyCost(Billing.ON_DEMAND, dollars, source, date, is_stated=price.is_stated)
    for years, billing in _TERMS:
        if (offer := prices.reserved(price.key, years)) is not None:
            low = offer.low_dollars_per_hour
            high = offer.high_dollars_per_hour
            dollars = EstimateInterval(offer.dollars_per_hour, low, high)
            named = prices.reserved_terms.source if offer.is_assumed else source
            is_stated = price.is_stated and not offer.is_assumed
            yield HourlyCost(billing, dollars, named, date, offer.is_assumed, is_stated)
    if (spot := price.spot_dollars_per_hour) is not None:
        dollars = EstimateInterval.exactly(spot)
        yield HourlyCost(Billing.SPOT, dollars, source, date, is_stated=price.is_stated)
    if (cost := owned_cost(board, prices)) is not None:
        used = cost.dollars_per_used_hour
        yield HourlyCost(Billing.ON_PREMISES, used, cost.source, cost.date, is_assumed=True)


def owned_cost(board: Board, prices: Prices) -> OwnedCost | None:
    """Cost of owning a board, or `None` if no purchase price is known."""
    price = prices.of(board.key)
    if price is None or not price.purchases:
        return None
    paid = [purchase.dollars for purchase in price.purchases]
    terms = prices.terms_of(board.key)
    first = price.purchases[0]
    bought = EstimateInterval(first.dollars, min(paid), max(paid))
    capital = _times(bought, terms.server_uplift_ratio, 1.0)
    power = EstimateInterval.exactly(board.power_limit_watts / 1000.0)
    for assumption in (terms.node_power_factor, terms.pue_ratio, terms.dollars_per_kilowatt_hour):
        power = _times(power, assumption)
    yearly = capital.scaled(1.0 / HOURS_PER_YEAR)
    running = power.plus(_times(yearly, terms.operation_ratio_per_year))
    written_off = _over(capital, terms.years, HOURS_PER_YEAR)
    return OwnedCost(
        capital_dollars=capital,
        running_dollars_per_hour=running,
        dollars_per_used_hour=_over(written_off.plus(running), terms.utilization_ratio),
        source="; ".join(filter(None, (first.source, terms.source))),
        date=first.date,
    )


def _over(figure: EstimateInterval, by: Assumption, unit: float = 1.0) -> EstimateInterval:
    """Divide by an assumption; its upper bound yields the lower bound."""
    return EstimateInterval(
        figure.value / (by.value * unit),
        figure.low / (by.high * unit),
        figure.high / (by.low * unit),
    )


def _times(figure: EstimateInterval, by: Assumption, plus: float = 0.0) -> EstimateInterval:
    return EstimateInterval(
        figure.value * (plus + by.value),
        figure.low * (plus + by.low),
        figure.high * (plus + by.high),
    )


def board_watts(board: Board, power_ratio: float) -> float:
    """Draw of a board; `power_ratio`: draw above idle divided by limit above idle, 0 to 1."""
    idle = board.power_limit_watts * _IDLE_RATIO
    return idle + power_ratio * (board.power_limit_watts - idle)


def metered_kilowatts(watts: EstimateInterval, terms: OnPremises) -> EstimateInterval:
    """Draw of GPUs at the meter of their building."""
    return _times(_times(watts.scaled(1.0 / 1000.0), terms.node_power_factor), terms.pue_ratio)


def dollars_per_unit(hourly: EstimateInterval, rate: EstimateInterval) -> EstimateInterval:
    """Price of an image, a sample or a token; the rate must be positive."""
    return hourly.times(rate.inverse().scaled(1.0 / HOUR_SECONDS))


def break_even_hours(cloud: HourlyCost, owned: OwnedCost) -> EstimateInterval | None:
    """Hours of use after which an owned GPU has cost less than a rented one.

    `None` if never; the upper end is infinite if that cannot be excluded.
    """
    rented = cloud.dollars_per_hour
    running = owned.running_dollars_per_hour
    paid = owned.capital_dollars
    hours = EstimateInterval(
        _hours(paid.value, rented.value - running.value),
        _hours(paid.low, rented.high - running.low),
        _hours(paid.high, rented.low - running.high),
    )
    return None if math.isinf(hours.value) else hours


def break_even_months(
    cloud: HourlyCost, owned: OwnedCost, utilization_ratio: float, hours_per_month: float
) -> EstimateInterval | None:
    """Break-even in months with partial use, while the owned GPU runs all the time.

    `utilization_ratio`: fraction of a month in which the GPU is used.
    """
    used = cloud.dollars_per_hour.scaled(utilization_ratio)
    hours = break_even_hours(replace(cloud, dollars_per_hour=used), owned)
    return None if hours is None else hours.scaled(1.0 / hours_per_month)


def _hours(capital_dollars: float, saved_per_hour: float) -> float:
    return capital_dollars / saved_per_hour if saved_per_hour > 0.0 else math.inf
