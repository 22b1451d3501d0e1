"""Engine: every rule judges every workload; of verdicts that contradict each other one stands."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Any, Final, TypeVar

from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Judgement, OpeningPolicy, Rule
from rightsizer.advice.verdict import CaseSubject, finding_id
from rightsizer.advice.verification import RELEASING, REPLACING
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.finding import Action, Case, Finding, FindingKind, Reason
from rightsizer.model.frozen import replace
from rightsizer.model.units import Nanoseconds, format_duration, nanoseconds

_Answer = TypeVar("_Answer")
_FAILED: Final = "the rule failed, which is a fault of this program; its log says how"

Cases = Callable[[Nanoseconds | None], Sequence[Case]]
"""The cases of all workloads over the last span of time; `None` for all there is."""
Tuned = Callable[[Rule[Any], Case], Rule[Any]]
"""A rule as an operator wants it for one workload."""
Failed = Callable[[str, str, Exception], None]
"""Called for a rule that raised: with its name, the workload's key, and what it raised."""


class _RuleError(Exception):
    """A rule raised; no fault of the accounts, nor of any other rule."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def raised(rule: str, key: str, error: Exception) -> None:
    """Raise the fault of a rule; for callers that log none."""
    del rule, key
    raise error


def judge_span(
    cases: Sequence[Case],
    rules: Sequence[Rule[Any]] = RULES,
    tuned: Tuned = lambda rule, _: rule,
    failed: Failed = raised,
) -> tuple[Judgement, ...]:
    """Every rule's verdict on every case as it stands, without contradictions; none opens advice.

    All rules judge the one span that the cases are of, in place of spans of their own.
    """
    judgements = []
    for case in cases:
        for general in rules:
            try:
                rule = _answer(tuned, general, case)
                finding = _answer(_patient, rule, case)
            except _RuleError as fault:
                failed(general.name, case.key, fault.error)
                finding = _failure(general, case)
            judgements.append(_undecided(finding, case, OpeningPolicy()))
    return without_conflicts(judgements)


def _patient(rule: Rule[Any], case: Case) -> Finding:
    """The verdict, but that idleness shorter than the rule waits for is nothing to act on."""
    finding = rule.judge(case)
    if not finding.is_complaint or finding.kind is not FindingKind.IDLE:
        return finding
    policy, known = rule.conduct(case.workload), case.known_seconds
    subject = CaseSubject(rule.name, case, rule.market)
    if known >= policy.minimum_known_seconds:
        return finding
    summary = (
        f"{subject.name}: idle for {format_duration(known)} so far; "
        f"a recommendation opens after {format_duration(policy.long_seconds)}."
    )
    return subject.find_nothing(summary, {}, finding.evidence)


def complaints(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """What there is to do, without what other verdicts contradict and what policies ignore."""
    return tuple(
        each
        for each in findings
        if each.is_complaint and each.evidence.keys().isdisjoint(("held_back", "excluded"))
    )


def unadvised(findings: Iterable[Finding], advice: Iterable[Advice]) -> tuple[Finding, ...]:
    """Complaints that no advice tells of; what was closed still holds of the span as a whole."""
    known = {each.id for each in advice if each.is_open or each.state is AdviceState.DISMISSED}
    return tuple(each for each in complaints(findings) if each.id not in known)


def judge_all(
    cases: Cases,
    rules: Sequence[Rule[Any]] = RULES,
    open_now: AbstractSet[tuple[str, str]] = frozenset(),
    tuned: Tuned = lambda rule, _: rule,
    failed: Failed = raised,
) -> tuple[Judgement, ...]:
    """Every rule's verdict on every workload over the rule's own spans, without contradictions.

    Recent time is judged only for complaints and open advice (by workload key and rule). A rule
    that raises is reported to `failed`, and loses that verdict.
    """
    by_key = cache(lambda span: {case.key: case for case in cases(span)})
    judgements = []
    for general in rules:
        for key, present in by_key(0).items():
            try:
                rule = _answer(tuned, general, present)
                found = _judged(rule, present, by_key, is_open=(key, rule.name) in open_now)
            except _RuleError as fault:
                failed(general.name, key, fault.error)
                found = _undecided(_failure(general, present), present, OpeningPolicy())
            if found is not None:
                judgements.append(found)
    return without_conflicts(judgements)


def _judged(
    rule: Rule[Any],
    present: Case,
    by_key: Callable[[Nanoseconds], Mapping[str, Case]],
    *,
    is_open: bool,
) -> Judgement | None:
    conduct = _answer(rule.conduct, present.workload)
    long_case = by_key(nanoseconds(conduct.long_seconds)).get(present.key)
    if long_case is None:  # The accounts move on between two looks; it has just left.
        return None
    finding = _answer(rule.judge, long_case)
    judgement = _undecided(finding, long_case, conduct)
    matters = finding.is_complaint or is_open
    short_case = by_key(nanoseconds(conduct.short_seconds)).get(present.key) if matters else None
    if short_case is None:
        return judgement
    return judgement.settled(
        _answer(rule.judge, short_case) if finding.is_complaint else None,
        lambda: _answer(rule.relaxed(conduct.close_ratio).judge, short_case),
        long_case.known_seconds,
    )


def _answer(ask: Callable[..., _Answer], *of: Any) -> _Answer:
    """What a rule says; what it raises is its fault, whatever it is."""
    try:
        return ask(*of)
    except Exception as error:
        raise _RuleError(error) from error


def _failure(rule: Rule[Any], case: Case) -> Finding:
    subject = CaseSubject(rule.name, case, rule.market)
    return subject.abstain(_FAILED, Reason.INSUFFICIENT_DATA)


def _undecided(finding: Finding, case: Case, conduct: OpeningPolicy) -> Judgement:
    return Judgement(
        finding, case.key, conduct, may_open=False, still_holds=None, workload=case.workload
    )


_SIZE_ACTIONS: Final = RELEASING | REPLACING | {Action.AUTOSCALE}
"""After one of them the workload has other GPUs, to which the others no longer apply."""
_NAMED_LIMITS: Final = frozenset(
    {Reason.HOST_BOUND, Reason.STORAGE_BOUND, Reason.NETWORK_BOUND, Reason.PCIE_BOUND}
)
_COUNT_ACTIONS: Final = frozenset({Action.REDUCE_REPLICAS, Action.REDUCE_GPU_COUNT})
_SHORT_OF_COMPUTE: Final = (Reason.GPU_UNDERPROVISIONED, Reason.COMPUTE_SATURATED)

_Test = Callable[[Finding], bool]


def _says(*words: FindingKind | Reason) -> _Test:
    """Whether a finding is of one of some kinds, or for one of some reasons."""
    named = frozenset(words)
    return lambda finding: finding.kind in named or not named.isdisjoint(finding.reasons)


_PRECEDENCES: Final[tuple[tuple[_Test, _Test], ...]] = (
    # A rank that waits for the others looks idle, and is not.
    (_says(Reason.HIDDEN_STALL, Reason.RANK_IMBALANCE), _says(FindingKind.IDLE)),
    # Ranks that spin for one that is named are out of balance with it.
    (
        lambda finding: Reason.HIDDEN_STALL in finding.reasons and bool(finding.culprits),
        _says(Reason.RANK_IMBALANCE),
    ),
    # What does nothing has neither a bottleneck nor a size.
    (_says(FindingKind.IDLE), _says(FindingKind.INEFFICIENT, FindingKind.OVERPROVISIONED)),
    # What keeps a GPU waiting says more than that it waits.
    (_says(*_NAMED_LIMITS), _says(Reason.PERIODIC_STARVATION)),
    # docs/definitions.md, conduct: never 'over' while any dimension is 'under'.
    (_says(FindingKind.UNDERPROVISIONED), _says(FindingKind.OVERPROVISIONED)),
    # Short of compute and of nothing else: what is said of the SMs says it all.
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
"""While the first is true of a complaint, complaints of which the second is true are held back.

In this order: what was held back holds nothing back.
"""


def without_conflicts(judgements: Sequence[Judgement]) -> tuple[Judgement, ...]:
    """The judgements, in their order, with those held back that others contradict.

    Each workload's are looked at by themselves, and their order does not matter.
    """
    by_key: dict[str, list[int]] = {}
    for place, judgement in enumerate(judgements):
        by_key.setdefault(judgement.key, []).append(place)
    result = [_grouped(judgement) for judgement in judgements]
    for places in by_key.values():
        for place, settled in zip(places, _settled([result[at] for at in places]), strict=True):
            result[place] = settled
    return tuple(result)


def _settled(judgements: list[Judgement]) -> list[Judgement]:
    held: set[int] = set()
    for wins, yields in _PRECEDENCES:
        # A complaint that was over before the end of the span holds nothing back.
        winners = {
            f"{judgement.finding.rule} ({', '.join(judgement.finding.reasons)})"
            for place, judgement in enumerate(judgements)
            if judgement.finding.is_complaint
            and judgement.still_holds is not False
            and place not in held
            and wins(judgement.finding)
        }
        if not winners:
            continue
        for place, judgement in enumerate(judgements):
            if judgement.finding.is_complaint and yields(judgement.finding):
                if place not in held:
                    why = ", ".join(sorted(winners))
                    judgements[place] = judgement.suppressed_by_conflict(why)
                held.add(place)
    return judgements


def _grouped(judgement: Judgement) -> Judgement:
    finding = judgement.finding
    is_size = finding.is_complaint and finding.action in _SIZE_ACTIONS
    if not is_size or finding.exclusive_group is not None:
        return judgement
    group = finding_id(judgement.key, "exclusive", "size", "")
    return replace(judgement, finding=replace(finding, exclusive_group=group))
