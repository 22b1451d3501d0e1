"""A schedule as what an operator applies: a KEDA ScaledObject, or a table for other owners."""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from rightsizer.advice.autoscale_schedule import Schedule
from rightsizer.domain.finding import Instruction
from rightsizer.domain.workload import Workload, WorkloadKind

__all__ = ["scaled_object", "schedule_instructions", "spans_of"]

_DAY_HOURS: Final = 24
_HOUR_MINUTES: Final = 60
_MINUTE_SECONDS: Final = 60.0
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_CRON_DAYS: Final = (1, 2, 3, 4, 5, 6, 0)


def spans_of(schedule: Schedule) -> tuple[tuple[int, int, int], ...]:
    """First hour, hour after the last, and replicas of each span of equal replicas.

    What goes on over the end of the day, or of the week, is one span.
    """
    found, at = [], 0
    for replicas, group in groupby(schedule.replicas):
        length = len(list(group))
        found.append((at, at + length, replicas))
        at += length
    if len(found) > 1 and found[0][2] == found[-1][2]:
        first, last = found[0], found.pop()
        found[0] = (last[0], first[1], first[2])
    return tuple((start, end % at, replicas) for start, end, replicas in found)


def schedule_instructions(workload: Workload, schedule: Schedule) -> tuple[Instruction, ...]:
    """How to scale by the hour; in words where no scheduler of the owner's is known."""
    if workload.kind is WorkloadKind.KUBERNETES:
        text = _by_the_hour(workload, schedule)
        return (Instruction("Scale by the hour with KEDA", text, "yaml"),)
    lines = [
        f"{_clock(start, schedule)}-{_clock(end, schedule)} UTC: {replicas}"
        for start, end, replicas in spans_of(schedule)
    ]
    text = "\n".join(["Replicas on this node:", *lines])
    return (Instruction("Scale by the hour", text, "text"),)


def scaled_object(workload: Workload, spec: Sequence[str], notes: Sequence[str] = ()) -> str:
    """A manifest of KEDA's that scales the Deployment of a workload's name.

    Args:
        workload: What is scaled.
        spec: Further lines of its `spec`, as they stand there without indent.
        notes: What comes before it, a comment a line.
    """
    namespace = [f"  namespace: {workload.namespace}"] if workload.namespace else []
    lines = [
        *(f"# {each}" for each in notes),
        "apiVersion: keda.sh/v1alpha1",
        "kind: ScaledObject",
        "metadata:",
        f"  name: {workload.name}",
        *namespace,
        "spec:",
        "  scaleTargetRef:",
        "    kind: Deployment",
        f"    name: {workload.name}",
        *(f"  {each}" for each in spec),
    ]
    return "\n".join(lines) + "\n"


def _by_the_hour(workload: Workload, schedule: Schedule) -> str:
    least, most = min(schedule.replicas), max(schedule.replicas)
    note = "Nothing answers outside these hours: add a trigger on requests to wake it."
    notes = ["Counts are of the replicas on this node; hours are UTC."]
    lines = [f"minReplicaCount: {least}", f"maxReplicaCount: {most}", "triggers:"]
    lead = math.ceil(schedule.lead_seconds / _MINUTE_SECONDS)
    for start, end, replicas in spans_of(schedule):
        if replicas > least:
            lines += [
                "  - type: cron",
                "    metadata:",
                "      timezone: Etc/UTC",
                f'      start: "{_cron(start, schedule, lead)}"',
                f'      end: "{_cron(end, schedule)}"',
                f'      desiredReplicas: "{replicas}"',
            ]
    return scaled_object(workload, lines, [note, *notes] if least == 0 else notes)


def _cron(hour: int, schedule: Schedule, lead_minutes: int = 0) -> str:
    minutes = (hour * _HOUR_MINUTES - lead_minutes) % (len(schedule.replicas) * _HOUR_MINUTES)
    hours, minute = divmod(minutes, _HOUR_MINUTES)
    day, hour = divmod(hours, _DAY_HOURS)
    return f"{minute} {hour} * * {_CRON_DAYS[day] if schedule.is_weekly else '*'}"


def _clock(hour: int, schedule: Schedule) -> str:
    day, hour = divmod(hour, _DAY_HOURS)
    return f"{_DAYS[day]} {hour:02}:00" if schedule.is_weekly else f"{hour:02}:00"
