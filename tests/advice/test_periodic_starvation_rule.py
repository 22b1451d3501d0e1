"""The rule for GPUs with pauses at a steady pace."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from cases import case, window
from readings import HOUR, workload
from recordings import START, replayed
from rightsizer.advice.engine import actionable
from rightsizer.advice.rules.periodic_starvation import RULE
from rightsizer.model.finding import Action, FindingKind, Reason
from rightsizer.model.state import Observation, State
from rightsizer.model.window import Window
from rightsizer.model.workload import WorkloadClass


def starved(busy: float = 0.25, hours: float = 6.0) -> Window:
    """Cycles of four seconds for the given time."""
    return window(
        {State.PRODUCTIVE: 6.0},
        cycles=hours * 900,
        cycle_seconds=hours * 3600.0,
        cycle_busy_seconds=hours * 3600.0 * busy,
    )


def test_a_starved_gpu_is_named_with_period_and_duty() -> None:
    """At most its pauses can be saved."""
    found = RULE.judge(case([starved()], workload()))
    assert found.kind is FindingKind.INEFFICIENT
    assert found.reasons == (Reason.PERIODIC_STARVATION,)
    assert found.action is Action.FIX_INPUT_PIPELINE
    assert found.summary == (
        "GPU 0 of llama: fed too little for 100% of the last 6 h, busy 25% of each 4 s."
    )
    assert (found.savings.gpus_low, found.savings.gpus_high) == (0.0, 0.75)


@pytest.mark.parametrize("fed", [starved(busy=0.8), starved(hours=2.0)])
def test_short_or_rare_pauses_are_no_finding(fed: Window) -> None:
    """Busy for most of each cycle, or in cycles for a third of the time."""
    assert not RULE.judge(case([fed], workload())).is_actionable


def test_a_service_works_as_its_requests_come() -> None:
    """It follows its requests."""
    server = workload(workload_class=WorkloadClass.SERVING)
    found = RULE.judge(case([starved()], server))
    assert not found.is_actionable
    assert "a service works as its requests come" in found.summary


@pytest.mark.parametrize(
    ("teeth", "expected"),
    [
        ((1.0, 0.0, 0.0, 0.0), "busy 25% of each 4 s"),
        ((0.06, 0.2, 0.34, 0.56), "busy 29% of each 4 s"),
        (tuple(at / 100 for at in range(101)), "busy 50% of each 1 min 41 s"),
    ],
)
def test_a_recording_of_periodic_starvation_is_a_finding(
    tmp_path: Path, teeth: tuple[float, ...], expected: str
) -> None:
    """Busy one second in four, or a saw-tooth: by utilization alone."""
    rows = "".join(f"{START + at},GPU-0,{teeth[at % len(teeth)]}\n" for at in range(3601))
    (tmp_path / "log.csv").write_text(f"timestamp,device,gpu_busy\n{rows}")
    found = {each.rule: each for each in actionable(replayed(tmp_path / "log.csv").findings)}

    assert "GPU-0: fed too little" in found["periodic_starvation"].summary
    assert expected in found["periodic_starvation"].summary


@pytest.mark.parametrize("seconds", [5, 15, 30])
def test_readings_too_far_apart_tell_nothing_of_cycles(tmp_path: Path, seconds: int) -> None:
    """They would show an aliased pace; invisible cycles give no verdict."""
    values = (1.0, 0.0, 0.0)
    rows = "".join(f"{START + at},GPU-0,{values[at % 3]}\n" for at in range(0, 7200, seconds))
    (tmp_path / "log.csv").write_text(f"timestamp,device,gpu_busy\n{rows}")
    (found,) = (
        finding
        for finding in replayed(tmp_path / "log.csv").findings
        if finding.rule == "periodic_starvation"
    )

    assert found.abstained is not None
    assert "utilization at least every 2 s" in found.abstained


def test_the_time_in_which_cycles_show_is_what_they_are_a_share_of() -> None:
    """An hour at one reading a second counts, whatever five hours at one a minute hid."""
    hour = starved(hours=1.0)
    coarse = replace(hour, observed={Observation.LOAD_CYCLES: HOUR})
    found = RULE.judge(case([coarse], workload()))

    assert "fed too little for 100% of 1 h in which it is seen" in found.summary
