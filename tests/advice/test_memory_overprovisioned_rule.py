"""The rule for memory far too large for well-used GPUs."""

import pytest
from msgspec.structs import replace

from cases import case, window
from readings import HOUR, gpu, workload
from rightsizer.advice.rules.memory_overprovisioned import RULE
from rightsizer.model.finding import FindingKind, Reason
from rightsizer.model.state import Resource, State
from rightsizer.model.window import Window
from rightsizer.model.workload import Allocator, Workload, WorkloadClass

WEEK = 7 * 24.0


def used(compute: float, memory: float | None) -> Window:
    """A week of work."""
    demands = {Resource.COMPUTE: {compute: WEEK}}
    if memory is not None:
        demands[Resource.MEMORY] = {memory: WEEK}
    return window({State.PRODUCTIVE: WEEK}, demands)


@pytest.mark.parametrize(
    ("compute", "memory", "rest"),
    [
        (0.9, 0.6, "34% of the memory free."),
        (0.1, 0.1, "89% of the memory free, and as much of the rest: see overprovisioned."),
        (0.9, 0.1, "89% of the memory free; no cheaper board with less is as fast."),
    ],
)
def test_only_well_used_gpus_with_a_board_beside_them(
    compute: float, memory: float, rest: str
) -> None:
    """The rest belongs to another rule or none."""
    found = RULE.judge(
        case([used(compute, memory)], workload(workload_class=WorkloadClass.SERVING))
    )
    assert found.kind is FindingKind.OPTIMIZED
    assert found.summary == f"GPU 0: the largest need leaves {rest}"


def test_fullest_gpu_decides() -> None:
    """All GPUs of a workload are of one kind."""
    found = RULE.judge(case([used(0.9, 0.1), used(0.9, 0.6)], workload()))
    assert "leaves 34% of the memory free" in found.summary


@pytest.mark.parametrize(
    ("window_", "holder", "why"),
    [
        (used(0.9, None), workload(), "compute or memory use is not measured"),
        (
            used(0.9, 0.1),
            workload(allocator=Allocator.PREALLOCATING),
            "memory looks preallocated, so the memory needed is not known",
        ),
        (
            used(0.9, 0.1),
            workload(workload_class=WorkloadClass.UNKNOWN),
            "the workload's class is unknown; state it in a policy",
        ),
    ],
)
def test_unknown_memory_need_gives_no_verdict(window_: Window, holder: Workload, why: str) -> None:
    """Held memory is not needed memory, and not every workload may move."""
    found = RULE.judge(case([window_], holder))
    assert found.abstained == why
    assert found.reasons == (Reason.UNSUPPORTED_TELEMETRY,)


def test_little_activity_is_no_verdict() -> None:
    """Idle days are no demand to size by."""
    idle = window({State.PRODUCTIVE: 0.1, State.IDLE_HELD: WEEK})
    assert RULE.judge(case([idle], workload())).reasons == (Reason.INSUFFICIENT_DATA,)


def test_never_over_while_under() -> None:
    """Memory that ran short once is not too large."""
    pressed = replace(used(0.9, 0.1), pressed={Resource.MEMORY: round(WEEK) * HOUR})
    found = RULE.judge(case([pressed], workload(), [gpu()]))
    assert found.summary == "Under pressure, so not too large."
