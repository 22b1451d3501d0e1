"""Bills: every way to pay for a candidate's GPUs, the cost of work, energy and carbon."""

from collections.abc import Mapping, Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices import OnDemand, Price, Prices, Purchase
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.planner.biller import Biller, PlanPrices
from rightsizer.planner.candidate import Bill, CostAmount, PlanCandidate, PredictedRate
from rightsizer.planner.planner import Planner
from rightsizer.sizing.cost import (
    Billing,
    HourlyCost,
    OwnedCost,
    board_watts,
    break_even_hours,
    break_even_months,
)
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.memory_estimate import MemoryEstimate
from rightsizer.sizing.models import ConvolutionalNetwork
from rightsizer.sizing.requirement import ModelTask, Parallelism, Requirement, Training
from rightsizer.sizing.settings import CostSettings
from sizing_models import published

H100: Final = "H100-SXM5-80GB"
SMALL: Final = published("Llama-3.1-8B")
USUAL: Final = built_in_prices()
PRICES: Final = replace(
    USUAL,
    by_board={
        H100: Price(
            H100,
            OnDemand(3.0, 2.0, 8.0),
            spot_dollars_per_hour=1.0,
            reserved_dollars_per_hour={1: 2.5},
            dates=("2026-08",),
            sources=("our contract",),
            purchases=(Purchase(30_000.0, "2026-07", "our quote"),),
        )
    },
)


def sure(value: float) -> EstimateInterval:
    """A value that is certain."""
    return EstimateInterval(value, value, value)


def candidate(gpu: str = H100, count: int = 2, rate: PredictedRate | None = None) -> PlanCandidate:
    """The given number of GPUs with a thousand tokens a second."""
    made = rate or PredictedRate(units_per_second=sure(1000.0))
    return PlanCandidate(gpu, Parallelism(data=count), MemoryEstimate(), 8e10, made)


def bill(
    asked: PlanCandidate,
    requirement: Requirement | None = None,
    stated: Mapping[str, float] | None = None,
    prices: Prices = PRICES,
    settings: CostSettings | None = None,
) -> Bill:
    """Cost of a candidate."""
    plan = PlanPrices(built_in(), prices.with_stated(stated or {}, "the plan's own prices"))
    used = settings or CostSettings()
    bill = Biller(requirement or Requirement(SMALL), plan, used).billed(asked).bill
    assert bill is not None
    return bill


def test_every_way_to_have_the_gpus_is_an_offer_for_all_of_them() -> None:
    """Each has the interval, source and date of a single GPU's cost."""
    found = bill(candidate())

    assert [offer.terms.billing for offer in found.offers] == [
        Billing.ON_DEMAND,
        Billing.RESERVED_1_YEAR,
        Billing.RESERVED_3_YEARS,
        Billing.SPOT,
        Billing.ON_PREMISES,
    ]
    assert found.offers[0].dollars.per_hour == EstimateInterval(6.0, 4.0, 16.0)
    assert found.offers[0].terms.source == "our contract"
    assert found.offers[0].terms.date == "2026-08"
    assert found.offers[1].dollars.per_hour.value == 5.0
    million = found.offers[0].dollars.per_million
    assert million is not None
    assert million.value == pytest.approx(6.0 / 3.6)
    assert million.low < million.value < million.high


def test_images_have_a_price_each_and_runs_one_in_all() -> None:
    """Tokens have neither, and work that is not counted has no run."""
    network = ConvolutionalNetwork(parameters=25.6e6, forward_flops=8.2e9)
    trained = PredictedRate(units_per_second=sure(1000.0), training_hours=sure(10.0))
    images = bill(candidate(), Requirement(network)).offers[0].dollars
    run = bill(candidate(rate=trained), Requirement(SMALL, ModelTask.TRAINING)).offers[0].dollars

    assert images.per_image is not None
    assert images.per_image.value == pytest.approx(6.0 / 3600.0 / 1000.0)
    assert (images.per_run, run.per_image) == (None, None)
    assert run.per_run is not None
    assert run.per_run.value == pytest.approx(60.0)


def test_owning_is_for_all_gpus_and_pays_after_as_long_as_one_does() -> None:
    """Months include unused hours, in which an owned GPU costs the same."""
    one, two = (bill(candidate(count=count)).ownership for count in (1, 2))
    assert one is not None
    assert two is not None

    assert two.owned.capital_dollars.value == pytest.approx(2 * one.owned.capital_dollars.value)
    assert two.break_even_hours == one.break_even_hours
    assert two.break_even_hours is not None
    assert two.break_even_months is not None
    assert two.break_even_months.value * 730.0 > two.break_even_hours.value


def test_months_until_owning_pays_are_saved_by_used_hours_alone() -> None:
    """It never pays where rent at that use is less than power and people."""
    cloud = HourlyCost(Billing.ON_DEMAND, sure(3.0), "us", "2026")
    own = OwnedCost(sure(30_000.0), sure(0.5), sure(2.0), "us", "2026")

    months = break_even_months(cloud, own, 0.5, 730.0)
    assert months is not None
    assert months.value == pytest.approx(30_000.0 / (0.5 * 3.0 - 0.5) / 730.0)
    assert break_even_months(cloud, own, 1.0, 1.0) == break_even_hours(cloud, own)
    assert break_even_months(cloud, own, 0.1, 730.0) is None


def test_prices_of_a_plan_replace_the_cloud_prices() -> None:
    """Dates are therefore not mixed; purchase costs stay, and no spot price is left."""
    found = bill(candidate(), stated={H100: 1.5})

    assert found.offers[0].dollars.per_hour == sure(3.0)
    assert found.offers[0].terms.source == "the plan's own prices"
    assert Billing.SPOT not in {offer.terms.billing for offer in found.offers}
    assert found.offers[1].terms.is_assumed
    assert found.ownership is not None


def test_a_slice_costs_its_part_of_a_board_unless_it_has_a_price() -> None:
    """This holds for offers, ownership and power."""
    gpu = f"{H100}:1g.10gb"
    whole = bill(candidate(count=1))
    part = bill(candidate(gpu, count=1))
    priced = bill(candidate(gpu, count=1), stated={gpu: 9.0})

    assert len(part.offers) == len(whole.offers)
    for one, other in zip(part.offers, whole.offers, strict=True):
        assert one.dollars.per_hour.value == pytest.approx(other.dollars.per_hour.value / 7)
    assert part.ownership is not None
    assert whole.ownership is not None
    assert part.ownership.owned.capital_dollars.value == pytest.approx(
        whole.ownership.owned.capital_dollars.value / 7
    )
    assert part.kilowatt_hours.per_hour.value < whole.kilowatt_hours.per_hour.value / 4
    assert priced.offers[0].dollars.per_hour.value == 9.0


@given(
    st.integers(1, 512),
    st.floats(1e-3, 1e7),
    st.floats(1.0, 10.0),
    st.sampled_from(sorted(built_in().boards)),
)
def test_a_bill_grows_with_the_gpus_and_falls_with_what_they_make(
    count: int, made: float, factor: float, gpu: str
) -> None:
    """For any values, every result is within its interval."""
    rate = PredictedRate(units_per_second=EstimateInterval.around(made, factor))
    faster = PredictedRate(units_per_second=EstimateInterval.around(2.0 * made, factor))
    found = bill(candidate(gpu, count, rate), prices=USUAL)
    more = bill(candidate(gpu, count + 1, rate), prices=USUAL)
    cheaper = bill(candidate(gpu, count, faster), prices=USUAL)

    for one, larger, smaller in zip(amounts(found), amounts(more), amounts(cheaper), strict=True):
        assert one.per_million is not None
        assert larger.per_million is not None
        assert smaller.per_million is not None
        for figure in (one.per_hour, one.per_million):
            assert figure.low <= figure.value * (1 + 1e-9)
            assert figure.value <= figure.high * (1 + 1e-9)
        assert larger.per_hour.value > one.per_hour.value
        assert larger.per_million.value > one.per_million.value > smaller.per_million.value


def amounts(found: Bill) -> Sequence[CostAmount]:
    """Dollars of every offer, and energy."""
    return [*(offer.dollars for offer in found.offers), found.kilowatt_hours]


def test_unpriced_board_has_energy_but_no_cost() -> None:
    """Unknown is not free."""
    found = bill(candidate("L4"))

    assert (found.offers, found.ownership) == ((), None)
    assert found.kilowatt_hours.per_hour.value > 0.0


def test_energy_is_counted_at_the_meter_and_never_beyond_the_limit() -> None:
    """Energy covers all GPUs, with their nodes and their building."""
    board = built_in().boards[H100]
    terms = PRICES.on_premises
    found = bill(candidate(), settings=CostSettings(serving_power_ratio=0.9)).kilowatt_hours
    beyond = terms.node_power_factor.value * terms.pue_ratio.value
    most = terms.node_power_factor.high * terms.pue_ratio.high

    assert found.per_hour.value == pytest.approx(2 * board_watts(board, 0.9) / 1e3 * beyond)
    assert found.per_hour.high == pytest.approx(2 * 0.7 * most)
    assert found.per_million is not None
    assert found.per_million.value == pytest.approx(found.per_hour.value / 3.6)


def test_a_node_that_is_known_goes_before_what_is_usual() -> None:
    """Its power has no range."""
    price = replace(PRICES.by_board[H100], node_power_factor=1.5)
    found = bill(candidate(count=1), prices=replace(PRICES, by_board={H100: price}))
    watts = board_watts(built_in().boards[H100], CostSettings().serving_power_ratio)

    expected = watts / 1e3 * 1.5 * PRICES.on_premises.pue_ratio.value
    assert found.kilowatt_hours.per_hour.value == pytest.approx(expected)


def test_carbon_is_told_where_somebody_tells_how_clean_a_kilowatt_hour_is() -> None:
    """The plan's value precedes the setting; 0 is a value, and a missing one gives no carbon."""
    settings = CostSettings(carbon_grams_per_kilowatt_hour=400.0)
    clean = Requirement(SMALL, carbon_grams_per_kilowatt_hour=0.0)

    assert bill(candidate()).carbon_kilograms is None
    found = bill(candidate(), settings=settings)
    assert found.carbon_kilograms is not None
    kilowatts = found.kilowatt_hours.per_hour.value
    assert found.carbon_kilograms.per_hour.value == pytest.approx(kilowatts * 0.4)
    assert found.carbon_kilograms.per_image is None
    none = bill(candidate(), clean, settings=settings)
    assert none.carbon_kilograms is not None
    assert none.carbon_kilograms.per_hour.value == 0.0


def test_every_candidate_of_a_plan_has_its_bill() -> None:
    """Rejected candidates and alternatives have one too; ranks use the same on-demand price."""
    plan = Planner(built_in(), USUAL).plan(
        Requirement(SMALL, load=RequestLoad(units_per_second=3000), gpus=("T4", H100))
    )
    training = Requirement(SMALL, ModelTask.TRAINING, training=Training(tokens=1e9), gpus=("T4",))
    nothing = Planner(built_in(), USUAL).plan(replace(training, parallel=Parallelism()))

    for each in (*plan.candidates, *(other.candidate for other in plan.alternatives)):
        assert each.bill is not None
        assert each.bill.offers[0].dollars.per_hour.value == pytest.approx(each.dollars_per_hour)
    assert nothing.least is not None
    assert nothing.least.bill is not None
    assert nothing.least.bill.offers[0].dollars.per_run is not None
