"""Findings of one workload do not contradict each other."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import judgement
from rightsizer.advice.engine import without_conflicts
from rightsizer.advice.rules.rule import Judgement
from rightsizer.model.finding import Action, FindingKind, Reason


def said(rule: str, kind: FindingKind, reason: Reason, action: Action, **facts: Any) -> Judgement:
    """A finding that may become advice."""
    return judgement(id=rule, rule=rule, kind=kind, reasons=(reason,), action=action, **facts)


IDLE = said("idle", FindingKind.IDLE, Reason.IDLE_HELD, Action.RELEASE)
STALL = said(
    "hidden_stall",
    FindingKind.INEFFICIENT,
    Reason.HIDDEN_STALL,
    Action.INVESTIGATE_STRAGGLER,
)
HOST = said("host_bound", FindingKind.INEFFICIENT, Reason.HOST_BOUND, Action.FIX_INPUT_PIPELINE)
OVER = said(
    "overprovisioned",
    FindingKind.OVERPROVISIONED,
    Reason.GPU_OVERPROVISIONED,
    Action.CHANGE_GPU_TYPE,
)
COUNT = said(
    "gpu_count",
    FindingKind.OVERPROVISIONED,
    Reason.GPU_COUNT_OVERPROVISIONED,
    Action.REDUCE_GPU_COUNT,
)
AUTOSCALE = said(
    "diurnal_autoscale",
    FindingKind.OVERPROVISIONED,
    Reason.DIURNAL_AUTOSCALE,
    Action.AUTOSCALE,
)
UNDER = said(
    "near_out_of_memory",
    FindingKind.UNDERPROVISIONED,
    Reason.GPU_MEMORY_UNDERPROVISIONED,
    Action.CHANGE_GPU_TYPE,
)
SERVED = said(
    "served",
    FindingKind.UNDERPROVISIONED,
    Reason.GPU_UNDERPROVISIONED,
    Action.ADD_GPUS,
)
SHORT = said(
    "underprovisioned",
    FindingKind.UNDERPROVISIONED,
    Reason.GPU_UNDERPROVISIONED,
    Action.AUTOSCALE,
)
ALL = (IDLE, STALL, HOST, OVER, COUNT, AUTOSCALE, UNDER)


def opening(judgements: Sequence[Judgement]) -> set[str]:
    """The rules with findings that may still become advice."""
    return {
        conflict.finding.rule for conflict in without_conflicts(judgements) if conflict.may_open
    }


@pytest.mark.parametrize(
    ("judgements", "expected"),
    [
        ((OVER, UNDER), {"near_out_of_memory"}),
        ((IDLE, HOST, OVER), {"idle"}),
        ((IDLE, UNDER), {"idle", "near_out_of_memory"}),
        ((IDLE, STALL), {"hidden_stall"}),
        # Idleness without a finding suppresses nothing.
        ((IDLE, STALL, HOST), {"hidden_stall", "host_bound"}),
        ((AUTOSCALE, COUNT, OVER), {"diurnal_autoscale", "overprovisioned"}),
        ((OVER, HOST), {"overprovisioned", "host_bound"}),
        # A plan of the engine knows what it needs.
        ((SHORT, SERVED, OVER), {"served"}),
        ((UNDER, SERVED), {"near_out_of_memory", "served"}),
        (ALL, {"hidden_stall", "host_bound", "near_out_of_memory"}),
    ],
)
def test_one_finding_holds_back_another(
    judgements: Sequence[Judgement], expected: set[str]
) -> None:
    """A stall precedes idleness, idleness precedes size, 'under' precedes 'over'."""
    assert opening(judgements) == expected


def test_conflicting_finding_names_what_suppresses_it_and_closes() -> None:
    """The suppression is explained, and earlier advice closes."""
    (over, _) = without_conflicts((OVER, UNDER))

    assert over.finding.evidence["held_back"] == "near_out_of_memory (GpuMemoryUnderprovisioned)"
    assert over.finding.is_actionable
    assert (over.may_open, over.still_holds, over.has_conflict) == (False, False, True)


def test_finding_that_is_over_suppresses_nothing() -> None:
    """A finding of the long span without support in the last minutes is history."""
    gone = judgement(
        id="u",
        rule="near_out_of_memory",
        kind=FindingKind.UNDERPROVISIONED,
        may_open=False,
        still_holds=False,
    )
    assert opening((OVER, gone)) == {"overprovisioned"}


def test_workloads_do_not_speak_for_each_other() -> None:
    """Another's shortage is no reason to keep a GPU that is too large."""
    other = said(
        "near_out_of_memory",
        FindingKind.UNDERPROVISIONED,
        Reason.GPU_MEMORY_UNDERPROVISIONED,
        Action.CHANGE_GPU_TYPE,
        key="slurm/other",
    )
    assert opening((OVER, other)) == {"overprovisioned", "near_out_of_memory"}


def test_only_one_of_several_sizes_can_be_chosen() -> None:
    """They share a group; other workloads and other kinds of action do not."""
    other = said("idle", FindingKind.IDLE, Reason.IDLE_HELD, Action.RELEASE, key="slurm/other")
    groups = [
        conflict.finding.exclusive_group
        for conflict in without_conflicts((OVER, COUNT, HOST, other))
    ]

    assert groups[0] == groups[1]
    assert groups[0] is not None
    assert groups[2] is None
    assert groups[3] not in (None, groups[0])


@given(
    st.lists(st.sampled_from(ALL), unique_by=lambda each: each.finding.rule).flatmap(
        lambda chosen: st.tuples(st.just(chosen), st.permutations(chosen))
    )
)
def test_the_order_of_the_rules_does_not_matter(
    pair: tuple[list[Judgement], list[Judgement]],
) -> None:
    """Each finding has the same outcome and place; 'over' never appears beside 'under'."""
    one, other = pair
    settled = without_conflicts(one)
    assert sorted(settled, key=_rule) == sorted(without_conflicts(other), key=_rule)
    assert [each.finding.rule for each in settled] == [each.finding.rule for each in one]
    kinds = {each.finding.kind for each in settled if each.may_open}
    assert not kinds >= {FindingKind.OVERPROVISIONED, FindingKind.UNDERPROVISIONED}
    assert without_conflicts(settled) == settled


def _rule(judged: Judgement) -> str:
    return judged.finding.rule


@pytest.mark.parametrize(
    ("reasons", "rules"),
    [
        ((Reason.GPU_UNDERPROVISIONED, Reason.COMPUTE_SATURATED), {"compute_saturated"}),
        ((Reason.GPU_UNDERPROVISIONED,), {"compute_saturated", "underprovisioned"}),
    ],
)
def test_a_shortage_of_compute_is_reported_once(
    reasons: tuple[Reason, ...], rules: set[str]
) -> None:
    """Two rules detect it; if another resource is short as well, both report."""
    under = FindingKind.UNDERPROVISIONED
    saturated = said("compute_saturated", under, Reason.COMPUTE_SATURATED, Action.AUTOSCALE)
    short = said("underprovisioned", under, Reason.GPU_UNDERPROVISIONED, Action.AUTOSCALE)
    short = replace(short, finding=replace(short.finding, reasons=reasons))
    assert opening([short, saturated]) == opening([saturated, short]) == rules
    assert opening([short]) == {"underprovisioned"}
