"""An operator's prices: used in place of the packaged ones, and their errors."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices import Assumption, OnDemand, Prices, Purchase
from rightsizer.catalogue.prices_file import built_in_prices, extended_prices, read_prices
from rightsizer.io.yaml import load_yaml
from rightsizer.model.errors import ConfigurationError

Golden = Callable[[str, str], None]


def extended(text: str) -> Prices:
    """The prices extended by an operator's text."""
    return extended_prices(load_yaml(text, "mine.yaml"), built_in())


@pytest.mark.parametrize("text", ["", "boards:", "boards: {T4: {}}", "on_premises: {}"])
def test_a_file_that_says_nothing_changes_nothing(text: str) -> None:
    """Commented out, empty, or a board without values."""
    assert extended(text) == built_in_prices()


def test_without_a_file_they_are_the_packaged_ones(tmp_path: Path) -> None:
    """They are not read again; a missing file is named."""
    assert read_prices(None, built_in()) is built_in_prices()
    with pytest.raises(ConfigurationError, match=r"no.yaml: there is no such file"):
        read_prices(tmp_path / "no.yaml", built_in())


def test_a_price_takes_the_place_of_all_clouds(tmp_path: Path) -> None:
    """No price of another date stays beside it, except the purchase price."""
    file = tmp_path / "mine.yaml"
    file.write_text("boards: {NVIDIA H100 80GB HBM3: {on_demand: 2.1, dates: [2026-09-01]}}")
    price = read_prices(file, built_in()).of("H100-SXM5-80GB")

    assert price is not None
    assert price.is_stated
    assert price.on_demand == OnDemand(2.1)
    assert price.spot_dollars_per_hour is None
    assert price.clouds == ()
    assert (price.dates, price.sources) == (("2026-09-01",), (str(file),))
    packaged = built_in_prices().by_board["H100-SXM5-80GB"]
    assert price.purchases == packaged.purchases


def test_a_purchase_leaves_the_clouds_alone() -> None:
    """With or without a date."""
    prices = extended(
        "boards:\n"
        "  L4: {purchase: 2000}\n"
        "  T4: {purchase: [{dollars: 900, date: 2026-01-31, source: used}]}\n"
    )
    packaged = built_in_prices()

    assert prices.by_board["L4"].purchases == (Purchase(2000, "", ""),)
    assert prices.by_board["T4"].purchases == (Purchase(900, "2026-01-31", "used"),)
    assert prices.by_board["L4"].on_demand == packaged.by_board["L4"].on_demand
    assert prices.by_board["L4"].sources == packaged.by_board["L4"].sources


def test_a_board_without_a_price_gets_one() -> None:
    """On demand, spot and by commitment, with names for dates and sources."""
    prices = extended(
        "boards: {H200-NVL-141GB: {on_demand: {median: 3, high: 4}, spot: 1, reserved: {1: 2},"
        " dates: [now], sources: [deal], node_power_factor: 1.5}}\n"
        "dates: {now: 2026-09}\nsources: {deal: our contract}"
    )
    price = prices.of("H200-NVL-141GB")

    assert price is not None
    assert price.on_demand == OnDemand(3, 3, 4)
    assert (price.spot_dollars_per_hour, price.node_power_factor) == (1, 1.5)
    assert (price.dated, price.sources) == ("2026-09", ("our contract",))
    reserved = prices.reserved("H200-NVL-141GB", 1)
    assert reserved is not None
    assert (reserved.dollars_per_hour, reserved.is_assumed) == (2, False)


def test_assumptions_are_the_operators_to_make() -> None:
    """A single number has no range."""
    prices = extended(
        "on_premises: {pue_ratio: 1.2, years: [5, 4, 6]}\nreserved: {discounts: {2: 0.45}}"
    )

    assert prices.on_premises.pue_ratio == Assumption(1.2)
    assert prices.on_premises.years == Assumption(5, 4, 6)
    assert prices.on_premises.node_power_factor == built_in_prices().on_premises.node_power_factor
    assert prices.reserved("T4", 2) is not None


def test_everything_wrong_is_reported_at_once_with_its_place(golden: Golden) -> None:
    """Line, column, key, the given value and the valid form."""
    with pytest.raises(ConfigurationError) as refusal:
        extended(
            """\
boards:
  H100: {on_demand: 2}
  made up: {on_demand: 2}
  L4: {on_demand: {low: 3, median: 2}, spot: cheap, purchase: [{dolars: 4}, 5]}
  A30: {on_demand: [1], reserved: {soon: 1, 1: -1}, clouds: AWS, node_power_factor: 0.5}
  A10: {on_demand: {low: 1}, dates: today}
  T4: 4
reserved: {discounts: {1: [0.3, 0.5, 0.4], 3: half}}
on_premises: {pue: 1.2, pue_ratio: [1, 2], years: 0}
dates: 4
"""
        )

    golden("faults-of-prices.txt", f"{refusal.value}\n")
