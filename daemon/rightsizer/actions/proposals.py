"""Proposals of actions: which are due for which advice, and why others are not; pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from rightsizer.actions.approvals import Approval
from rightsizer.actions.repository import ActionRecord, ActionVerdict
from rightsizer.actions.settings import ActionLimits, ActionMode, ActionSettings
from rightsizer.model.values import (
    DAY_SECONDS,
    Advice,
    AdviceState,
    Nanoseconds,
    Risk,
    Workload,
    elapsed_text,
)

_RISKS: Final = {risk: rank for rank, risk in enumerate(Risk)}
_Answer = tuple[ActionVerdict, str]


class PastAction(Struct, frozen=True):
    """Action that was started, regardless of its outcome."""

    record: ActionRecord
    ago_seconds: float
    """Time since its start, by the clock that can be trusted."""

    @property
    def is_failure(self) -> bool | None:
        """Whether it failed, at once or by its result; `None` if unknown."""
        result = self.record.result
        has_failed = self.record.outcome.has_worked is False
        if has_failed or result in (AdviceState.FAILED, AdviceState.REGRESSED):
            return True
        return False if result is AdviceState.SUCCEEDED else None


class ActionConditions(Struct, frozen=True):
    """Current state of the machine."""

    gpus: int
    """Number of devices that respond or are known to be down."""
    workloads: Mapping[str, Workload]
    """Workloads that hold a device, by key."""
    approvals: Mapping[str, Approval] = {}
    """Claims by advice id."""
    proposed: Mapping[tuple[str, str, Nanoseconds], Nanoseconds] = {}
    """First proposal of an action for approval: by action, advice id and opening time."""
    unfit: Mapping[tuple[str, str], str] = {}
    """Why an action's placeholders cannot be filled in, by action and advice id."""
    is_kept: bool = True
    """Whether a recorded action survives a kill."""

    def approved(self, advice_id: str) -> Nanoseconds | None:
        """Time of a claim that counts as approval; `None` without one."""
        approval = self.approvals.get(advice_id)
        return None if approval is None or approval.why_not else approval.claimed


class ActionProposal(Struct, frozen=True):
    """Decision on an action for a piece of advice."""

    action: str
    """Name of the action; empty if none matches."""
    advice: Advice
    verdict: ActionVerdict
    why: str
    """Short reason against it; empty if due."""

    @property
    def key(self) -> tuple[str, str, Nanoseconds]:
        """Action, advice id and opening time."""
        return self.action, self.advice.id, self.advice.opened


def proposals(
    advice: Sequence[Advice],
    actions: Mapping[str, Sequence[ActionSettings]],
    past_actions: Sequence[PastAction],
    conditions: ActionConditions,
    limits: ActionLimits,
) -> tuple[ActionProposal, ...]:
    """Decide on each action for each piece of open advice, in order of advice and settings.

    At most one is due, since its execution changes the basis of further decisions. Closed advice is
    skipped; `actions` holds the matching actions by advice id.
    """
    action_proposals: list[ActionProposal] = []
    has_due = False
    for recommendation in advice:
        if not recommendation.is_open:
            continue
        if not (matching := actions.get(recommendation.id, ())):
            why = "no action is configured for its reasons and its workload"
            action_proposals.append(
                ActionProposal("", recommendation, ActionVerdict.NOT_OPTED_IN, why)
            )
        for one in matching:
            verdict, why = next(
                _Case(recommendation, one, past_actions, conditions, limits).answers()
            )
            if verdict is ActionVerdict.DUE and has_due:
                verdict = ActionVerdict.RATE
                why = "another action is due first"
            has_due = has_due or verdict is ActionVerdict.DUE
            action_proposals.append(ActionProposal(one.name, recommendation, verdict, why))
    return tuple(action_proposals)


def is_suspended(name: str, past_actions: Sequence[PastAction], limits: ActionLimits) -> bool:
    """Whether too many results of an action were failures."""
    failed, results = _failures_of(name, past_actions, limits)
    return results >= limits.minimum_results and failed > limits.suspended_above_ratio * results


def _failures_of(
    name: str, past_actions: Sequence[PastAction], limits: ActionLimits
) -> tuple[int, int]:
    """Number of failures and of all results that count for an action."""
    matching = (action for action in past_actions if action.record.action == name)
    recent = [
        action.is_failure
        for action in matching
        if action.ago_seconds < limits.results_within_seconds
    ]
    return recent.count(True), len(recent) - recent.count(None)


class _Case(Struct, frozen=True):
    """One action on one piece of advice; each method yields reasons against it."""

    advice: Advice
    settings: ActionSettings
    past_actions: Sequence[PastAction]
    conditions: ActionConditions
    limits: ActionLimits

    def answers(self) -> Iterator[_Answer]:
        """Yield reasons against it, of which the first counts; finally that it is due."""
        yield from self._of_its_past()
        yield from self._of_the_advice()
        yield from self._of_the_workload()
        yield from self._of_the_day()
        if self.settings.mode is ActionMode.DRY_RUN:
            yield ActionVerdict.DRY_RUN, "its mode is dry_run: it would be done"
        if not self.conditions.is_kept:
            yield ActionVerdict.NOT_KEPT, "nothing would remember it; set history.path"
        if self.settings.mode is ActionMode.APPROVE:
            yield from self._of_approval()
        yield ActionVerdict.DUE, ""

    def _of_its_past(self) -> Iterator[_Answer]:
        """Do not repeat an action on the same advice unless a user requests it again."""
        asked = self.conditions.approved(self.advice.id)
        about = self.settings.name, self.advice.id, self.advice.opened
        for action in self.past_actions:
            is_asked_again = asked is not None and asked > action.record.at
            may_repeat = self.settings.mode is ActionMode.APPROVE and is_asked_again
            if action.record.key == about and (action.record.outcome.has_worked or not may_repeat):
                yield (
                    ActionVerdict.DONE_BEFORE,
                    f"it was done {elapsed_text(action.ago_seconds)} ago",
                )
        if is_suspended(self.settings.name, self.past_actions, self.limits):
            failed, results = _failures_of(self.settings.name, self.past_actions, self.limits)
            within = elapsed_text(self.limits.results_within_seconds)
            why = f"{failed} of its {results} results within {within} were failures"
            yield ActionVerdict.SUSPENDED, why

    def _of_the_advice(self) -> Iterator[_Answer]:
        advice = self.advice
        settings = self.settings
        finding = self.advice.finding
        if advice.state is AdviceState.SNOOZED:
            yield ActionVerdict.SNOOZED, "its advice is snoozed"
        if advice.state is AdviceState.CLAIMED and settings.mode is ActionMode.AUTOMATIC:
            yield ActionVerdict.CLAIMED, f"{advice.actor or 'an unknown user'} acts on it"
        # NaN also fails.
        if not finding.confidence >= (least := settings.minimum_confidence_ratio):
            why = f"its confidence of {finding.confidence:.2f} is below {least:g}"
            yield ActionVerdict.CONFIDENCE, why
        if _RISKS[finding.risk] > _RISKS[settings.maximum_risk]:
            yield ActionVerdict.RISK, f"its risk is {finding.risk}, above {settings.maximum_risk}"
        if finding.workload is not None:
            holder = self.conditions.workloads.get(finding.workload)
            if holder is None:
                yield ActionVerdict.ABSENT, "its workload holds no GPU now"
            elif holder.unproven:
                yield ActionVerdict.UNPROVEN, f"its owner is not proven: {holder.unproven}"
        if (why_unfit := self.conditions.unfit.get((settings.name, advice.id))) is not None:
            yield ActionVerdict.UNFIT, why_unfit

    def _of_the_workload(self) -> Iterator[_Answer]:
        """Verify an action on it for another reason first, then wait for the cooldown."""
        advice = self.advice
        settings = self.settings
        for action in (past.record for past in self.past_actions):
            is_same = action.workload is not None and action.workload == advice.finding.workload
            is_waiting = action.result is None and action.outcome.has_worked is not False
            if is_same and is_waiting and action.advice != advice.id:
                what = f"what '{action.action}' came to on advice '{action.advice}'"
                why = f"{what} is not verified yet"
                yield ActionVerdict.UNVERIFIED, why
        actions = [past for past in self.past_actions if _is_about(past.record, advice)]
        for past in actions:
            if past.ago_seconds < settings.cool_down_seconds:
                ago = elapsed_text(past.ago_seconds)
                rest = elapsed_text(settings.cool_down_seconds)
                yield ActionVerdict.COOL_DOWN, f"it was acted on {ago} ago, and rests for {rest}"
        today = sum(past.ago_seconds < DAY_SECONDS for past in actions)
        if today >= settings.at_most_per_workload_per_day:
            yield ActionVerdict.WORKLOAD_LIMIT, f"{today} actions on it were done within 24 hours"

    def _of_the_day(self) -> Iterator[_Answer]:
        settings = self.settings
        limits = self.limits
        gpus = self.conditions.gpus
        today = [action for action in self.past_actions if action.ago_seconds < DAY_SECONDS]
        count = sum(action.record.action == settings.name for action in today)
        if count >= settings.at_most_per_day:
            yield ActionVerdict.DAY_LIMIT, f"it was done {count} times within 24 hours"
        if len(today) >= limits.at_most_per_day:
            yield ActionVerdict.DAY_LIMIT, f"{len(today)} actions were done within 24 hours"
        touched = set(self.advice.finding.devices).union(
            *(action.record.devices for action in today)
        )
        maximum = max(1, int(settings.at_most_share_of_gpus * gpus))
        if len(touched) > maximum:
            why = (
                f"with it, actions would be about {len(touched)} of {gpus} GPUs within 24 hours, "
                f"where {maximum} may be"
            )
            yield ActionVerdict.SHARE_LIMIT, why
        last = min(
            (action.ago_seconds for action in self.past_actions), default=limits.pause_seconds
        )
        if last < limits.pause_seconds:
            yield ActionVerdict.RATE, f"the last action was {elapsed_text(last)} ago"

    def _of_approval(self) -> Iterator[_Answer]:
        advice = self.advice
        conditions = self.conditions
        claimed = conditions.approved(advice.id)
        remedy = f"`rightsizer claim {advice.id}`"
        approval = conditions.approvals.get(advice.id)
        if approval is not None and approval.why_not:
            yield ActionVerdict.NOT_APPROVED, f"{approval.why_not}; approve with {remedy}"
        if advice.state is not AdviceState.CLAIMED or claimed is None:
            yield ActionVerdict.NOT_APPROVED, f"it waits for {remedy}"
            return
        proposed = conditions.proposed.get((self.settings.name, advice.id, advice.opened))
        if proposed is None or claimed < proposed:
            # Whoever claimed it did not know of an action, and intended to act manually.
            why = f"it was claimed before this was proposed; approve with {remedy}"
            yield ActionVerdict.NOT_APPROVED, why


def _is_about(past: ActionRecord, advice: Advice) -> bool:
    """Whether an action concerned advice's workload, or its GPU if neither has a workload."""
    if past.workload is not None or advice.finding.workload is not None:
        return past.workload == advice.finding.workload
    return not set(past.devices).isdisjoint(advice.finding.devices)
