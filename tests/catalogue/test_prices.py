"""Prices of boards: packaged ones with their dates, and results without a price."""

import pickle

import pytest

from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices import Assumption, OnDemand, Price, Prices, Reserved
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.io.codec import plain

PRICES = built_in_prices()
EVERY = pytest.mark.parametrize("price", PRICES.by_board.values(), ids=PRICES.by_board.keys())


@EVERY
def test_a_price_is_plausible_and_has_its_date(price: Price) -> None:
    """Rising from lowest to highest, spot below on demand, with dates and sources."""
    assert price.key in built_in().boards
    assert price.on_demand is not None or price.purchases
    if price.on_demand is not None:
        low = price.on_demand.low_dollars_per_hour
        high = price.on_demand.high_dollars_per_hour
        assert 0.1 <= low <= price.on_demand.median_dollars_per_hour <= high <= 20
        assert price.dates
        assert price.sources
        assert price.clouds
        assert price.period != "undated"
        large = price.on_demand.hyperscaler_dollars_per_hour
        assert large is None or low <= large <= high
        assert (price.spot_dollars_per_hour or 0.0) < high
    for purchase in price.purchases:
        assert 500 <= purchase.dollars <= 60_000
        assert purchase.date
        assert purchase.source
    assert not price.is_stated


@EVERY
def test_a_board_costs_hundreds_of_hours_to_buy(price: Price) -> None:
    """Between some weeks and some years of rent: a wrong digit would show."""
    hourly = price.dollars_per_hour
    whole = price.purchases[0].dollars if price.purchases else None
    if hourly is not None and whole is not None:
        assert 500 < whole / hourly < 40_000


def test_prices_reach_worker_processes() -> None:
    """A fleet is judged in several, each of which has all prices."""
    assert pickle.loads(pickle.dumps(PRICES)) == PRICES


def test_unknown_price_is_none() -> None:
    """It is neither zero nor the price of a similar board."""
    assert PRICES.of("H200-NVL-141GB") is None
    assert PRICES.dollars_per_hour("H200-NVL-141GB") is None
    assert PRICES.reserved("H200-NVL-141GB", 1) is None
    assert PRICES.dollars_per_hour("RTX4090") is None
    assert PRICES.reserved("RTX4090", 1) is None
    assert PRICES.of("RTX4090") is not None
    assert PRICES.reserved("T4", 2) is None


def test_a_commitment_is_a_usual_discount_and_says_so() -> None:
    """With the range of discounts; longer commitments are cheaper."""
    one = PRICES.reserved("T4", 1)
    three = PRICES.reserved("T4", 3)

    assert one is not None
    assert three is not None
    assert one.is_assumed
    assert one.dollars_per_hour == pytest.approx(0.92 * 0.7)
    assert (one.low_dollars_per_hour, one.high_dollars_per_hour) == (
        pytest.approx(0.92 * 0.6),
        pytest.approx(0.92 * 0.8),
    )
    assert three.dollars_per_hour < one.dollars_per_hour
    assert PRICES.reserved_terms.source


def test_a_commitment_that_somebody_offers_is_no_assumption() -> None:
    """Even if no price without a commitment is known."""
    offered = Price("X", reserved_dollars_per_hour={1: 1.5})
    prices = Prices({"X": offered}, PRICES.on_premises, PRICES.reserved_terms)

    assert prices.reserved("X", 1) == Reserved(1.5, 1.5, 1.5, is_assumed=False)
    assert prices.reserved("X", 3) is None


def test_owning_takes_what_is_usual_within_a_range() -> None:
    """Every value of section "money": years, server, power, building, people, use."""
    figures = plain(PRICES.on_premises)

    assert figures.pop("source")
    assert figures["years"][0] == 4
    assert all(low < usual < high for usual, low, high in figures.values())
    assert PRICES.on_premises.pue_ratio == Assumption(1.4, 1.3, 1.56)


def test_a_rack_with_shared_cooling_takes_less_power_beside_its_gpus() -> None:
    """The node's own share of power is known for some boards."""
    factors = {
        key: PRICES.by_board[key].node_power_factor for key in ("GB200", "A100-SXM4-80GB", "T4")
    }

    assert factors == {"GB200": 1.4, "A100-SXM4-80GB": 2.0, "T4": None}


@pytest.mark.parametrize(
    ("dates", "period"),
    [
        ((), "undated"),
        (("last week",), "undated"),
        (("2025-03-07",), "2025-03"),
        (("2025-03-07", "between 2025-09 and 2026-08"), "2025-03 to 2026-08"),
        (("2022 to 2023",), "2022 to 2023"),
    ],
)
def test_dates_make_a_period(dates: tuple[str, ...], period: str) -> None:
    """From the first month to the last named one."""
    assert Price("X", OnDemand(1, 1, 1), dates=dates).period == period
