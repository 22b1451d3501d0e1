"""Alternatives to a GPU offered by rules, projected and priced."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from block_cases import case_of, steady
from cases import case, histogram, window
from readings import GIBIBYTE, HOUR, gpu, workload
from rightsizer.advice.market import Market, MarketSettings
from rightsizer.advice.rules import (
    hidden_stall,
    idle,
    memory_overprovisioned,
    near_out_of_memory,
    overprovisioned,
    sharing,
)
from rightsizer.catalogue.prices import OnDemand, Price, Prices
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.model.finding import Action, Case, Finding, Node, Option, Reason
from rightsizer.model.state import Condition, Resource, State, Tier
from rightsizer.model.window import Window
from rightsizer.model.workload import WorkloadClass

SERVICE = workload("chat", WorkloadClass.SERVING)
WEEKS = 14 * 24
H100 = "H100-SXM5-80GB"


def prices(**dollars: float) -> Prices:
    """Verified list prices by board; underscores in names stand for hyphens."""
    usual = built_in_prices()
    return Prices(
        {
            key.replace("_", "-"): Price(
                key.replace("_", "-"),
                on_demand=OnDemand(dollar, dollar * 0.9, dollar * 1.1),
                dates=("2026-08",),
                sources=("our contract",),
            )
            for key, dollar in dollars.items()
        },
        usual.on_premises,
        usual.reserved_terms,
    )


MARKET = Market(prices=prices(H100_SXM5_80GB=4.0, L40S=1.5, L4=0.5, H200_SXM_141GB=5.0))


def used(busy: float = 0.5, **facts: Any) -> Window:
    """Two weeks, active part of the time, with all profiling signals."""
    hours = WEEKS * busy
    demands: Mapping[Resource, Mapping[float, float]] = {
        Resource.COMPUTE: {0.15: hours},
        Resource.MEMORY: {0.15: WEEKS},
        Resource.MEMORY_BANDWIDTH: {0.15: hours},
        Resource.PCIE: {0.05: hours},
        Resource.NVLINK: {0.0: hours},
    }
    usual = {
        "compute_at_least": histogram({0.1: hours}),
        "energy_joules": 200.0 * WEEKS * 3600,
    }
    states = {State.PRODUCTIVE: hours, State.IDLE_HELD: WEEKS - hours}
    return window(states, demands, **usual | facts)


def judged(found: Case, market: Market = MARKET) -> Finding:
    """The verdict of the overprovisioned rule."""
    return overprovisioned.RULE.in_market(market).judge(found)


def shared(found: Case, market: Market = MARKET) -> Finding:
    """The verdict of the sharing rule."""
    return sharing.RULE.in_market(market).judge(found)


def offered(finding: Finding, action: Action) -> list[Option]:
    """The options of one kind."""
    return [option for option in finding.options if option.action is action]


def test_a_move_names_boards_that_can_be_had() -> None:
    """Those of the fleet, and of the cloud that its nodes are rented from."""
    market = Market(prices=built_in_prices())
    board = market.catalogue.boards["H100-SXM5-80GB"]
    alone = replace(market, offered=frozenset({board.key, "L4"}))
    rented = alone.near("aws")
    assert [each.key for each in alone.others(board)] == ["L4"]
    names = {each.key for each in rented.others(board)}
    assert {"A10G", "L4"} <= names < {each.key for each in market.others(board)}
    named = replace(market.settings, boards=("L40S",))
    assert [each.key for each in replace(rented, settings=named).others(board)] == ["L40S"]


def test_prices_are_those_of_the_cloud() -> None:
    """Where it lists the board; the operator's own prices remain."""
    market = Market(prices=built_in_prices())
    board = market.board("V100-SXM2-16GB")
    costs = [each.cost(board) for each in (market, market.near("aws"), market.near("coreweave"))]
    usual, near, other = (cost.dollars_per_hour for cost in costs if cost is not None)
    assert (near.low, near.value, near.high) == (3.06, 3.06, 3.06)
    assert other == usual
    assert usual.low < near.low
    assert market.prices is not None
    own = market.prices.with_stated({"V100-SXM2-16GB": 1.0}, "contract")
    cost = replace(market, prices=own).near("aws").cost(board)
    assert cost is not None
    assert cost.dollars_per_hour.value == 1.0


def test_slices_tell_slowdown_use_and_price() -> None:
    """The rest of the GPU saves something once another workload uses it."""
    option = offered(shared(case([used()], SERVICE)), Action.SHARE_MIG)[0]
    assert option.target == "2g.20gb"
    assert option.fits is True
    assert option.time_ratio is not None
    assert option.time_ratio_low is not None
    assert option.time_ratio_high is not None
    assert 1.0 < option.time_ratio_low < option.time_ratio < option.time_ratio_high
    assert option.utilization["gpu_busy"] > 0.5
    assert option.dollars_per_hour_low == pytest.approx(4.0 * 0.9 / 3)
    assert option.savings is not None
    assert option.savings.gpus_low == 0.0
    assert option.savings.gpus_high == pytest.approx(2 / 3, abs=0.001)


def test_smaller_boards_are_cheaper_and_hold_the_need() -> None:
    """An L4 is too small in everything; an H200 is no smaller."""
    options = offered(judged(case([used()], SERVICE)), Action.CHANGE_GPU_TYPE)
    assert [option.target for option in options] == ["L40S"]
    (option,) = options
    assert option.savings is not None
    assert option.savings.dollars_per_hour_low == pytest.approx(0.9 * 2.5)
    assert option.savings.dollars_per_hour_high == pytest.approx(1.1 * 2.5)
    assert option.savings.gpus_low == option.savings.gpus_high == 0.0
    assert option.savings.price_source == "our contract"
    assert option.savings.price_date == "2026-08"


def test_slowdown_beyond_what_is_tolerated_is_no_offer() -> None:
    """The tolerance is a setting, as are the boards considered."""
    strict = replace(MARKET, settings=MarketSettings(tolerated_slowdown_ratio=1.1))
    assert offered(judged(case([used()], SERVICE), strict), Action.CHANGE_GPU_TYPE) == []
    named = replace(MARKET, settings=MarketSettings(boards=("L4",)))
    assert offered(judged(case([used()], SERVICE), named), Action.CHANGE_GPU_TYPE) == []


def test_without_prices_there_is_no_money() -> None:
    """Boards of less power are offered and GPUs counted, without dollars."""
    found = judged(case([used()], SERVICE), Market())
    for option in found.options:
        assert option.dollars_per_hour_low is None
        assert option.savings is not None
        assert option.savings.dollars_per_hour_high is None
        assert option.savings.reason == "no price is stated"
    assert offered(found, Action.CHANGE_GPU_TYPE)


def test_low_confidence_speaks_of_no_savings() -> None:
    """A day says little about a week."""
    hours = 24.0
    short = replace(used(), states={State.PRODUCTIVE: round(hours * HOUR)})
    found = judged(case([short], SERVICE))
    assert found.is_actionable
    assert found.confidence < 0.5
    assert found.savings.gpus_high is None
    assert "confidence" in found.savings.reason
    assert all(option.savings == found.savings for option in found.options)


def test_a_partner_tells_what_sharing_costs() -> None:
    """Both fit, with hardly any slowdown."""
    course = steady(0.5, compute=0.1, memory=0.15, memory_bytes=12 * GIBIBYTE)
    cases = [
        case_of(
            [course],
            14,
            workload(name, WorkloadClass.SERVING),
            devices=[gpu(index)],
            windows=[used()],
        )
        for index, name in enumerate(("chat", "rank"))
    ]
    found = shared(replace(cases[0], node=Node(cases=tuple(cases))))
    (option,) = offered(found, Action.SHARE_MPS)
    assert option.target == "slurm/rank"
    assert option.fits is True
    assert option.time_ratio == pytest.approx(1.0, abs=0.05)
    assert option.savings is not None
    assert option.savings.gpus_low == 0.0
    assert option.savings.gpus_high == 0.5


def test_memory_far_too_large_is_offered_less_of_it() -> None:
    """Also to a job: the board is as fast and costs less."""
    well_used = replace(
        used(1.0),
        demands={**used(1.0).demands, Resource.COMPUTE: histogram({0.9: WEEKS})},
    )
    market = replace(MARKET, prices=prices(H200_SXM_141GB=5.0, H100_SXM5_80GB=4.0))
    rule = memory_overprovisioned.RULE.in_market(market)
    h200 = gpu(board="H200-SXM-141GB", memory_total_bytes=141e9)
    found = rule.judge(case([well_used], workload(), [h200]))
    assert found.reasons == (Reason.GPU_MEMORY_OVERPROVISIONED,)
    assert found.action is Action.CHANGE_GPU_TYPE
    assert [option.target for option in found.options] == ["H100-SXM5-80GB"]
    # No board on sale is as fast with less memory.
    assert not rule.judge(case([well_used], workload())).is_actionable


@pytest.mark.parametrize("tier", [Tier.POWER, Tier.BASIC])
def test_option_without_supporting_telemetry_is_not_projected(tier: Tier) -> None:
    """Slices depend on the need alone; no other board is named."""
    coarse = replace(used(), tiers={tier: WEEKS * HOUR})
    assert judged(case([coarse], SERVICE)).options == ()
    found = shared(case([coarse], SERVICE))
    assert {option.action for option in found.options} == {Action.SHARE_MIG}
    assert all(option.time_ratio is None for option in found.options)


@pytest.mark.parametrize("kind", [WorkloadClass.BATCH, WorkloadClass.UNKNOWN])
def test_one_who_would_only_run_longer_is_offered_nothing(kind: WorkloadClass) -> None:
    """The same holds for an unknown class."""
    assert judged(case([used()], workload("job", kind))).options == ()


def test_saving_of_idle_gpus_is_what_they_cost() -> None:
    """GPUs, hours, energy and money."""
    lazy = window({State.IDLE_HELD: 99.5, State.PRODUCTIVE: 0.5}, energy_joules=3.6e7)
    found = idle.RULE.in_market(MARKET).judge(case([lazy, lazy], SERVICE))
    savings = found.savings
    low = savings.gpus_low
    high = savings.gpus_high
    assert low is not None
    assert high is not None
    assert (low, high) == (2.0, 2.0)
    assert savings.dollars_per_hour_low == pytest.approx(low * 4.0 * 0.9, rel=1e-3)
    assert savings.dollars_per_hour_high == pytest.approx(high * 4.0 * 1.1, rel=1e-3)
    assert savings.kilowatt_hours_per_month_high == pytest.approx(high * 0.1 * 730, rel=1e-3)
    assert found.options[0].action is found.action is Action.SCALE_TO_ZERO


def test_a_stall_may_cost_up_to_its_time() -> None:
    """The recoverable part is unknown."""
    stalled = window({State.HIDDEN_STALL: 40.0, State.PRODUCTIVE: 60.0})
    savings = hidden_stall.RULE.in_market(MARKET).judge(case([stalled], SERVICE)).savings
    assert savings.gpus_low == 0.0
    assert savings.gpus_high == pytest.approx(0.4)
    assert savings.kilowatt_hours_per_month_high is None


def test_full_memory_is_offered_more_of_it() -> None:
    """Boards that are no slower; also for a batch job, which would fail otherwise."""
    full = replace(
        used(),
        demands={**used().demands, Resource.MEMORY: histogram({1.0: WEEKS})},
        conditions={Condition.NEAR_OUT_OF_MEMORY: WEEKS * HOUR},
    )
    rule = near_out_of_memory.RULE.in_market(MARKET)
    found = rule.judge(case([full], workload()))
    assert found.options[0].target == "H200-SXM-141GB"
    assert found.options[0].savings is not None
    assert found.options[0].savings.dollars_per_hour_high == pytest.approx(-0.9)
    assert found.savings.gpus_low is None
    assert rule.judge(case([full], workload("x", WorkloadClass.UNKNOWN))).options == ()


def test_boards_nobody_knows_have_no_price() -> None:
    """There are no savings in money, but the GPU counts."""
    lazy = window({State.IDLE_HELD: 100.0})
    found = idle.RULE.in_market(MARKET).judge(case([lazy], SERVICE, [gpu(board=None)]))
    assert found.savings.gpus_high == 1.0
    assert found.savings.dollars_per_hour_low is None
