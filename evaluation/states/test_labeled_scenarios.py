"""Labeled scenarios: their coverage, and the promised scores."""

from pathlib import Path
from typing import Final

import pytest

from evaluation.options import FIRST_SCORED_SEED, SCENARIOS
from evaluation.states.baselines import BASELINES
from evaluation.states.scenario_scores import judge
from evaluation.states.scores import OURS, Scores
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.state import ACTIVE_STATES, Condition, Tier
from rightsizer.simulator.scenario import SimulatedScenario
from rightsizer.simulator.scenario_reader import load_scenario

FILES: Final = sorted(SCENARIOS.glob("*.yaml"))
TICK: Final = 2401
FOLLOWING_FROM_PHYSICS: Final = {
    Condition.POWER_THROTTLED,
    Condition.THERMAL_THROTTLED,
    Condition.HARDWARE_SLOWDOWN,
    Condition.PCIE_LINK_DEGRADED,
    Condition.NEAR_OUT_OF_MEMORY,
}
BOARDS: Final = ("V100", "T4", "A100", "L4", "L40S", "H100", "H200", "B200", "RTX4090")


def loaded() -> dict[str, SimulatedScenario]:
    """All of them by the name of the file."""
    catalogue = built_in()
    return {file.stem: load_scenario(str(file), catalogue) for file in FILES}


def test_there_are_enough_and_each_says_what_it_is_about() -> None:
    """A file has its scenario's name, and begins with a comment for readers."""
    scenarios = loaded()

    assert len(scenarios) >= 24
    assert all(name == scenario.name for name, scenario in scenarios.items())
    assert all(file.read_text(encoding="utf-8").startswith("# ") for file in FILES)


def test_together_they_have_every_state_condition_and_kind_of_board() -> None:
    """Idle time occurs wherever a workload does not run or has nothing to do."""
    phases = [
        phase for scenario in loaded().values() for task in scenario.tasks for phase in task.phases
    ]
    conditions = frozenset().union(*(phase.conditions for phase in phases))
    boards = {slot.board.key for scenario in loaded().values() for slot in scenario.slots}

    assert {phase.state for phase in phases} >= ACTIVE_STATES
    assert conditions >= set(Condition) - FOLLOWING_FROM_PHYSICS
    assert all(any(key.startswith(kind) for key in boards) for kind in BOARDS)


@pytest.fixture(scope="module")
def scores() -> Scores:
    """A day of each with a seed outside the tuning."""
    return Scores.total(judge(file, FIRST_SCORED_SEED, TICK, is_varied=True) for file in FILES)


def test_no_work_is_called_idle(scores: Scores) -> None:
    """This holds on every tier, however little of the work is visible."""
    for tier in (Tier.PROFILING, Tier.POWER, Tier.BASIC):
        assert scores.confusions[OURS, tier, False].false_idle == 0


def test_the_promised_scores_hold(scores: Scores) -> None:
    """Macro-F1 covers the states that a tier can distinguish."""
    assert scores.confusions[OURS, Tier.PROFILING, False].macro_f1 >= 0.95
    assert scores.confusions[OURS, Tier.POWER, False].macro_f1 >= 0.85


@pytest.mark.parametrize("name", BASELINES)
def test_the_rules_of_others_are_outdone(scores: Scores, name: str) -> None:
    """This holds with and without disturbance, and by the cost of an error too."""
    for tier in (Tier.PROFILING, Tier.POWER):
        for is_disturbed in (False, True):
            ours = scores.confusions[OURS, tier, is_disturbed]
            assert ours.macro_f1 > scores.confusions[name, tier, is_disturbed].macro_f1
    ours_per_day, theirs_per_day = (
        scores.false_idle_seconds_per_day(who, is_disturbed=False) for who in (OURS, name)
    )
    assert ours_per_day < theirs_per_day


def test_nothing_is_said_of_a_gpu_that_is_away(scores: Scores) -> None:
    """Neither a lost GPU nor a MIG instance without visible activity has a state."""
    assert scores.invented == 0
    assert scores.rightly_unknown > 0
    assert scores.abstained > 0


def test_the_same_seed_scores_the_same() -> None:
    """They are equal to the last second."""
    file = SCENARIOS / "noisy-neighbor.yaml"
    once, again = (judge(file, 7, TICK, is_varied=True) for _ in range(2))

    assert _rows(once) == _rows(again)
    assert _rows(once) != _rows(judge(Path(file), 8, TICK, is_varied=True))


def _rows(scores: Scores) -> list[tuple[object, ...]]:
    return [
        (key, *confusion.score_rows(), *confusion.mistakes(99))
        for key, confusion in scores.confusions.items()
    ]
