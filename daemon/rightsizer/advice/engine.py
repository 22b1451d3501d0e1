"""Engine: runs every rule on every workload and resolves contradicting verdicts."""

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, partial
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Judgement, Rule
from rightsizer.advice.served import RULE_NAME as SERVED_RULE
from rightsizer.advice.verdict import CaseSubject, finding_id
from rightsizer.advice.verification import RELEASING, REPLACING
from rightsizer.model.values import (
    Action,
    Advice,
    AdviceState,
    Case,
    Finding,
    FindingKind,
    Nanoseconds,
    Reason,
    format_duration,
    nanoseconds,
)

_Answer = TypeVar("_Answer")
_FAILED: Final = "the rule failed, which is a fault of this program; its log says how"

Cases = Callable[[Nanoseconds | None], Sequence[Case]]
"""Cases of all workloads over the last span; `None` for everything posted."""
CaseOf = Callable[[str, Nanoseconds], Case | None]
"""One of them by key; `None` if it left."""
Tuned = Callable[[Rule[Any], Case], Rule[Any]]
"""Applies an operator's policy for one workload to a rule."""
Failed = Callable[[str, str, Exception], None]
"""Called for a rule that raised: its name, the workload's key, the exception."""
Count = Callable[[Finding], object]
"""Called with every verdict."""
Left = Callable[[Rule[Any]], Iterable[Case]]
"""Returns the present cases on which a rule's verdict is not settled without judging them."""


class _RuleError(Exception):
    """Exception of a rule, which must not affect accounts or other rules."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def reraise(rule: str, key: str, error: Exception) -> None:
    """Raise a rule's exception, for callers that do not log it."""
    del rule, key
    raise error


def judge_span(
    cases: Sequence[Case],
    rules: Sequence[Rule[Any]] = RULES,
    tuned: Tuned = lambda rule, _: rule,
    failed: Failed = reraise,
) -> tuple[Judgement, ...]:
    """Judge every case as it is by every rule, resolve conflicts, and open no advice.

    All rules judge the cases' single span, instead of their own spans.
    """
    judgements = []
    for case in cases:
        for general in rules:
            try:
                rule = _call_rule(tuned, general, case)
                finding = _call_rule(_judge_whole_span, rule, case)
            except _RuleError as fault:
                failed(general.name, case.key, fault.error)
                finding = _failure(general, case)
            judgements.append(Judgement(finding, workload=case.workload))
    return without_conflicts(judgements)


def _judge_whole_span(rule: Rule[Any], case: Case) -> Finding:
    """Judge a case, but suppress idleness shorter than the rule's minimum time."""
    finding = rule.judge(case)
    if not finding.is_actionable or finding.kind is not FindingKind.IDLE:
        return finding
    policy = rule.conduct(case.workload)
    seconds = case.known_seconds
    subject = CaseSubject(rule.name, case, rule.market)
    if seconds >= policy.minimum_known_seconds:
        return finding
    summary = (
        f"{subject.name}: idle for {format_duration(seconds)} so far; a recommendation opens after "
        f"{format_duration(policy.minimum_known_seconds)}."
    )
    return subject.find_nothing(summary, {}, finding.evidence)


def actionable(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Actionable findings: neither overruled by another verdict nor excluded by a policy."""
    return tuple(
        finding
        for finding in findings
        if finding.is_actionable and finding.evidence.keys().isdisjoint(("held_back", "excluded"))
    )


def without_advice(findings: Iterable[Finding], advice: Iterable[Advice]) -> tuple[Finding, ...]:
    """Complaints without advice; a closed recommendation may still hold for the whole span."""
    advice_ids = {
        recommendation.id
        for recommendation in advice
        if recommendation.is_open or recommendation.state is AdviceState.DISMISSED
    }
    return tuple(finding for finding in actionable(findings) if finding.id not in advice_ids)


def judge_all(
    cases: Cases,
    rules: Sequence[Rule[Any]] = RULES,
    open_now: AbstractSet[tuple[str, str]] = frozenset(),
    tuned: Tuned = lambda rule, _: rule,
    failed: Failed = reraise,
) -> tuple[Judgement, ...]:
    """Judge every workload by every rule over the rule's own spans, and resolve conflicts.

    The short span is judged only for complaints and open advice (by workload key and rule). The
    exception of a rule is passed to `failed`, and that verdict is lost.
    """
    by_key = cache(lambda span: {case.key: case for case in cases(span)})
    return judge_left(
        lambda key, span: by_key(span).get(key),
        lambda _: by_key(0).values(),
        rules,
        open_now,
        tuned,
        failed,
    )


def judge_left(  # noqa: PLR0913, PLR0917 - what is judged by which rules, and what becomes of it.
    case_of: CaseOf,
    left: Left,
    rules: Sequence[Rule[Any]] = RULES,
    open_now: AbstractSet[tuple[str, str]] = frozenset(),
    tuned: Tuned = lambda rule, _: rule,
    failed: Failed = reraise,
    *,
    count: Count = lambda _: None,
    keeps_all: bool = True,
) -> tuple[Judgement, ...]:
    """Judge as `judge_all` what screens left; a case is made when it is first asked for.

    Without `keeps_all`, verdicts without a complaint are only counted.
    """
    judgements = []
    for general in rules:
        for present in left(general):
            is_open = (present.key, general.name) in open_now
            is_counted = not (keeps_all or is_open)
            try:
                rule = _call_rule(tuned, general, present)
                judgement = _judge(rule, present, case_of, is_open=is_open, is_counted=is_counted)
            except _RuleError as fault:
                failed(general.name, present.key, fault.error)
                judgement = Judgement(_failure(general, present), workload=present.workload)
            if judgement is None:
                continue
            count(judgement.finding)
            if judgement.finding.is_actionable or not is_counted:
                judgements.append(judgement)
    return without_conflicts(judgements)


def _judge(
    rule: Rule[Any],
    present: Case,
    case_of: CaseOf,
    *,
    is_open: bool,
    is_counted: bool,
) -> Judgement | None:
    conduct = _call_rule(rule.conduct, present.workload)
    long_case = case_of(present.key, nanoseconds(conduct.long_seconds))
    if long_case is None:  # The workload left between the two queries.
        return None
    finding = _call_rule(partial(rule.judge, is_counted=is_counted), long_case)
    judgement = Judgement(finding, conduct, long_case.workload, long_case.known_seconds)
    matters = finding.is_actionable or is_open
    short_span = nanoseconds(conduct.short_seconds)
    short_case = case_of(present.key, short_span) if matters else None
    if short_case is None:
        return judgement
    return judgement.settled(
        _call_rule(rule.judge, short_case) if finding.is_actionable else None,
        lambda: _call_rule(rule.relaxed(conduct.close_ratio).judge, short_case),
    )


def _call_rule(ask: Callable[..., _Answer], *of: Any) -> _Answer:
    """Call a rule and wrap any exception as its fault."""
    try:
        return ask(*of)
    except Exception as error:
        raise _RuleError(error) from error


def _failure(rule: Rule[Any], case: Case) -> Finding:
    subject = CaseSubject(rule.name, case, rule.market)
    return subject.abstain(_FAILED, Reason.INSUFFICIENT_DATA)


_SIZE_ACTIONS: Final = (
    RELEASING | REPLACING | {Action.AUTOSCALE, Action.ADD_GPUS, Action.CHANGE_LAYOUT}
)
"""Each changes the workload's GPUs or their layout, after which the others no longer apply."""
_NAMED_LIMITS: Final = frozenset(
    {Reason.HOST_BOUND, Reason.STORAGE_BOUND, Reason.NETWORK_BOUND, Reason.PCIE_BOUND}
)
_COUNT_ACTIONS: Final = frozenset({Action.REDUCE_REPLICAS, Action.REDUCE_GPU_COUNT})
_SHORT_OF_COMPUTE: Final = (Reason.GPU_UNDERPROVISIONED, Reason.COMPUTE_SATURATED)

_Test = Callable[[Finding], bool]


def _says(*words: FindingKind | Reason) -> _Test:
    """Make a test for findings of one of some kinds or reasons."""
    named = frozenset(words)
    return lambda finding: finding.kind in named or not named.isdisjoint(finding.reasons)


_PRECEDENCES: Final[tuple[tuple[_Test, _Test], ...]] = (
    # A rank that waits for others looks idle but is not.
    (_says(Reason.HIDDEN_STALL, Reason.RANK_IMBALANCE), _says(FindingKind.IDLE)),
    # Ranks that spin for an identified straggler are imbalanced because of it.
    (
        lambda finding: Reason.HIDDEN_STALL in finding.reasons and bool(finding.culprits),
        _says(Reason.RANK_IMBALANCE),
    ),
    # An idle workload has neither a bottleneck nor a size.
    (_says(FindingKind.IDLE), _says(FindingKind.INEFFICIENT, FindingKind.OVERPROVISIONED)),
    # The cause of a wait is more specific than the wait.
    (_says(*_NAMED_LIMITS), _says(Reason.PERIODIC_STARVATION)),
    # docs/definitions.md, conduct: never 'over' while any dimension is 'under'.
    (_says(FindingKind.UNDERPROVISIONED), _says(FindingKind.OVERPROVISIONED)),
    # A plan of what an engine serves knows what it needs; that its memory runs out is told beside.
    (
        lambda finding: finding.rule == SERVED_RULE,
        lambda finding: (
            finding.rule != SERVED_RULE
            and finding.kind is FindingKind.UNDERPROVISIONED
            and Reason.GPU_MEMORY_UNDERPROVISIONED not in finding.reasons
        ),
    ),
    # If compute alone is short, the finding about the SMs covers it.
    (
        lambda finding: finding.reasons[0] is Reason.COMPUTE_SATURATED,
        lambda finding: finding.reasons == _SHORT_OF_COMPUTE,
    ),
    # A diurnal load gets autoscaling, not fewer GPUs.
    (
        _says(Reason.DIURNAL_AUTOSCALE),
        lambda finding: (
            Reason.DIURNAL_AUTOSCALE not in finding.reasons
            and (
                Reason.GPU_COUNT_OVERPROVISIONED in finding.reasons
                or finding.action in _COUNT_ACTIONS
            )
        ),
    ),
)
"""Pairs of tests: a complaint that meets the first suppresses those that meet the second.

Evaluated in this order; a suppressed complaint suppresses no others.
"""


def without_conflicts(judgements: Sequence[Judgement]) -> tuple[Judgement, ...]:
    """Return the judgements in order, with contradicted ones suppressed.

    Independent for each workload, and of the order of judgements.
    """
    by_key: dict[str, list[int]] = {}
    for place, judgement in enumerate(judgements):
        by_key.setdefault(judgement.key, []).append(place)
    result = [_with_exclusive_group(judgement) for judgement in judgements]
    for places in by_key.values():
        suppressed = _suppress_conflicts([result[place] for place in places])
        for place, judgement in zip(places, suppressed, strict=True):
            result[place] = judgement
    return tuple(result)


def _suppress_conflicts(judgements: list[Judgement]) -> list[Judgement]:
    complaints = {
        place: judgement.finding
        for place, judgement in enumerate(judgements)
        if judgement.finding.is_actionable
    }
    suppressed: set[int] = set()
    for wins, yields in _PRECEDENCES if len(complaints) > 1 else ():
        # A complaint that ended before the end of the span suppresses nothing.
        winners = {
            f"{finding.rule} ({', '.join(finding.reasons)})"
            for place, finding in complaints.items()
            if judgements[place].still_holds is not False
            and place not in suppressed
            and wins(finding)
        }
        if not winners:
            continue
        for place, finding in complaints.items():
            if place not in suppressed and yields(finding):
                why = ", ".join(sorted(winners))
                judgements[place] = judgements[place].suppressed_by_conflict(why)
                suppressed.add(place)
    return judgements


def _with_exclusive_group(judgement: Judgement) -> Judgement:
    finding = judgement.finding
    is_size = finding.is_actionable and finding.action in _SIZE_ACTIONS
    if not is_size or finding.exclusive_group is not None:
        return judgement
    group = finding_id(judgement.key, "exclusive", "size", "")
    return replace(judgement, finding=replace(finding, exclusive_group=group))
