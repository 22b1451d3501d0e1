"""Proposals of actions: which are due on which advice, and why the others are not; pure."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Final

from rightsizer.actions.settings import ActionLimits, ActionMode, ActionTerms
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.finding import Risk
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.units import Nanoseconds, format_duration

DAY_SECONDS: Final = 86400.0
_RISKS: Final = {risk: rank for rank, risk in enumerate(Risk)}


class ActionVerdict(StrEnum):
    """Whether an action is done, and the kind of reason why not."""

    DUE = "due"
    DRY_RUN = "dry_run"
    """All but its mode speaks for it."""
    NOT_OPTED_IN = "not_opted_in"
    """No action is for the reason, or for the workload."""
    SUSPENDED = "suspended"
    SNOOZED = "snoozed"
    CLAIMED = "claimed"
    """A person acts on it."""
    CONFIDENCE = "confidence"
    RISK = "risk"
    ABSENT = "absent"
    """The workload is not there now."""
    UNFIT = "unfit"
    """The words of the action cannot be filled in."""
    DONE_BEFORE = "done_before"
    UNVERIFIED = "unverified"
    COOL_DOWN = "cool_down"
    WORKLOAD_LIMIT = "workload_limit"
    DAY_LIMIT = "day_limit"
    SHARE_LIMIT = "share_limit"
    RATE = "rate"
    NOT_KEPT = "not_kept"
    """Nothing would remember it."""
    NOT_APPROVED = "not_approved"


@dataclass(frozen=True, slots=True)
class PastAction:
    """An action that was begun, however it ended."""

    action: str
    """Its name."""
    advice: str
    """The id."""
    opened: Nanoseconds
    """When that advice was opened."""
    workload: str | None
    """Its key."""
    devices: tuple[str, ...]
    at: Nanoseconds
    """Wall time."""
    ago_seconds: float
    """Since it was begun, by whichever clock can be trusted."""
    has_worked: bool | None
    """Whether it did what it was to do, `None` where that is not known (yet)."""
    result: AdviceState | None = None
    """What became of the advice since, `None` while that is open."""

    @property
    def is_failure(self) -> bool | None:
        """Whether it failed, at once or by its result; `None` where that is not known."""
        if self.has_worked is False or self.result in (AdviceState.FAILED, AdviceState.REGRESSED):
            return True
        return False if self.result is AdviceState.SUCCEEDED else None


@dataclass(frozen=True, slots=True)
class ActionConditions:
    """The machine as it stands."""

    gpus: int
    """How many devices it has that answer or are known to be down."""
    workloads: AbstractSet[str]
    """Keys of those that hold a device."""
    claimed: Mapping[str, Nanoseconds] = field(default_factory=dict)
    """Since when advice is claimed by somebody who may approve, by its id."""
    barred: Mapping[str, str] = field(default_factory=dict)
    """Why the claim of advice approves nothing, by its id."""
    proposed: Mapping[tuple[str, str, Nanoseconds], Nanoseconds] = field(default_factory=dict)
    """When an action was first put up for approval: by action, advice, and when that was opened."""
    unfit: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Why an action's words cannot be filled in, by action and advice."""
    is_kept: bool = True
    """Whether an intent outlasts a kill."""


@dataclass(frozen=True, slots=True)
class ActionProposal:
    """An action on a piece of advice."""

    action: str
    """Its name; empty where none is for it."""
    advice: Advice
    verdict: ActionVerdict
    why: str
    """Why it is not done, in a few words; empty where it is due."""


def proposals(
    advice: Sequence[Advice],
    actions: Mapping[str, Sequence[ActionTerms]],
    deeds: Sequence[PastAction],
    scene: ActionConditions,
    limits: ActionLimits,
) -> tuple[ActionProposal, ...]:
    """What each action makes of each piece of open advice, in the order of advice and settings.

    At most one is due: what is done changes what may be done next.

    Args:
        advice: All advice; what is closed is passed over.
        actions: By the advice's id, the actions that are for its reasons and its workload.
        deeds: All that was begun.
        scene: The machine.
        limits: What all actions keep to together.
    """
    found: list[ActionProposal] = []
    has_due = False
    for each in advice:
        if not each.is_open:
            continue
        terms = actions.get(each.id, ())
        if not terms:
            why = "no action is configured for its reasons and its workload"
            found.append(ActionProposal("", each, ActionVerdict.NOT_OPTED_IN, why))
        for one in terms:
            verdict, why = _judged(each, one, deeds, scene, limits)
            if verdict is ActionVerdict.DUE and has_due:
                verdict, why = ActionVerdict.RATE, "another action is due first"
            has_due = has_due or verdict is ActionVerdict.DUE
            found.append(ActionProposal(one.name, each, verdict, why))
    return tuple(found)


def is_suspended(name: str, deeds: Sequence[PastAction], limits: ActionLimits) -> bool:
    """Whether an action's results were failures too often."""
    failed, known = _failures_of(name, deeds, limits)
    return known >= limits.minimum_results and failed > limits.suspended_above_ratio * known


def _failures_of(name: str, deeds: Sequence[PastAction], limits: ActionLimits) -> tuple[int, int]:
    """How many results of an action were failures, of how many that count."""
    found = [
        each.is_failure
        for each in deeds
        if each.action == name
        and each.ago_seconds < limits.results_within_seconds
        and each.is_failure is not None
    ]
    return sum(found), len(found)


_Answer = tuple[ActionVerdict, str] | None


def _judged(
    advice: Advice,
    terms: ActionTerms,
    deeds: Sequence[PastAction],
    scene: ActionConditions,
    limits: ActionLimits,
) -> tuple[ActionVerdict, str]:
    refusal = (
        _of_its_past(advice, terms, deeds, scene)
        or _of_the_action(terms, deeds, limits)
        or _of_the_advice(advice, terms, scene)
        or _of_what_waits(advice, deeds)
        or _of_the_workload(advice, terms, deeds)
        or _of_the_day(advice, terms, deeds, scene, limits)
    )
    if refusal is not None:
        return refusal
    if terms.mode is ActionMode.DRY_RUN:
        return ActionVerdict.DRY_RUN, "its mode is dry_run: it would be done"
    if not scene.is_kept:
        return ActionVerdict.NOT_KEPT, "nothing would remember it; set history.path"
    return _of_approval(advice, terms, scene) or (ActionVerdict.DUE, "")


def _of_the_action(
    terms: ActionTerms, deeds: Sequence[PastAction], limits: ActionLimits
) -> _Answer:
    if is_suspended(terms.name, deeds, limits):
        failed, known = _failures_of(terms.name, deeds, limits)
        within = _told(limits.results_within_seconds)
        why = f"{failed} of its {known} results within {within} were failures"
        return ActionVerdict.SUSPENDED, why
    return None


def _of_the_advice(advice: Advice, terms: ActionTerms, scene: ActionConditions) -> _Answer:
    finding = advice.finding
    if advice.state is AdviceState.SNOOZED:
        return ActionVerdict.SNOOZED, "its advice is snoozed"
    if advice.state is AdviceState.CLAIMED and terms.mode is ActionMode.AUTOMATIC:
        return ActionVerdict.CLAIMED, f"{advice.actor or 'somebody'} acts on it"
    # What cannot be compared is not above it.
    if not finding.confidence >= terms.minimum_confidence_ratio:
        least = terms.minimum_confidence_ratio
        return (
            ActionVerdict.CONFIDENCE,
            f"its confidence of {finding.confidence:.2f} is below {least:g}",
        )
    if _RISKS[finding.risk] > _RISKS[terms.maximum_risk]:
        return ActionVerdict.RISK, f"its risk is {finding.risk}, above {terms.maximum_risk}"
    if finding.workload is not None and finding.workload not in scene.workloads:
        return ActionVerdict.ABSENT, "its workload holds no GPU now"
    if (why := scene.unfit.get((terms.name, advice.id))) is not None:
        return ActionVerdict.UNFIT, why
    return None


def _of_its_past(
    advice: Advice, terms: ActionTerms, deeds: Sequence[PastAction], scene: ActionConditions
) -> _Answer:
    """What was done on the same advice is not repeated, unless a person asks for it again."""
    for each in deeds:
        if (each.action, each.advice, each.opened) != (terms.name, advice.id, advice.opened):
            continue
        asked = scene.claimed.get(advice.id)
        is_asked_again = asked is not None and asked > each.at
        if each.has_worked or terms.mode is not ActionMode.APPROVE or not is_asked_again:
            return ActionVerdict.DONE_BEFORE, f"it was done {_told(each.ago_seconds)} ago"
    return None


def _of_what_waits(advice: Advice, deeds: Sequence[PastAction]) -> _Answer:
    """What was done on the same workload for another reason is verified first."""
    for each in deeds:
        is_same = each.workload is not None and each.workload == advice.finding.workload
        is_waiting = each.result is None and each.has_worked is not False
        if is_same and is_waiting and each.advice != advice.id:
            why = f"what '{each.action}' came to on advice '{each.advice}' is not verified yet"
            return ActionVerdict.UNVERIFIED, why
    return None


def _of_the_workload(advice: Advice, terms: ActionTerms, deeds: Sequence[PastAction]) -> _Answer:
    own = [each for each in deeds if _is_about(each, advice)]
    for each in own:
        if each.ago_seconds < terms.cool_down_seconds:
            ago, rest = _told(each.ago_seconds), _told(terms.cool_down_seconds)
            return ActionVerdict.COOL_DOWN, f"it was acted on {ago} ago, and rests for {rest}"
    today = sum(each.ago_seconds < DAY_SECONDS for each in own)
    if today >= terms.at_most_per_workload_per_day:
        return ActionVerdict.WORKLOAD_LIMIT, f"{today} actions on it were done within 24 hours"
    return None


def _is_about(deed: PastAction, advice: Advice) -> bool:
    """Whether a deed was on the workload of advice, or on the GPU where nobody holds one."""
    if deed.workload is not None or advice.finding.workload is not None:
        return deed.workload == advice.finding.workload
    return not set(deed.devices).isdisjoint(advice.finding.devices)


def _of_the_day(
    advice: Advice,
    terms: ActionTerms,
    deeds: Sequence[PastAction],
    scene: ActionConditions,
    limits: ActionLimits,
) -> _Answer:
    today = [each for each in deeds if each.ago_seconds < DAY_SECONDS]
    own = sum(each.action == terms.name for each in today)
    if own >= terms.at_most_per_day:
        return ActionVerdict.DAY_LIMIT, f"it was done {own} times within 24 hours"
    if len(today) >= limits.at_most_per_day:
        return ActionVerdict.DAY_LIMIT, f"{len(today)} actions were done within 24 hours"
    touched = set(advice.finding.devices).union(*(each.devices for each in today))
    most = max(1, int(terms.at_most_share_of_gpus * scene.gpus))
    if len(touched) > most:
        return ActionVerdict.SHARE_LIMIT, (
            f"with it, actions would be about {len(touched)} of {scene.gpus} GPUs within 24 hours, "
            f"where {most} may be"
        )
    last = min((each.ago_seconds for each in deeds), default=limits.pause_seconds)
    if last < limits.pause_seconds:
        return ActionVerdict.RATE, f"the last action was {_told(last)} ago"
    return None


def _of_approval(advice: Advice, terms: ActionTerms, scene: ActionConditions) -> _Answer:
    if terms.mode is not ActionMode.APPROVE:
        return None
    claimed = scene.claimed.get(advice.id)
    if (barred := scene.barred.get(advice.id)) is not None:
        return ActionVerdict.NOT_APPROVED, f"{barred}; approve with `rightsizer claim {advice.id}`"
    if advice.state is not AdviceState.CLAIMED or claimed is None:
        return ActionVerdict.NOT_APPROVED, f"it waits for `rightsizer claim {advice.id}`"
    proposed = scene.proposed.get((terms.name, advice.id, advice.opened))
    if proposed is None or claimed < proposed:
        # The one who claimed it knew nothing of an action, and meant to act by hand.
        why = (
            f"it was claimed before this was proposed; approve with `rightsizer claim {advice.id}`"
        )
        return ActionVerdict.NOT_APPROVED, why
    return None


def _told(duration_seconds: float) -> str:
    return format_duration(max(0.0, duration_seconds))
