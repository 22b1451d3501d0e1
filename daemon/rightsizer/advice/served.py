"""Judgements of what engines would need, by the planner's answers, as recommendations."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from rightsizer.advice.market import Market
from rightsizer.advice.rules.rule import Judgement, OpeningPolicy
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.values import (
    HOURS_PER_MONTH,
    Action,
    Case,
    Finding,
    Instruction,
    Option,
    Reason,
    Risk,
    Savings,
    ServedLoad,
)

RULE_NAME: Final = "served"
_POLICY: Final = OpeningPolicy(minimum_known_seconds=0.0, close_after_seconds=3600.0)
"""Closes after an answer without it. Source: the planner is asked by the hour."""
_REASONS: Final[Mapping[str, Reason]] = {
    "too_large": Reason.GPU_OVERPROVISIONED,
    "wide_format": Reason.GPU_OVERPROVISIONED,
    "too_small": Reason.GPU_UNDERPROVISIONED,
    "by_hour": Reason.DIURNAL_AUTOSCALE,
}
"""Of the kinds of findings that ask for other GPUs; the others are told beside the engine."""
_SHORT: Final = Savings(reason="the engine is too small for its load")


class ServedCandidate(Struct, frozen=True):
    """GPUs of a plan."""

    gpu: str
    paid_count: int


class ServedChange(Struct, frozen=True):
    """One way to run an engine's load, as `rightsizer served` answers."""

    change: str
    text: str
    candidate: ServedCandidate
    probability: float
    """Of keeping memory, rate and service level."""
    risk: Risk
    canary: str | None = None
    launch: str | None = None
    savings_dollars_per_hour: float | None = None
    savings_dollars_per_hour_low: float | None = None
    savings_dollars_per_hour_high: float | None = None


class ServedProblem(Struct, frozen=True):
    """What is not right about an engine."""

    kind: str
    summary: str
    abstained: str | None = None
    """Why nothing is advised, if it is not."""
    evidence: tuple[str, ...] = ()
    options: tuple[ServedChange, ...] = ()


class EngineAnswer(Struct, frozen=True):
    """What `rightsizer served` answers about one load, as far as it is judged."""

    name: str
    load: ServedLoad
    predicted: ServedCandidate | None = None
    """What runs; `None` if it is not known."""
    findings: tuple[ServedProblem, ...] = ()


def served_judgements(
    answers: Sequence[EngineAnswer], cases: Iterable[Case]
) -> Iterator[Judgement]:
    """Yield a judgement of each workload whose GPUs engines serve on.

    Of a workload with several engines nothing is advised: its GPUs are no one model's.
    """
    for case in cases:
        uuids = {device.uuid for device in case.devices}
        engines = [answer for answer in answers if not uuids.isdisjoint(answer.load.devices)]
        if engines:
            yield Judgement.decided(_judged(_subject(case), engines), _POLICY, case.workload)


def unplanned_judgements(why: str, cases: Iterable[Case]) -> Iterator[Judgement]:
    """Yield judgements that know nothing, for advice that is open while no plan can be made."""
    for case in cases:
        yield Judgement.decided(_subject(case).abstain(why), _POLICY, case.workload)


def _subject(case: Case) -> CaseSubject:
    return CaseSubject(RULE_NAME, case, Market())


def _judged(subject: CaseSubject, engines: Sequence[EngineAnswer]) -> Finding:
    (engine, *others) = engines
    if others:
        counts = Counter(sorted(answer.load.title for answer in engines))
        names = (f"{count} of {name}" if count > 1 else name for name, count in counts.items())
        return subject.abstain(f"several engines serve on its GPUs: {', '.join(names)}")
    if engine.predicted is None:
        return subject.abstain(f"no plan of {engine.load.title} is known")
    if not {device.uuid for device in subject.case.devices} <= {*engine.load.devices}:
        return subject.abstain(f"{engine.load.title} is served on a part of its GPUs")
    problems = [problem for problem in engine.findings if problem.kind in _REASONS]
    advised = [problem for problem in problems if problem.options and not problem.abstained]
    if advised:
        return _problem(subject, engine.predicted, engine.load, advised[0])
    if problems and problems[0].abstained:
        return subject.abstain(f"{problems[0].summary}; {problems[0].abstained}")
    return subject.find_nothing(f"{subject.name}: {engine.load.title} needs what it has.")


def _problem(
    subject: CaseSubject, runs: ServedCandidate, load: ServedLoad, problem: ServedProblem
) -> Finding:
    reason = _REASONS[problem.kind]
    is_short = reason is Reason.GPU_UNDERPROVISIONED
    first = problem.options[0]
    spared = runs.paid_count - first.candidate.paid_count
    launch = [Instruction(f"Run {first.change}", first.launch, "sh")] if first.launch else []
    canary = [Instruction("To be sure", first.canary)] if first.canary else []
    return subject.find_problem(
        reasons=(reason,),
        action=_action(reason, runs, first.candidate),
        summary=f"{subject.name}: {problem.summary}.",
        factors={"plan": first.probability},
        risk=first.risk,
        evidence={
            "served": {
                "model": load.model,
                "engine": load.engine,
                "requests_per_second": load.requests_per_second,
                "alternatives": [change.text for change in problem.options],
                "shown_by": list(problem.evidence),
            }
        },
        options=tuple(
            Option(
                change.change,
                change.risk,
                change.change,
                _action(reason, runs, change.candidate),
                savings=None if is_short else _savings(reason, runs, change),
            )
            for change in problem.options
        ),
        target=first.candidate.gpu,
        savings=_SHORT if is_short else _savings(reason, runs, first),
        instructions=(*launch, *canary),
        affected_gpus=float(spared if spared > 0 else runs.paid_count),
    )


def _action(reason: Reason, runs: ServedCandidate, after: ServedCandidate) -> Action:
    if reason is Reason.DIURNAL_AUTOSCALE:
        return Action.AUTOSCALE
    if after.gpu != runs.gpu:
        return Action.CHANGE_GPU_TYPE
    if after.paid_count == runs.paid_count:
        return Action.CHANGE_LAYOUT
    is_fewer = after.paid_count < runs.paid_count
    return Action.REDUCE_GPU_COUNT if is_fewer else Action.ADD_GPUS


def _savings(reason: Reason, runs: ServedCandidate, change: ServedChange) -> Savings:
    """What a change saves at the prices of the plan; by the hour, in money alone."""
    is_whole = reason is not Reason.DIURNAL_AUTOSCALE
    gpus = float(runs.paid_count - change.candidate.paid_count) if is_whole else None
    hours = None if gpus is None else round(gpus * HOURS_PER_MONTH, 1)
    dollars = change.savings_dollars_per_hour
    return Savings(
        gpus,
        gpus,
        change.savings_dollars_per_hour_low,
        change.savings_dollars_per_hour_high,
        reason="no price is known" if dollars is None else "",
        gpu_hours_per_month_low=hours,
        gpu_hours_per_month_high=hours,
        dollars_per_hour_typical=dollars,
    )
