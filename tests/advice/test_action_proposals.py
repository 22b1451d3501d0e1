"""Which actions are due, why others are not, and bounds that always hold."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from cases import NOW, finding
from readings import HOUR
from rightsizer.actions.approvals import Approval
from rightsizer.actions.proposals import (
    ActionConditions,
    ActionProposal,
    PastAction,
    is_suspended,
    proposals,
)
from rightsizer.actions.repository import ActionOutcome, ActionRecord, ActionVerdict
from rightsizer.actions.settings import ActionLimits, ActionMode, ActionSettings
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.finding import Reason, Risk
from rightsizer.model.workload import Workload, WorkloadKind

LLAMA = "slurm/llama"
HOLDER = Workload(LLAMA, WorkloadKind.SLURM, "llama", unproven="")
DAY = 86400.0


def advice(state: AdviceState = AdviceState.ACTIVE, **facts: Any) -> Advice:
    """Open advice on an idle workload."""
    usual: dict[str, Any] = {"confidence": 0.95}
    return Advice(finding(**usual | facts), state, opened=NOW, updated=NOW)


def terms(**facts: Any) -> ActionSettings:
    """An action that needs no approval."""
    usual: dict[str, Any] = {
        "name": "release",
        "reasons": (Reason.IDLE_HELD,),
        "mode": ActionMode.AUTOMATIC,
        "command": ("true",),
    }
    return ActionSettings(**usual | facts)


def past_action(*, ago_seconds: float = 2 * DAY, **facts: Any) -> PastAction:
    """A successful action two days ago on another workload."""
    usual: dict[str, Any] = {
        "id": "an entry",
        "action": "release",
        "way": "command",
        "advice": "bbbbbbbbbbbb",
        "opened": NOW,
        "workload": "slurm/other",
        "devices": ("GPU-7",),
        "at": NOW,
        "outcome": ActionOutcome.DONE,
        "verdict": ActionVerdict.DUE,
        "actor": "action:release",
        "result": AdviceState.SUCCEEDED,
    }
    return PastAction(ActionRecord(**usual | facts), ago_seconds)


def judged(
    about: Advice | None = None,
    one: ActionSettings | None = None,
    *past_actions: PastAction,
    limits: ActionLimits | None = None,
    **conditions: Any,
) -> ActionProposal:
    """The decision on one item."""
    about = about or advice()
    one = one or terms()
    usual: dict[str, Any] = {"gpus": 8, "workloads": {LLAMA: HOLDER}}
    (found,) = proposals(
        [about],
        {about.id: [one]},
        past_actions,
        ActionConditions(**usual | conditions),
        limits or ActionLimits(),
    )
    return found


def test_action_meeting_all_conditions_is_due() -> None:
    """Sufficient confidence, low risk, and the first of its day."""
    assert judged().verdict is ActionVerdict.DUE


def test_advice_without_an_action_is_reported_so() -> None:
    """Actions are enabled by reason."""
    (found,) = proposals([advice()], {}, (), ActionConditions(8, {LLAMA: HOLDER}), ActionLimits())
    assert (found.verdict, found.action) == (ActionVerdict.NOT_OPTED_IN, "")


def test_without_a_mode_it_is_a_dry_run() -> None:
    """It reports that all other conditions are met."""
    one = ActionSettings(name="release", reasons=(Reason.IDLE_HELD,), command=("true",))
    assert judged(None, one).verdict is ActionVerdict.DRY_RUN


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (judged(advice(AdviceState.SNOOZED)), ActionVerdict.SNOOZED),
        (judged(advice(AdviceState.CLAIMED)), ActionVerdict.CLAIMED),
        (judged(advice(confidence=0.89)), ActionVerdict.CONFIDENCE),
        (judged(advice(confidence=float("nan"))), ActionVerdict.CONFIDENCE),
        (judged(advice(risk=Risk.MEDIUM)), ActionVerdict.RISK),
        (judged(advice(risk=Risk.UNKNOWN), terms(maximum_risk=Risk.HIGH)), ActionVerdict.RISK),
        (judged(workloads={"slurm/other": HOLDER}), ActionVerdict.ABSENT),
        (judged(unfit={("release", "aaaaaaaaaaaa"): "no"}), ActionVerdict.UNFIT),
        (judged(is_kept=False), ActionVerdict.NOT_KEPT),
        (judged(None, None, past_action(ago_seconds=10.0)), ActionVerdict.DAY_LIMIT),
        (
            judged(None, None, *(past_action(action=f"a{n}", ago_seconds=400.0) for n in range(4))),
            ActionVerdict.DAY_LIMIT,
        ),
        (judged(None, None, past_action(action="other", ago_seconds=10.0)), ActionVerdict.RATE),
        (
            judged(None, None, past_action(action="other", ago_seconds=400.0), gpus=4),
            ActionVerdict.SHARE_LIMIT,
        ),
        (judged(None, None, past_action(workload=LLAMA, result=None)), ActionVerdict.UNVERIFIED),
        (
            judged(None, terms(cool_down_seconds=3 * DAY), past_action(workload=LLAMA)),
            ActionVerdict.COOL_DOWN,
        ),
        (
            judged(
                None,
                terms(cool_down_seconds=60.0),
                past_action(workload=LLAMA, ago_seconds=0.9 * DAY),
            ),
            ActionVerdict.WORKLOAD_LIMIT,
        ),
        (
            judged(None, None, past_action(advice="aaaaaaaaaaaa", workload=LLAMA)),
            ActionVerdict.DONE_BEFORE,
        ),
    ],
    ids=lambda each: str(each) if isinstance(each, ActionVerdict) else "",
)
def test_each_bound_holds_by_itself_and_says_why(
    found: ActionProposal, verdict: ActionVerdict
) -> None:
    """A refusal has a kind and a text."""
    assert found.verdict is verdict
    assert found.why


def test_at_most_one_is_due_at_a_time() -> None:
    """The first action may change which others are due."""
    both = [advice(), advice(id="cccccccccccc", devices=("GPU-1",), workload="slurm/other")]
    conditions = ActionConditions(8, {LLAMA: HOLDER, "slurm/other": HOLDER})
    found = proposals(both, {each.id: [terms()] for each in both}, (), conditions, ActionLimits())
    assert [each.verdict for each in found] == [ActionVerdict.DUE, ActionVerdict.RATE]


def test_one_gpu_may_always_be_acted_on() -> None:
    """A quarter of two GPUs rounds to none, but one is allowed."""
    assert judged(gpus=2).verdict is ActionVerdict.DUE
    assert judged(advice(devices=("GPU-0", "GPU-1")), gpus=2).verdict is ActionVerdict.SHARE_LIMIT


KEY = ("release", "aaaaaaaaaaaa", NOW)


@pytest.mark.parametrize(
    ("state", "conditions", "verdict"),
    [
        (AdviceState.ACTIVE, {"proposed": {KEY: NOW}}, ActionVerdict.NOT_APPROVED),
        (
            AdviceState.CLAIMED,
            {"approvals": {KEY[1]: Approval(NOW + 2, "ana")}, "proposed": {KEY: NOW + 1}},
            ActionVerdict.DUE,
        ),
        (
            AdviceState.CLAIMED,
            {"approvals": {KEY[1]: Approval(NOW, "ana")}, "proposed": {KEY: NOW + 1}},
            ActionVerdict.NOT_APPROVED,
        ),
        (
            AdviceState.CLAIMED,
            {"approvals": {KEY[1]: Approval(NOW + 2, "ana")}},
            ActionVerdict.NOT_APPROVED,
        ),
        (
            AdviceState.CLAIMED,
            {
                "approvals": {KEY[1]: Approval(NOW + 2, "ana")},
                "proposed": {(KEY[0], KEY[1], NOW - 9): NOW - 8},
            },
            ActionVerdict.NOT_APPROVED,
        ),
    ],
    ids=["unclaimed", "claimed", "claimed-before", "never-proposed", "of-an-earlier-opening"],
)
def test_a_claim_approves_what_was_proposed_when_it_was_made(
    state: AdviceState, conditions: Mapping[str, Any], verdict: ActionVerdict
) -> None:
    """A claim made before an action was proposed announces manual work."""
    assert judged(advice(state), terms(mode=ActionMode.APPROVE), **conditions).verdict is verdict


@pytest.mark.parametrize(
    ("outcome", "claimed", "verdict"),
    [
        (ActionOutcome.UNKNOWN, NOW + 3, ActionVerdict.DUE),
        (ActionOutcome.FAILED, NOW + 3, ActionVerdict.DUE),
        (ActionOutcome.DONE, NOW + 3, ActionVerdict.DONE_BEFORE),
        (ActionOutcome.UNKNOWN, NOW + 1, ActionVerdict.DONE_BEFORE),
    ],
)
def test_failed_action_is_retried_only_on_a_later_claim(
    outcome: ActionOutcome, claimed: int, verdict: ActionVerdict
) -> None:
    """The claim must be newer than the failed attempt."""
    before = past_action(advice=KEY[1], workload=LLAMA, outcome=outcome, result=None, at=NOW + 2)
    conditions: dict[str, Any] = {
        "approvals": {KEY[1]: Approval(claimed, "ana")},
        "proposed": {KEY: NOW},
    }
    about = advice(AdviceState.CLAIMED)
    assert judged(about, terms(mode=ActionMode.APPROVE), before, **conditions).verdict is verdict


@pytest.mark.parametrize(
    ("results", "suspended"),
    [
        ([False], False),
        ([False, True, True], False),
        ([False, False], True),
        ([False, False, True, True, True], True),
        ([None, None, False], False),
    ],
)
def test_an_action_that_fails_too_often_is_suspended(
    results: list[bool | None], *, suspended: bool
) -> None:
    """Only known results within the period count."""
    states = {True: AdviceState.SUCCEEDED, False: AdviceState.FAILED, None: AdviceState.EXPIRED}
    past_actions = [past_action(result=states[result]) for result in results]
    assert is_suspended("release", past_actions, ActionLimits()) is suspended
    old = [replace(action, ago_seconds=31 * DAY) for action in past_actions]
    assert not is_suspended("release", old, ActionLimits())
    assert (judged(None, None, *past_actions).verdict is ActionVerdict.SUSPENDED) is suspended


def test_advice_without_a_workload_is_bounded_by_its_gpu() -> None:
    """A GPU without a holder is limited like a workload."""
    nobody = advice(workload=None)
    before = past_action(workload=None, devices=("GPU-0",), ago_seconds=HOUR / 10**9)
    assert judged(nobody, None, before).verdict is ActionVerdict.COOL_DOWN
    assert judged(nobody, None, replace(before, ago_seconds=2 * DAY)).verdict is ActionVerdict.DUE
