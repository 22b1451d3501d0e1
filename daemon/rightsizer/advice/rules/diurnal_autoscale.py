"""Rule: services with a diurnal load, to be scaled by a schedule.

With less than two days of history it looks for one long quiet period, at lower confidence.
"""

from itertools import groupby
from typing import Annotated, Final

from rightsizer.advice.autoscale_schedule import (
    ReplicaSchedule,
    ScalingSettings,
    schedule,
    schedule_instructions,
    spans_of,
)
from rightsizer.advice.board_status import is_shared, works_on_media
from rightsizer.advice.replica_load import ReplicaLoad, ReplicaSettings, replica_load
from rightsizer.advice.risk import risk_of
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.savings import release_savings
from rightsizer.advice.screen import Screen, SubjectTable, unmeasured, well
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.values import (
    BLOCK_SPAN,
    CONSTANT,
    Action,
    Finding,
    Option,
    Reason,
    Spec,
    WorkloadClass,
    format_duration,
    percent_text,
    seconds,
)

_WEEKS: Final = 2
_MOST_NAMES: Final = 16


class DiurnalAutoscaleSettings(RuleSettings, frozen=True):
    """Thresholds for scaling by the hour.

    Attributes:
        on_ratio: Share of the GPU time that a schedule made from the other days must save.
            Source: half of what the serving fleet of docs/definitions.md, sources, would have saved
        minimum_known_seconds: Known time below which the rule abstains.
            Source: most of a day: 20 h
        most_short_ratio: Share of time short of a replica beyond which the load is too irregular.
            Source: docs/definitions.md, sources: short for .1 to .8% of the time
        quiet_ratio: Need, relative to the maximum, up to which a time is quiet.
            Source: half of the group is unneeded
        quiet_seconds: Minimum quiet time in a history of less than two days.
            Source: half a night; longer than a lunch break
        seen_once_ratio: Confidence in a cycle that was seen only once.
            Source: nights are usual, quiet days possible
        minimum_days: Days of history from which the load must have repeated.
            Source: two cycles
    """

    on_ratio: Annotated[float, Spec(within=(0.01, 1))] = 0.15
    minimum_known_seconds: Annotated[float, Spec(within=(3600, None)), CONSTANT] = 72000.0
    most_short_ratio: Annotated[float, CONSTANT] = 0.02
    quiet_ratio: Annotated[float, CONSTANT] = 0.5
    quiet_seconds: Annotated[float, Spec(within=(3600, None)), CONSTANT] = 14400.0
    seen_once_ratio: Annotated[float, CONSTANT] = 0.6
    minimum_days: Annotated[float, Spec(unit="days", within=(1, 30)), CONSTANT] = 2.0
    replicas: ReplicaSettings = ReplicaSettings()
    scaling: ScalingSettings = ScalingSettings()
    conduct: OpeningPolicy = OpeningPolicy.sizing(72000.0)


_UNSTATED: Final = "it is not stated that this is a service; state its class in a policy"


def judge(subject: CaseSubject, settings: DiurnalAutoscaleSettings) -> Finding:
    """Whether a service needs fewer replicas at some hours of every day."""
    if (early := _early(subject)) is not None:
        return early
    case = subject.case
    load = replica_load(case, settings.replicas)
    known_seconds = load.known_seconds if load else 0.0
    if load is None or known_seconds < settings.minimum_known_seconds:
        why = (
            f"only {format_duration(known_seconds)} of telemetry; "
            "a day has hours that were not seen"
        )
        return subject.abstain(why, Reason.INSUFFICIENT_DATA)
    # Schedules take long to find.
    if (saving := load.saved_at_most(settings.most_short_ratio)) < settings.on_ratio:
        summary = f"{subject.name}: following the load would save at most {percent_text(saving)}."
        factors = load.factors(case, settings.on_ratio - saving)
        return subject.find_nothing(summary, factors, _about(load))
    shape = case.shape()
    is_long = shape is not None and shape.known_days >= settings.minimum_days
    is_repeated = shape is not None and is_long and (shape.is_daily or shape.is_weekly)
    about = _about(load)
    if not is_repeated and (is_long or not _has_quiet_part(load, settings)):
        summary = f"{subject.name}: no cycle by the hour of the day."
        return subject.find_nothing(summary, load.factors(case, 0.0), about)
    is_weekly = (
        shape is not None
        and shape.is_weekly
        and shape.covers_cycle
        and shape.known_days >= _WEEKS * 7
    )
    planned = schedule(load, settings.scaling, is_weekly=is_weekly)
    evidence = about | {
        "schedule": [
            {"from_hour": start, "to_hour": end, "replicas": replicas}
            for start, end, replicas in spans_of(planned)
        ],
        "periods": planned.periods,
        "cycle_seen_again": is_repeated,
        "by_schedule": planned.outcome.evidence(load.gpus_each),
    }
    outcome = planned.outcome
    margin = outcome.saved_ratio - settings.on_ratio
    if margin < 0.0 or outcome.short_ratio > settings.most_short_ratio:
        summary = (
            f"{subject.name}: a schedule would save {percent_text(max(0.0, outcome.saved_ratio))} "
            f"of the GPU time and be short {outcome.short_ratio:.1%} of the time."
        )
        return subject.find_nothing(summary, load.factors(case, -margin), evidence)
    factors = load.factors(case, margin)
    if not is_repeated:
        factors["cycle"] = settings.seen_once_ratio
    return _problem(subject, load, planned, factors, evidence)


def _about(load: ReplicaLoad) -> dict[str, object]:
    return {
        "replicas": load.size,
        "gpus_per_replica": load.gpus_each,
        "replicas_needed_most": max(load.needed),
        "replicas_needed_mean": round(sum(load.needed) / len(load.needed), 2),
    }


def _early(subject: CaseSubject) -> Finding | None:
    if (workload_class := subject.case.workload_class) is WorkloadClass.UNKNOWN:
        return subject.abstain(_UNSTATED)
    if workload_class is not WorkloadClass.SERVING:
        return subject.find_nothing(f"A {workload_class} workload has no hours.")
    if is_shared(subject.case):
        return subject.find_nothing(f"{subject.name}: shared; the others stay when it sleeps.")
    if any(provisioning.is_underprovisioned for provisioning in subject.case.provisioning):
        return subject.find_nothing("Under pressure, so not too large.")
    if works_on_media(subject.case):
        return subject.abstain("it works on the media engines, whose hours are not kept")
    return None


def _problem(
    subject: CaseSubject,
    load: ReplicaLoad,
    planned: ReplicaSchedule,
    factors: dict[str, float],
    evidence: dict[str, object],
) -> Finding:
    case = subject.case
    outcome = planned.outcome
    count = load.size * load.gpus_each
    # Replicas that replaced one another were not held at once.
    is_named = len(case.devices) <= min(count, _MOST_NAMES)
    who = subject.name if is_named else f"{count} GPUs"
    saved_gpus = outcome.saved_mean * load.gpus_each
    share = saved_gpus / case.gpus
    savings = release_savings(case, subject.market, share, share)
    risk = risk_of(outcome.short_ratio, case.effective_samples())
    scaling = f"{min(planned.replicas)} to {max(planned.replicas)} replicas by hour of day"
    return subject.find_problem(
        reasons=(Reason.DIURNAL_AUTOSCALE,),
        action=Action.AUTOSCALE,
        summary=(
            f"{who} of {case.workload.name if case.workload else ''}: diurnal load; {scaling} "
            f"instead of {load.size} would have used {percent_text(outcome.saved_ratio)} fewer "
            f"GPU-hours, short of capacity for {outcome.short_ratio:.1%} of the time"
            f"{planned.basis}."
        ),
        factors=factors,
        risk=risk,
        evidence=evidence,
        options=(
            Option(
                f"{scaling}, instead of {load.size}",
                risk,
                action=Action.AUTOSCALE,
                savings=savings,
            ),
        ),
        savings=savings,
        instructions=schedule_instructions(case.workload, planned) if case.workload else (),
        affected_gpus=saved_gpus,
    )


def _has_quiet_part(load: ReplicaLoad, settings: DiurnalAutoscaleSettings) -> bool:
    """Whether a history too short for a cycle has a long uninterrupted quiet period."""
    limit = settings.quiet_ratio * max(load.needed)
    runs = groupby(
        enumerate(zip(load.starts, load.needed, strict=True)),
        lambda block: (block[1][1] <= limit, block[1][0] // BLOCK_SPAN - block[0]),
    )
    longest = max((len(list(run)) for (is_quiet, _), run in runs if is_quiet), default=0)
    return limit > 0 and longest * seconds(BLOCK_SPAN) >= settings.quiet_seconds


def screen(table: SubjectTable, _: DiurnalAutoscaleSettings) -> Screen:
    """Settle which subjects are no services that could follow their load."""
    yield unmeasured(table.is_of(WorkloadClass.UNKNOWN), _UNSTATED)
    yield well(~table.is_of(WorkloadClass.SERVING) | table.is_shared | table.is_underprovisioned)


RULE: Final = Rule("diurnal_autoscale", DiurnalAutoscaleSettings(), judge, screen)
