"""Number of GPUs of a plan; MIG slices are not joined."""

from typing import Final

import pytest

from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.planner.candidate import CandidateFilter
from rightsizer.planner.planner import Planner
from rightsizer.sizing.load import RequestLoad
from rightsizer.sizing.requirement import ModelTask, Parallelism, Requirement, Training
from rightsizer.sizing.settings import PlanSettings
from sizing_models import published

PLANNER: Final = Planner(built_in(), built_in_prices())
SMALL: Final = published("Llama-3.1-8B")
H100: Final = "H100-SXM5-80GB"


def test_slices_are_replicated_and_never_joined() -> None:
    """A process sees one slice; a model that does not fit one does not fit two."""
    small = f"{H100}:1g.10gb"
    large = f"{H100}:3g.40gb"
    plan = PLANNER.plan(
        Requirement(SMALL, load=RequestLoad(units_per_second=4000.0), gpus=(small, large))
    )

    best, other = plan.candidates
    assert best.gpu == large
    assert best.layout.data == best.count > 1
    assert other.rejections[0].by is CandidateFilter.MEMORY
    assert other.layout.tensor == other.layout.pipeline == 1
    assert all(
        alternative.candidate.layout.tensor * alternative.candidate.layout.pipeline == 1
        for alternative in plan.alternatives
    )


@pytest.mark.parametrize("task", [ModelTask.INFERENCE, ModelTask.TRAINING])
def test_slices_that_a_given_layout_joins_are_refused(task: ModelTask) -> None:
    """Slow links may be chosen, but slices have none."""
    joined = Parallelism(tensor=2)
    plan = PLANNER.plan(Requirement(SMALL, task, parallel=joined, gpus=(f"{H100}:7g.80gb",)))

    (why, *_) = plan.candidates[0].rejections
    assert why.by is CandidateFilter.LAYOUT
    assert "2 slices of MIG cannot be joined" in str(why)


def test_training_takes_one_slice() -> None:
    """Replicas exchange gradients, which slices cannot."""
    state = Training(zero_stage=3)
    plan = PLANNER.plan(
        Requirement(SMALL, ModelTask.TRAINING, training=state, gpus=(f"{H100}:3g.40gb",))
    )

    assert plan.candidates[0].count == 1
    assert not plan.candidates[0].fits


@pytest.mark.parametrize("requests", [1e7, 1e12])
def test_no_more_gpus_are_proposed_than_the_setting_says(requests: float) -> None:
    """For many concurrent requests, memory is reported as insufficient."""
    plan = PLANNER.plan(
        Requirement(SMALL, load=RequestLoad(concurrency=requests), gpus=("L4", H100))
    )

    most = PlanSettings().gpu_maximum
    assert all(candidate.count <= most for candidate in plan.candidates)
    assert all(
        candidate.fits or candidate.rejections[0].by is CandidateFilter.MEMORY
        for candidate in plan.candidates
    )
    assert plan.best is None
