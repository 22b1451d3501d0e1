"""Growth: number of each kind of GPU by month, and when to change the kind."""

from collections.abc import Sequence
from typing import Final

import pytest

from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.planner.candidate import CandidateFilter, PlanCandidate, Rejection
from rightsizer.planner.cost_blocks import growth_verdict
from rightsizer.planner.growth import (
    GrowingKind,
    GrowthOutlook,
    GrowthStep,
    growth_outlook,
    growth_steps,
)
from rightsizer.planner.planner import Planner
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.memory_estimate import MemoryEstimate
from rightsizer.sizing.requirement import LoadGrowth, Parallelism, Requirement
from sizing_models import published

HOURS: Final = 10.0


def kind(gpu: str, counts: Sequence[int], dollars: float | None = 1.0) -> GrowingKind:
    """A kind of GPU with a number for each month; 0 cannot hold the load."""
    steps = []
    for month, count in enumerate(counts):
        faults = () if count else (Rejection(CandidateFilter.THROUGHPUT, "too few"),)
        layout = Parallelism(data=count or 1)
        candidate = PlanCandidate(
            gpu, layout, MemoryEstimate(), 1.0, rejections=faults, gpu_dollars_per_hour=dollars
        )
        steps.append(GrowthStep(month, 1.0 + month, candidate))
    return GrowingKind(gpu, tuple(steps), HOURS)


def ahead(*kinds: GrowingKind, saving: float = 0.1) -> GrowthOutlook:
    """Outlook of the given kinds."""
    found = growth_outlook(kinds, saving)
    assert found is not None
    return found


def test_a_span_costs_what_each_of_its_months_does() -> None:
    """The last value is the state after the span, not a month of it."""
    grows = kind("A", [1, 2, 4], 3.0)

    assert grows.months == 2
    assert grows.dollars() == (1 + 2) * 3.0 * HOURS
    assert grows.dollars(1) == 2 * 3.0 * HOURS
    assert kind("B", [1, 2], None).dollars() is None


def test_steps_are_the_months_in_which_the_number_changes_and_the_last() -> None:
    """So is the first month that does not hold the load."""
    assert [step.month for step in growth_steps(kind("A", [1, 1, 2, 2, 2]))] == [0, 2, 4]
    assert [step.month for step in growth_steps(kind("A", [1, 1, 0, 0]))] == [0, 2, 3]


def test_no_change_is_due_while_todays_choice_stays_the_cheapest() -> None:
    """This covers the whole span and every month."""
    found = ahead(kind("A", [1, 2, 3]), kind("B", [2, 3, 4]))

    assert found.switch is None
    assert found.cheapest is not None
    assert found.cheapest.gpu == "A"
    assert found.outgrown is None


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ([2, 2, 3, 4, 4], "2 now, 3 from month 2, 4 from month 3"),
        ([2, 2, 2], "2 now hold all 2 months"),
    ],
)
def test_todays_choice_is_told_with_its_number_by_month(counts: list[int], text: str) -> None:
    """A buyer orders what the last month takes, not what today does."""
    verdict = growth_verdict(ahead(kind("A", counts)), "A")

    assert verdict == f"A stays the best choice: {text}."


def test_a_change_is_due_in_the_first_month_that_is_cheaper_and_stays_so() -> None:
    """An earlier change is not due, even if the rest of the span is cheaper in total."""
    today = kind("A", [1, 2, 8, 9, 10, 11])
    other = kind("B", [4, 4, 4, 4, 4, 4])
    found = ahead(today, other)

    assert found.switch is not None
    assert (found.switch.month, found.switch.gpu, found.switch.count) == (2, "B", 4)
    assert found.switch.dollars_saved == (8 + 9 + 10 - 3 * 4) * HOURS
    assert found.cheapest is not None
    assert found.cheapest.gpu == "B"


@pytest.mark.parametrize(("saving", "is_due"), [(0.2, True), (0.3, False)])
def test_a_change_has_to_save_enough(saving: float, *, is_due: bool) -> None:
    """Moving a service takes effort."""
    found = ahead(kind("A", [10, 12, 12, 12]), kind("B", [10, 9, 9, 9]), saving=saving)

    assert (found.switch is not None) == is_due


def test_outgrown_option_loses_to_the_longest_lasting() -> None:
    """Cost does not matter; the total of an outgrown kind is incomplete."""
    found = ahead(
        kind("A", [1, 0, 0, 0]), kind("B", [1, 2, 0, 0]), kind("C", [9, 9, 9, 9], dollars=None)
    )

    assert found.switch is not None
    assert (found.switch.month, found.switch.gpu) == (1, "C")
    assert found.switch.dollars_saved is None
    assert found.cheapest is None
    assert found.outgrown is None


def test_a_load_that_nothing_holds_in_the_end_is_reported() -> None:
    """The message has the last month of the last kind."""
    found = ahead(kind("A", [1, 2, 0, 0]), kind("B", [1, 0, 0, 0]))

    assert found.switch is None
    assert found.outgrown == 2


def test_nothing_grows_without_candidates() -> None:
    """No message is given."""
    assert growth_outlook((), 0.1) is None


def test_a_plan_looks_at_its_leading_candidates_month_by_month() -> None:
    """Each kind is planned for each month's load."""
    planner = Planner(built_in(), built_in_prices())
    growth = LoadGrowth(0.25, 8)
    names = ("L40S", "H100-SXM5-80GB", "H200-SXM-141GB")
    requirement = Requirement(
        published("Llama-3.1-8B"),
        load=RequestLoad(units_per_second=4000),
        growth=growth,
        gpus=names,
    )
    plan = planner.plan(requirement)

    assert plan.outlook is not None
    assert {each.gpu for each in plan.outlook.kinds} == set(names)
    for each in plan.outlook.kinds:
        assert each.months == growth.months
        counts = [step.candidate.count for step in each.steps]
        assert counts == sorted(counts)
    assert plan.outlook.cheapest is not None
    spans = [each.dollars() for each in plan.outlook.kinds]
    assert plan.outlook.cheapest.dollars() == min(span for span in spans if span is not None)
    assert plan.growth[0].candidate.gpu == plan.candidates[0].gpu
