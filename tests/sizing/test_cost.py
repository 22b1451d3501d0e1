"""Cost of hours and of work, rented and owned, with energy and carbon."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices import OnDemand, Price, Prices, Purchase
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.sizing.cost import (
    Billing,
    HourlyCost,
    board_watts,
    break_even_hours,
    dollars_per_unit,
    hourly_costs,
    metered_kilowatts,
    owned_cost,
)
from rightsizer.sizing.estimate import EstimateInterval

H100 = built_in().boards["H100-SXM5-80GB"]
POSITIVE = st.floats(0.01, 1e4)


def stated(**facts: object) -> Prices:
    """Prices of the H100 only, on the usual terms."""
    price = Price(H100.key, dates=("2026-08",), sources=("our contract",), **facts)  # type: ignore[arg-type]
    usual = built_in_prices()
    return Prices({H100.key: price}, usual.on_premises, usual.reserved_terms)


def cloud(dollars: float) -> HourlyCost:
    """A price that is certain."""
    return HourlyCost(Billing.ON_DEMAND, EstimateInterval(dollars, dollars, dollars), "us", "2026")


def test_every_price_tells_where_and_when_it_is_from() -> None:
    """The interval is that of the clouds."""
    prices = stated(on_demand=OnDemand(3.0, 2.0, 8.0), spot_dollars_per_hour=1.0)
    costs = list(hourly_costs(H100, prices))
    assert [cost.billing for cost in costs] == [
        Billing.ON_DEMAND,
        Billing.RESERVED_1_YEAR,
        Billing.RESERVED_3_YEARS,
        Billing.SPOT,
    ]
    assert costs[0].dollars_per_hour == EstimateInterval(3.0, 2.0, 8.0)
    assert costs[0].source == "our contract"
    assert costs[0].date == "2026-08"
    assert [cost.is_assumed for cost in costs] == [False, True, True, False]


def test_unpriced_board_has_no_cost() -> None:
    """Unknown is not free."""
    assert not list(hourly_costs(built_in().boards["L4"], stated()))
    assert not list(hourly_costs(H100, stated()))
    assert owned_cost(H100, stated()) is None


def test_owning_writes_off_the_server_and_pays_its_power() -> None:
    """Price, uplift, years, power and people are divided by the used hours."""
    found = owned_cost(H100, stated(purchases=(Purchase(30_000.0, "2026-08", "quote"),)))
    terms = built_in_prices().on_premises
    assert found is not None
    capital = 30_000.0 * (1 + terms.server_uplift_ratio.value)
    assert found.capital_dollars.value == pytest.approx(capital)
    power = 0.7 * terms.node_power_factor.value * terms.pue_ratio.value
    running = power * terms.dollars_per_kilowatt_hour.value
    running += capital * terms.operation_ratio_per_year.value / 8760
    assert found.running_dollars_per_hour.value == pytest.approx(running)
    hourly = (capital / (terms.years.value * 8760) + running) / terms.utilization_ratio.value
    assert found.dollars_per_used_hour.value == pytest.approx(hourly)
    assert found.source.startswith("quote")


def test_owning_pays_after_the_capital_is_saved() -> None:
    """It never pays where the cloud is cheaper than power and people alone."""
    found = owned_cost(H100, stated(purchases=(Purchase(30_000.0, "2026-08", "quote"),)))
    assert found is not None
    hours = break_even_hours(cloud(3.0), found)
    assert hours is not None
    saved = 3.0 - found.running_dollars_per_hour.value
    assert hours.value == pytest.approx(found.capital_dollars.value / saved)
    assert hours.low < hours.value < hours.high
    assert break_even_hours(cloud(0.1), found) is None
    cheap = break_even_hours(cloud(found.running_dollars_per_hour.value + 0.01), found)
    assert cheap is not None
    assert math.isinf(cheap.high)


def test_work_costs_hours_over_what_is_done_in_them() -> None:
    """The unit is a token or a run; half the use doubles the price."""
    hour = EstimateInterval(3.6, 3.6, 3.6)
    rate = EstimateInterval(1000.0, 1000.0, 1000.0)
    assert dollars_per_unit(hour, rate).value == pytest.approx(1e-6)
    assert dollars_per_unit(hour, rate.scaled(0.5)).value == pytest.approx(2e-6)
    assert hour.times(EstimateInterval(10.0, 8.0, 12.0)).value == pytest.approx(36.0)


@given(POSITIVE, st.floats(1.0, 3.0), POSITIVE, st.floats(1.0, 3.0))
def test_errors_add_in_squares(dollars: float, one: float, rate: float, other: float) -> None:
    """The interval is no wider than both ends at once, and no narrower than either."""
    found = dollars_per_unit(
        EstimateInterval.around(dollars, one), EstimateInterval.around(rate, other)
    )
    spread = found.high / found.value
    assert max(one, other) * 0.999 <= spread <= one * other * 1.001
    assert found.low <= found.value <= found.high


def test_power_is_counted_at_the_meter() -> None:
    """A node and its building add to it."""
    watts = EstimateInterval(700.0, 600.0, 700.0)
    terms = built_in_prices().on_premises
    meter = metered_kilowatts(watts, terms).value
    assert meter == pytest.approx(0.7 * terms.node_power_factor.value * terms.pue_ratio.value)
    assert board_watts(H100, 1.0) == 700.0
    assert board_watts(H100, 0.0) == pytest.approx(105.0)
