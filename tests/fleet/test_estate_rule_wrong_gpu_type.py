"""GPU type rule: work on expensive boards that would fit free, cheaper ones."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from estate_views import H100, L40S, MARKET, growing, pool, steady, view, work
from rightsizer.fleet.model import FleetPool, FleetWorkload, WaitingWork
from rightsizer.fleet.rules.wrong_gpu_type import RULE
from rightsizer.model.finding import Action, Finding, Reason
from rightsizer.model.workload import Allocator, WorkloadClass, WorkloadKind

DEAR = pool("dear", steady(8.0), nodes=1)
CHEAP = pool("cheap", steady(4.0), nodes=2, each=4, board=L40S)


def judged(
    works: Iterable[FleetWorkload],
    cheap: FleetPool = CHEAP,
    waiting: Iterable[WaitingWork] = (),
) -> dict[str, Finding]:
    """The verdicts by workload."""
    of = view([DEAR, cheap], works, waiting)
    return {each.key: each for each in RULE.in_market(MARKET).judge(of)}


def light(at: int = 0, **facts: Any) -> FleetWorkload:
    """A service that uses a seventh of its H100."""
    usual: dict[str, Any] = {"compute": 0.15, "memory": 0.15, "first": at}
    return work(f"light-{at}", "dear", {"dear-0": 1}, **usual | facts)


def test_light_work_moves_to_what_stands_empty() -> None:
    """The savings are the difference of the boards' prices."""
    (found,) = judged([light()]).values()
    assert found.action is Action.CHANGE_GPU_TYPE
    assert found.summary == (
        "light-0 fits 1 x L40S of cheap, which were free, instead of 1 x H100-SXM5-80GB of dear."
    )
    assert found.savings.dollars_per_hour_low == pytest.approx(3.6 - 1.35)
    assert found.savings.dollars_per_hour_high == pytest.approx(4.4 - 1.65)
    assert "nvidia.com/gpu.product: NVIDIA-L40S" in found.instructions[0].text


def test_no_gpu_is_promised_twice() -> None:
    """Three GPUs are free for five candidates."""
    found = judged([light(at) for at in range(5)])
    assert sum(each.is_actionable for each in found.values()) == 3
    assert found["web/light-4"].summary.startswith("A cheaper board would do; those that stand")


@pytest.mark.parametrize(
    "facts",
    [
        {"workload_class": WorkloadClass.BATCH},
        {"workload_class": WorkloadClass.UNKNOWN},
        {"compute": 0.7},
        {"memory": 0.8},
        {"allocator": Allocator.PREALLOCATING},
    ],
    ids=["batch", "unknown class", "busy", "full", "preallocating"],
)
def test_workload_that_needs_its_board_keeps_it(facts: dict[str, Any]) -> None:
    """A batch job would only run longer, and unknown need is not estimated."""
    assert not any(each.is_actionable for each in judged([light(**facts)]).values())


def test_an_unknown_class_is_an_abstention() -> None:
    """The reason recommends stating the class in a policy."""
    (found,) = judged([light(workload_class=WorkloadClass.UNKNOWN)]).values()
    assert found.reasons == (Reason.UNSUPPORTED_TELEMETRY,)


@pytest.mark.parametrize(
    "cheap",
    [
        pool("cheap", steady(8.0), nodes=2, each=4, board=L40S),
        pool("cheap", growing(1.0, 0.4), nodes=2, each=4, board=L40S),
        pool("cheap", steady(4.0), nodes=2, each=4, board=H100),
        pool("cheap", steady(4.0), nodes=2, each=4, board=L40S, days=3),
        replace(CHEAP, board=None),
    ],
    ids=["full", "filling", "no cheaper", "new", "mixed"],
)
def test_there_must_be_room_that_lasts(cheap: FleetPool) -> None:
    """GPUs that were free only for a while are no target."""
    assert not any(each.is_actionable for each in judged([light()], cheap).values())


def test_room_that_is_waited_for_is_none() -> None:
    """Waiting work has priority on those GPUs."""
    waiting = [WaitingWork("ml/next", "cheap", 2.0)]
    assert not any(each.is_actionable for each in judged([light()], CHEAP, waiting).values())


def test_slurm_asks_for_the_other_partition() -> None:
    """The action depends on the kind of owner."""
    (found,) = judged([light(kind=WorkloadKind.SLURM)]).values()
    assert found.instructions[0].text == "#SBATCH --partition=cheap\n"
