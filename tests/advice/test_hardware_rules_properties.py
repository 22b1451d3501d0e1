"""Invariants of the rules on hardware, power and placement for any input."""

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import case, window
from readings import HOUR, workload
from rightsizer.advice.instructions import drain_instructions
from rightsizer.advice.rules import (
    hardware_unhealthy,
    numa_misplaced,
    nvlink_absent,
    pcie_link_degraded,
    power_cap,
    power_throttled,
    thermal_throttled,
)
from rightsizer.advice.rules.rule import Rule
from rightsizer.model.finding import Case
from rightsizer.model.signal import Signal
from rightsizer.model.state import Condition, State
from rightsizer.model.topology import Placement
from rightsizer.model.workload import Workload, WorkloadKind
from standing_cases import around, held, joined, ranged

RULES: Final[tuple[Rule[Any], ...]] = (
    power_throttled.RULE,
    thermal_throttled.RULE,
    power_cap.RULE,
    pcie_link_degraded.RULE,
    numa_misplaced.RULE,
    nvlink_absent.RULE,
    hardware_unhealthy.RULE,
)
JOB = workload()
CONDITIONS = (
    Condition.POWER_THROTTLED,
    Condition.THERMAL_THROTTLED,
    Condition.HARDWARE_SLOWDOWN,
    Condition.PCIE_LINK_DEGRADED,
    Condition.NUMA_MISPLACED,
)
STATES = (State.COMPUTE_BOUND, State.MEMORY_BANDWIDTH_BOUND, State.PRODUCTIVE, State.IDLE_HELD)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        Signal.POWER_LIMIT_WATTS: st.sampled_from([400.0, 560.0, 700.0, None]),
        Signal.PCIE_LINK_WIDTH: st.sampled_from([4.0, 16.0, None]),
        Signal.CLOCK_EVENT_REASONS: st.sampled_from([0.0, 4.0, 32.0, 128.0, None]),
        Signal.HOST_MEMORY_LOCAL: st.sampled_from([0.0, 1.0]),
        Signal.RECOVERY_ACTION: st.sampled_from([0.0, 1.0]),
        Signal.NVLINK_LINKS_UP: st.sampled_from([16.0, 18.0]),
    },
)


@st.composite
def nodes(draw: st.DrawFn) -> Case:
    """A job on GPUs 0 and 1 of three, with any trouble."""
    windows = []
    for _ in range(2):
        states = {state: draw(st.floats(0.0, 5.0)) for state in STATES}
        known = sum(states.values())
        windows.append(
            window(
                states,
                conditions={
                    condition: round(draw(st.floats(0.0, 1.0)) * known * HOUR)
                    for condition in CONDITIONS
                },
                energy_joules=draw(st.floats(0.0, 700.0)) * known * 3600,
            )
        )
    judged = case(windows, JOB, [ranged(0), ranged(1)])
    placements = {f"GPU-{index}": Placement(f"GPU-{index}", numa_node=1) for index in range(3)}
    return around(
        judged,
        {device.uuid: draw(VALUES) for device in judged.devices},
        others=(ranged(2),),
        topology=joined({}, 3, placements=placements),
        holdings=held(JOB, 0, 1),
    )


@given(nodes(), st.floats(0.0, 20.0))
def test_unknown_time_never_creates_advice(judged: Case, hours: float) -> None:
    """Unobserved time proves nothing."""
    hazy = replace(
        judged,
        windows=tuple(
            replace(
                each,
                start=each.start - round(hours * HOUR),
                states={**each.states, State.UNKNOWN: round(hours * HOUR)},
            )
            for each in judged.windows
        ),
    )
    for rule in RULES:
        clear = rule.judge(judged)
        unclear = rule.judge(hazy)
        assert clear.is_actionable or not unclear.is_actionable
        assert unclear.confidence <= clear.confidence or not unclear.is_actionable


@given(nodes())
def test_permuting_gpus_permutes_the_advice(judged: Case) -> None:
    """Ids, confidence, severity and the named GPUs do not change."""
    turned = replace(
        judged,
        devices=judged.devices[::-1],
        windows=judged.windows[::-1],
        provisioning=judged.provisioning[::-1],
    )
    for rule in RULES:
        one = rule.judge(judged)
        other = rule.judge(turned)
        assert (one.id, one.confidence, one.severity) == (
            other.id,
            other.confidence,
            other.severity,
        )
        assert set(one.culprits) == set(other.culprits)
        assert sorted(instruction.title for instruction in one.instructions) == sorted(
            instruction.title for instruction in other.instructions
        )


@given(nodes())
def test_the_same_input_gives_the_same_words(judged: Case) -> None:
    """Byte for byte; a finding has an action, its evidence and a confidence."""
    for rule in RULES:
        found = rule.judge(judged)
        assert repr(found) == repr(rule.judge(judged))
        if found.is_actionable:
            assert found.instructions
            assert found.evidence
            assert 0.0 < found.confidence < 1.0
            assert found.summary.endswith(".")


@given(nodes())
def test_without_a_node_no_rule_guesses(judged: Case) -> None:
    """From a history only heat is reported, which was seen in it."""
    for rule in RULES:
        if rule is not thermal_throttled.RULE:
            assert not rule.judge(replace(judged, node=None)).is_actionable


@pytest.mark.parametrize(
    ("kind", "tools"),
    [
        (WorkloadKind.KUBERNETES, {"kubectl"}),
        (WorkloadKind.SLURM, {"scontrol"}),
        (WorkloadKind.SESSION, {"kubectl", "scontrol"}),
    ],
)
def test_draining_and_its_end_are_two_instructions(kind: WorkloadKind, tools: set[str]) -> None:
    """Pasting the first must not undo it at once."""
    judged = case([window({State.PRODUCTIVE: 1})], Workload("a/b", kind, "b"))
    texts = [instruction.text for instruction in drain_instructions(judged, "why")]
    assert {
        tool for tool in ("kubectl", "scontrol") if any(tool in text for text in texts)
    } == tools
    assert not any("drain" in text.lower() and "uncordon" in text for text in texts)
    assert not any("DRAIN" in text and "RESUME" in text for text in texts)
