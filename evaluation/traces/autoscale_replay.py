"""A fleet as one group: what fewer replicas, or following the load, would have meant.

Each pod is a replica. The figures come straight from the rows; the verdicts from the product's
rules, over one case whose devices are the pods of the fleet.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from evaluation.traces.fleet_group import Group, group_of
from evaluation.traces.fleet_trace import Fleet, accounts_of, pods
from measured import as_rows, quantile, table
from rightsizer.advice.autoscale_schedule import (
    ReplicaSchedule,
    ScalingOutcome,
    ScalingSettings,
    replayed,
    schedule,
)
from rightsizer.advice.replica_load import ReplicaSettings, replica_load
from rightsizer.advice.rules import RULES
from rightsizer.model.finding import Action, Case, Finding, Reason
from rightsizer.model.units import HOUR_SECONDS, NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.model.workload import Workload, WorkloadClass, WorkloadKind

_MINUTE: Final = 60 * NANOSECONDS_PER_SECOND
_HIGH: Final = 0.99
_ROOM: Final = 1.15
_REFERENCE: Final = 110
"""Replicas of the whole fleet, from which the published additions come."""
_FLEET: Final = Workload("recorded/fleet", WorkloadKind.RECORDED, "fleet", WorkloadClass.SERVING)
_LONG: Final = 20 * 60 * _MINUTE
_FEW: Final = 16
_DAYS: Final = 4
_TOLD: Final = """\
`DiurnalAutoscale` by the recording as it is: what its sentence tells; what the printed schedule
means for each row, where a pod at work needs a replica of its own; the same for schedules that are
made of every other pod and asked of those between.
"""
_FORBIDDEN: Final = frozenset({Action.REDUCE_GPU_COUNT, Action.REDUCE_REPLICAS})


class Autoscaler(Struct, frozen=True):
    """Autoscaler that follows the load: replicas by the recent maximum of busy ones."""

    name: str
    minutes: int
    replicas: Callable[[int, int], int]
    """How many to have, by the most that were busy and the size of the fleet."""
    lag_minutes: int = 5


def published(minutes: int, factor: float, extra: int) -> Autoscaler:
    """Published rule of the whole fleet, its addition scaled to this one."""

    def replicas(most: int, size: int) -> int:
        return math.ceil(most * factor) + math.ceil(extra * size / _REFERENCE)

    name = f"most in {minutes} min x {factor:g} + {extra} of {_REFERENCE}"
    return Autoscaler(name, minutes, replicas)


FOLLOWERS: Final = (published(30, 1.35, 5), published(30, 1.2, 4), published(15, 1.2, 2))
"""Baselines."""


def follow(group: Group, rule: Autoscaler) -> ScalingOutcome:
    """Replicas under an autoscaler, and the time in which one was missing.

    While it cannot look back as far as it should, it keeps all.
    """
    back, lag = (each * _MINUTE // group.step for each in (rule.minutes, rule.lag_minutes))
    size = max(group.held)
    kept = [
        rule.replicas(max(group.busy[at - back : at + 1]), size) if at >= back + lag else size
        for at in range(len(group.busy))
    ]
    ready = [min(kept[max(0, at - lag)], now) for at, now in enumerate(kept)]
    return replayed(group.held, group.busy, kept, ready, group.step / NANOSECONDS_PER_SECOND)


def by_rows(group: Group, planned: ReplicaSchedule, size: int | None = None) -> ScalingOutcome:
    """What a schedule would have meant for each row; `size`: of the group that it is made for."""
    scale = max(group.held) / (size or max(group.held))
    times = [group.start + at * group.step for at in range(len(group.held))]
    return replayed(
        group.held,
        group.busy,
        [math.ceil(planned.kept_at(time) * scale) for time in times],
        [math.ceil(planned.ready_at(time) * scale) for time in times],
        group.step / NANOSECONDS_PER_SECOND,
    )


def printed_schedule(finding: Finding) -> ReplicaSchedule:
    """The schedule of a finding, by its evidence."""
    spans: Any = finding.evidence["schedule"]
    hours = 24 * (7 if any(span["to_hour"] > 24 for span in spans) else 1)
    replicas = [0] * hours
    for span in spans:
        length = (span["to_hour"] - span["from_hour"]) % hours or hours
        for hour in range(span["from_hour"], span["from_hour"] + length):
            replicas[hour % hours] = span["replicas"]
    nothing = ScalingOutcome(0.0, 0.0, 0.0, 0.0)
    return ReplicaSchedule(tuple(replicas), nothing, 1, ScalingSettings().lag_seconds)


def static_headroom(group: Group) -> float:
    """Share of the largest fleet that is never needed, beyond the headroom."""
    return 1.0 - quantile(group.busy, _HIGH) * _ROOM / max(group.held)


def fleet_case(folder: Path, names: frozenset[str], days: int = 1) -> Case:
    """Case of the whole trace: some pods as devices of one service."""
    accounts = accounts_of(folder, Fleet(_FLEET, names), days)
    return next(case for case in accounts.snapshot(0).cases(None) if case.workload is not None)


def evaluate(folder: Path) -> Iterator[str]:
    """Savings and shortage by the rows, then the verdicts of all rules on the fleet."""
    group = group_of(pods(folder))
    yield (
        f"At most {max(group.held)} pods at once, {max(group.busy)} of them busy at the peak and "
        f"{min(group.busy)} at the quietest. Static headroom, 1 - P99(busy) x {_ROOM} / N: "
        f"{static_headroom(group):.1%}.\n"
    )
    headings = ("replicas, 5 min late", "saved", "pod hours saved", "time short", "minutes short")
    yield "Baselines that follow the load, by the rows:\n"
    yield table(((rule.name, *_cells(follow(group, rule))) for rule in FOLLOWERS), headings)
    durations = {pod.name: len(pod.times) * group.step for pod in pods(folder)}
    views = list(_views(durations))
    judged = {name: _judge(fleet_case(folder, names, days)) for name, names, days in views}
    summary = "\n".join(_summary_of(judged))
    yield as_rows(f"\nEvery rule on the fleet as one service, with its confidence:\n\n{summary}")
    rows = [
        (name, *_advised(folder, finding, names if days == 1 else frozenset()))
        for name, names, days in views
        for finding in judged[name]
        if finding.rule == "diurnal_autoscale" and "schedule" in finding.evidence
    ]
    columns = ("pods", "replicas", "told: saved", "short", "by rows: saved", "short")
    yield f"\n{_TOLD}\n"
    yield table(rows, (*columns, "pods left out: saved", "short"))
    yield f"\n{verdict([*judged.values()])}\n"


def _judge(case: Case) -> list[Finding]:
    return [rule.judge(case) for rule in RULES]


def _views(durations: Mapping[str, Nanoseconds]) -> Iterator[tuple[str, frozenset[str], int]]:
    """Ways to see the fleet: its pods, and how often its day comes.

    Pods that pass by make rules abstain for lack of telemetry, and so does a single day.
    """
    yield f"all {len(durations)} pods", frozenset(durations), 1
    lasting = [name for name, time in durations.items() if time >= _LONG]
    if lasting:
        yield f"{len(lasting)} pods of 20 h", frozenset(lasting), 1
        few = lasting[:_FEW]
        yield f"{len(few)} of them, the same day {_DAYS} times", frozenset(few), _DAYS


def _summary_of(judged: Mapping[str, Sequence[Finding]]) -> Iterator[str]:
    """A line for each rule; those that always abstain for want of telemetry share one."""
    lines = [*zip(*judged.values(), strict=True)]
    silent = [line for line in lines if all(each.abstained is not None for each in line)]
    yield table(
        (
            (line[0].rule, *(f"{_words(each)}, {each.confidence:.2f}" for each in line))
            for line in lines
            if line not in silent
        ),
        ("rule", *judged),
    )
    names = ", ".join(found[0].rule for found in silent) or "none"
    yield f"\nRules that always abstain, for want of telemetry: {names}."


def _advised(folder: Path, finding: Finding, names: frozenset[str]) -> tuple[str, ...]:
    """What was told, what the printed schedule means for each row, and for pods left out."""
    evidence: Mapping[str, Any] = finding.evidence
    planned = printed_schedule(finding)
    told = evidence["by_schedule"]
    replicas = f"{min(planned.replicas)} to {max(planned.replicas)} of {evidence['replicas']}"
    cells = [replicas, f"{told['saved_ratio']:.1%}", f"{told['short_ratio']:.2%}"]
    if not names:
        return *cells, *[""] * 4
    group = group_of(pod for pod in pods(folder) if pod.name in names)
    for outcome in (by_rows(group, planned), left_out(folder, names)):
        cells += [f"{outcome.saved_ratio:.1%}", f"{outcome.short_ratio:.2%}"]
    return tuple(cells)


def left_out(folder: Path, names: Collection[str]) -> ScalingOutcome:
    """Schedules of every other pod, asked of the pods between them, both ways."""
    ordered = sorted(names)
    halves = [frozenset(ordered[at::2]) for at in range(2)]
    outcomes = []
    for made_of, asked_of in (halves, reversed(halves)):
        load = replica_load(fleet_case(folder, made_of), ReplicaSettings())
        if load is None:
            raise ValueError("a half of the fleet has no load")
        group = group_of(pod for pod in pods(folder) if pod.name in asked_of)
        outcomes.append(by_rows(group, schedule(load, ScalingSettings()), load.size))
    return ScalingOutcome(
        held_seconds=sum(outcome.held_seconds for outcome in outcomes),
        scaled_seconds=sum(outcome.scaled_seconds for outcome in outcomes),
        short_seconds=sum(outcome.short_seconds for outcome in outcomes),
        known_seconds=sum(outcome.known_seconds for outcome in outcomes),
    )


def _cells(outcome: ScalingOutcome) -> tuple[str, ...]:
    hours = (outcome.held_seconds - outcome.scaled_seconds) / HOUR_SECONDS
    return (
        f"{outcome.saved_ratio:.1%}",
        f"{hours:.0f}",
        f"{outcome.short_ratio:.2%}",
        f"{outcome.short_seconds / 60:.0f}",
    )


def _words(finding: Finding) -> str:
    if finding.abstained is not None:
        return f"abstains: {finding.abstained}"
    if not finding.is_actionable:
        return "nothing to say"
    return f"{', '.join(finding.reasons)} ({finding.action})"


def verdict(judged: Sequence[Sequence[Finding]]) -> str:
    """The promise of this fleet, for each way to see it."""
    complaints = [[finding for finding in found if finding.is_actionable] for found in judged]
    says = all(
        any(Reason.DIURNAL_AUTOSCALE in finding.reasons for finding in complaint)
        for complaint in complaints
    )
    against = sorted(
        {
            finding.rule
            for complaint in complaints
            for finding in complaint
            if {finding.action, *(option.action for option in finding.options)} & _FORBIDDEN
        }
    )
    return (
        f"`DiurnalAutoscale` is found: {'pass' if says else 'FAIL'}. No rule advises fewer "
        f"replicas or GPUs for good: {'FAIL: ' + ', '.join(against) if against else 'pass'}."
    )
