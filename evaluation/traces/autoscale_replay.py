"""A fleet as one group: what fewer replicas, or following the load, would have meant.

Each pod is a replica. The figures come straight from the rows; the verdicts from the product's
rules, over one case whose devices are the pods of the fleet.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from evaluation.traces.fleet_group import Group, group_of
from evaluation.traces.fleet_trace import Fleet, accounts_of, pods
from measured import as_rows, quantile, table
from rightsizer.advice.autoscale_schedule import ScalingSettings, replicas_for
from rightsizer.advice.rules import RULES
from rightsizer.model.finding import Action, Case, Finding, Reason
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
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
_FORBIDDEN: Final = frozenset({Action.REDUCE_GPU_COUNT, Action.REDUCE_REPLICAS})


class Autoscaler(Struct, frozen=True):
    """Autoscaler: replicas by the recent maximum of busy ones."""

    name: str
    minutes: int
    replicas: Callable[[int, int], int]
    """How many to have, by the most that were busy and the size of the fleet."""
    lag_minutes: int = 5


class Outcome(Struct, frozen=True):
    """Cost and shortage under an autoscaler."""

    saved_ratio: float
    """Of the replicas' hours."""
    saved_hours: float
    short_ratio: float
    """Of the moments."""


def published(minutes: int, factor: float, extra: int) -> Autoscaler:
    """Published rule of the whole fleet, its addition scaled to this one."""

    def replicas(most: int, size: int) -> int:
        return math.ceil(most * factor) + math.ceil(extra * size / _REFERENCE)

    name = f"most in {minutes} min x {factor:g} + {extra} of {_REFERENCE}"
    return Autoscaler(name, minutes, replicas)


def ours(settings: ScalingSettings) -> Autoscaler:
    """The product's way to follow a load."""
    return Autoscaler(
        "Rightsizer's",
        round(settings.lookback_seconds / 60),
        lambda most, size: replicas_for(most, size, settings),
        round(settings.lag_seconds / 60),
    )


FOLLOWERS: Final = (
    ours(ScalingSettings()),
    published(30, 1.35, 5),
    published(30, 1.2, 4),
    published(15, 1.2, 2),
)


def follow(group: Group, rule: Autoscaler) -> Outcome:
    """Replicas under an autoscaler, and the time in which one was missing.

    While it cannot look back as far as it should, it keeps all.
    """
    back, lag = (each * _MINUTE // group.step for each in (rule.minutes, rule.lag_minutes))
    size = max(group.held)
    kept = short = 0
    for at, (held, busy) in enumerate(zip(group.held, group.busy, strict=True)):
        seen = group.busy[at - lag - back : at - lag + 1] if at >= lag + back else ()
        given = min(held, rule.replicas(max(seen), size)) if seen else held
        kept += given
        short += busy > given
    there = sum(group.held)
    hours = (there - kept) * group.step / (60 * _MINUTE)
    return Outcome(1.0 - kept / there, hours, short / len(group.held))


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
    yield table(map(partial(_outcome, group), FOLLOWERS), headings)
    durations = {pod.name: len(pod.times) * group.step for pod in pods(folder)}
    judged = {
        name: _judge(fleet_case(folder, names, days)) for name, names, days in _views(durations)
    }
    summary = "\n".join(_summary_of(judged))
    yield as_rows(f"\nEvery rule on the fleet as one service, with its confidence:\n\n{summary}")
    columns = ("pods", "at once", "following saves", "short", "schedule saves", "short", "replicas")
    advised = table(
        (
            (name, *_advised(found))
            for name, findings in judged.items()
            for found in findings
            if found.rule == "diurnal_autoscale" and "schedule" in found.evidence
        ),
        columns,
    )
    what = "What `DiurnalAutoscale` recommends over the recording as it is, with its own figures"
    yield as_rows(f"\n{what}:\n\n{advised}")
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
    silent = [found for found in lines if all(each.abstained is not None for each in found)]
    yield table(
        (
            (found[0].rule, *(f"{_words(each)}, {each.confidence:.2f}" for each in found))
            for found in lines
            if found not in silent
        ),
        ("rule", *judged),
    )
    names = ", ".join(found[0].rule for found in silent) or "none"
    yield f"\nRules that always abstain, for want of telemetry: {names}."


def _advised(found: Finding) -> tuple[str, ...]:
    """The evidence of the product's own finding; the schedule of one day is judged by that day."""
    evidence: Mapping[str, Any] = found.evidence
    following = evidence["following_the_load"]
    by_schedule = evidence["by_schedule"]
    replicas = [span["replicas"] for span in evidence["schedule"]]
    return (
        f"{evidence['replicas']}",
        f"{following['saved_ratio']:.1%}",
        f"{following['short_ratio']:.2%}",
        f"{by_schedule['saved_ratio']:.1%}",
        f"{by_schedule['short_ratio']:.2%}",
        f"{min(replicas)} to {max(replicas)}",
    )


def _outcome(group: Group, rule: Autoscaler) -> tuple[str, ...]:
    found = follow(group, rule)
    minutes = found.short_ratio * len(group.held) * group.step / _MINUTE
    return (
        rule.name,
        f"{found.saved_ratio:.1%}",
        f"{found.saved_hours:.0f}",
        f"{found.short_ratio:.2%}",
        f"{minutes:.0f}",
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
        any(Reason.DIURNAL_AUTOSCALE in finding.reasons for finding in found)
        for found in complaints
    )
    against = sorted(
        {
            finding.rule
            for found in complaints
            for finding in found
            if {finding.action, *(option.action for option in finding.options)} & _FORBIDDEN
        }
    )
    return (
        f"`DiurnalAutoscale` is found: {'pass' if says else 'FAIL'}. No rule advises fewer "
        f"replicas or GPUs for good: {'FAIL: ' + ', '.join(against) if against else 'pass'}."
    )
