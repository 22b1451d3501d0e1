"""Settings take effect in predictions."""

from typing import Final

import pytest
from msgspec.structs import replace

from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.planner import Planner
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.place import find_place
from rightsizer.sizing.requirement import LoadGrowth, ModelTask, Requirement, Training
from rightsizer.sizing.serving_settings import ServingModelSettings
from rightsizer.sizing.settings import CostSettings, MemorySettings, SizingSettings
from rightsizer.sizing.training_settings import TrainingSettings
from sizing_models import published

USUAL: Final = SizingSettings()
H100: Final = "H100-SXM5-80GB"
SERVING: Final = Requirement(
    published("Llama-3.1-8B"), load=RequestLoad(concurrency=16), gpus=(H100,)
)
TRAINING: Final = Requirement(
    published("Llama-3.1-8B"), ModelTask.FINETUNE_LORA, training=Training(tokens=1e9), gpus=(H100,)
)


def best(requirement: Requirement, settings: SizingSettings = USUAL) -> PlanCandidate:
    """The first in rank."""
    return Planner(built_in(), built_in_prices(), settings).plan(requirement).candidates[0]


def test_memory_settings_reach_memory_and_room() -> None:
    """Covers plans, and the places of projections."""
    own = MemorySettings(context_bytes=3e9, driver_reserved_bytes=2e9)
    found = best(SERVING, replace(USUAL, memory=own))
    usual = best(SERVING)

    assert found.memory.overhead_bytes - usual.memory.overhead_bytes > 2e9
    assert found.usable_bytes < usual.usable_bytes
    assert find_place(built_in(), H100, own).usable_bytes == found.usable_bytes


def test_serving_settings_reach_latencies() -> None:
    """A slower engine has more time between tokens."""
    own = ServingModelSettings(layer_seconds=1e-3)
    found = best(SERVING, replace(USUAL, serving=own))
    usual = best(SERVING)

    assert found.rate.tpot_ms is not None
    assert usual.rate.tpot_ms is not None
    assert found.rate.tpot_ms.value > 2 * usual.rate.tpot_ms.value


def test_the_accepted_share_of_proposed_tokens_reaches_rate_and_answer() -> None:
    """Unless a load has its own; the answer says how many a step makes."""
    load = RequestLoad(concurrency=16, speculative_tokens=2)
    asked = replace(SERVING, load=load)
    own = replace(USUAL, serving=ServingModelSettings(token_acceptance_ratio=0.5))
    plans = [Planner(built_in(), built_in_prices(), each).plan(asked) for each in (own, USUAL)]
    lower, usual = (plan.requirement.load.tokens_per_step for plan in plans)
    stated = replace(asked, load=replace(load, acceptance_ratio=0.6))

    assert (lower, usual) == (pytest.approx(1.75), pytest.approx(2.3125))
    rates = [plan.candidates[0].rate.units_per_second for plan in plans]
    assert rates[0] is not None
    assert rates[1] is not None
    assert rates[0].value < 0.85 * rates[1].value
    assert best(stated, own).rate == best(stated).rate


def test_training_settings_reach_the_rate() -> None:
    """A slower framework trains fewer tokens."""
    own = TrainingSettings(linear_ratio=0.4)
    found = best(TRAINING, replace(USUAL, training=own))
    usual = best(TRAINING)

    assert found.rate.units_per_second is not None
    assert usual.rate.units_per_second is not None
    assert found.rate.units_per_second.value < usual.rate.units_per_second.value


def test_cost_settings_reach_the_bill() -> None:
    """By default training draws more than serving."""
    own = CostSettings(training_power_ratio=0.1)
    found = best(TRAINING, replace(USUAL, cost=own)).bill
    usual = best(TRAINING).bill

    assert found is not None
    assert usual is not None
    assert found.kilowatt_hours.per_hour.value < 0.5 * usual.kilowatt_hours.per_hour.value


def test_plan_settings_say_how_many_kinds_are_followed_through_growth() -> None:
    """One kind is enough if no change is wanted."""
    requirement = replace(SERVING, gpus=("L40S", H100), growth=LoadGrowth(0.1, 2))
    own = replace(USUAL, plan=replace(USUAL.plan, growth_candidates=1))
    plan = Planner(built_in(), built_in_prices(), own).plan(requirement)

    assert plan.outlook is not None
    assert [kind.gpu for kind in plan.outlook.kinds] == [plan.candidates[0].gpu]
