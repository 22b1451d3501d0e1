"""Schedules of replicas by the hour, their simulated cost, and their ScaledObject or table."""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import gt
from typing import Annotated, Final

from msgspec import Struct

from rightsizer.advice.replica_load import ReplicaLoad
from rightsizer.model.values import (
    BLOCK_SPAN,
    CONSTANT,
    HOUR,
    HOUR_SECONDS,
    Instruction,
    Nanoseconds,
    Spec,
    Workload,
    nanoseconds,
    seconds,
)
from rightsizer.owners.registry import owner_of

_DAY_HOURS: Final = 24
_EPOCH_HOUR: Final = 3 * 24
"""1970 began on a Thursday; hour 0 of a week is the first of Monday."""
_ROUNDED_BY: Final = 10
"""Replicas of an hour are rounded up by less than a tenth, so that like hours make one span."""
_PLACES: Final = 6


class ScalingSettings(Struct, frozen=True):
    """How many replicas a schedule holds.

    Attributes:
        margin_ratio: Margin added to the maximum number of replicas needed at an hour.
            Source: docs/definitions.md, sources: autoscaling by max busy over 30 min x 1.35
        spare_ratio: Further spare replicas, as a share of the group; at least one.
            Source: docs/definitions.md, sources: autoscaling by max busy over 30 min x 1.35
        lookback_seconds: Time for which a need goes on to count.
            Source: docs/definitions.md, sources: autoscaling by max busy over 30 min
        lag_seconds: Start-up time of a new replica.
            Source: as in the replay of the trace of docs/definitions.md, sources
    """

    margin_ratio: Annotated[float, Spec(within=(0, 5))] = 0.35
    spare_ratio: Annotated[float, CONSTANT] = 0.05
    lookback_seconds: Annotated[float, Spec(within=(300, 86400)), CONSTANT] = 1800.0
    lag_seconds: Annotated[float, Spec(within=(300, 3600))] = 300.0


class ScalingOutcome(Struct, frozen=True):
    """Simulated outcome of a scaling policy."""

    held_seconds: float
    """Replica time, as actually held."""
    scaled_seconds: float
    short_seconds: float
    """Time with too few replicas."""
    known_seconds: float

    @property
    def saved_ratio(self) -> float:
        """Share of the held replica time; 0 without any."""
        return 1.0 - self.scaled_seconds / self.held_seconds if self.held_seconds else 0.0

    @property
    def saved_mean(self) -> float:
        """Replicas saved, as a mean over the known time."""
        saved = self.held_seconds - self.scaled_seconds
        return saved / self.known_seconds if self.known_seconds else 0.0

    @property
    def short_ratio(self) -> float:
        """Share of the known time."""
        return self.short_seconds / self.known_seconds if self.known_seconds else 0.0

    def evidence(self, gpus_each: int) -> dict[str, float]:
        """Figures as evidence, given the GPUs per replica."""
        saved = self.held_seconds - self.scaled_seconds
        return {
            "saved_ratio": round(self.saved_ratio, 4),
            "saved_gpu_hours": round(saved * gpus_each / HOUR_SECONDS, 1),
            "short_ratio": round(self.short_ratio, 4),
            "short_minutes": round(self.short_seconds / 60.0),
        }


class ReplicaSchedule(Struct, frozen=True):
    """Replicas by the hour of the day or of the week (UTC; weeks begin on Monday)."""

    replicas: tuple[int, ...]
    outcome: ScalingOutcome
    """Outcome of each day, or week, with a schedule from the others; a single one uses its own."""
    periods: int
    """Number of days, or weeks, that it is based on."""
    lead_seconds: float
    """Time before the hour at which a new replica must start."""

    @property
    def is_weekly(self) -> bool:
        """Whether it distinguishes days of the week."""
        return len(self.replicas) > _DAY_HOURS

    @property
    def basis(self) -> str:
        """How its outcome was judged, if not by other days than those that it is based on."""
        return "" if self.periods > 1 else ", by the only day that was seen"

    def ready_at(self, time: Nanoseconds) -> int:
        """Replicas that serve at a time."""
        return self.replicas[_place(time // HOUR, len(self.replicas))[1]]

    def kept_at(self, time: Nanoseconds) -> int:
        """Replicas that serve at a time or start for the next hour."""
        return max(self.ready_at(time), self.ready_at(time + nanoseconds(self.lead_seconds)))


def replicas_for(needed: int, size: int, settings: ScalingSettings) -> int:
    """Number of replicas to hold for a maximum need; a single replica gets no spare."""
    if size == 1:
        return min(1, needed)
    spare = max(1, math.ceil(round(size * settings.spare_ratio, _PLACES)))
    return min(size, math.ceil(round(needed * (1 + settings.margin_ratio), _PLACES)) + spare)


def replayed(
    held: Iterable[int],
    needed: Iterable[int],
    kept: Iterable[int],
    ready: Iterable[int],
    step_seconds: float,
) -> ScalingOutcome:
    """Replay scaling over a history at equal steps; no more replicas than those held.

    `kept` are paid for; `ready` are those of them that have started.
    """
    there = list(held)
    paid = list(map(min, there, kept))
    serving = map(min, there, ready)
    return ScalingOutcome(
        held_seconds=sum(there) * step_seconds,
        scaled_seconds=sum(paid) * step_seconds,
        short_seconds=sum(map(gt, needed, serving)) * step_seconds,
        known_seconds=len(there) * step_seconds,
    )


def schedule(
    load: ReplicaLoad, settings: ScalingSettings, *, is_weekly: bool = False
) -> ReplicaSchedule:
    """Schedule that covers the maximum need at that hour on any day, or week."""
    hours = 7 * _DAY_HOURS if is_weekly else _DAY_HOURS
    by_period: dict[int, dict[int, int]] = {}
    for number, needed in _most_by_hour(load, nanoseconds(settings.lookback_seconds)).items():
        period, hour = _place(number, hours)
        by_period.setdefault(period, {})[hour] = needed
    lead = nanoseconds(settings.lag_seconds)
    numbers = [start // HOUR for start in load.starts]
    later_numbers = [(start + lead) // HOUR for start in load.starts]
    periods = {_place(number, hours)[0] for number in numbers}

    def replicas(left_out: int | None) -> tuple[int, ...]:
        days = [needs for period, needs in by_period.items() if period != left_out]
        return tuple(_of_hour(hour, days, load.size, settings) for hour in range(hours))

    planned = replicas(None)
    others = {period: replicas(period) for period in periods} if len(periods) > 1 else {}
    ready: dict[int, int] = {}
    for number in {*numbers, *later_numbers}:
        period, hour = _place(number, hours)
        ready[number] = others.get(period, planned)[hour]
    outcome = replayed(
        load.held,
        load.needed,
        # What an hour needs starts before it.
        (max(ready[now], ready[later]) for now, later in zip(numbers, later_numbers, strict=True)),
        map(ready.__getitem__, numbers),
        seconds(BLOCK_SPAN),
    )
    return ReplicaSchedule(planned, outcome, len(periods), settings.lag_seconds)


def _most_by_hour(load: ReplicaLoad, lookback: Nanoseconds) -> dict[int, int]:
    """Maximum need by hour number, each need extended by the lookback."""
    need_by_hour: dict[int, int] = {}
    for later in (0, lookback):
        first = 0
        while first < len(load.starts):
            number = (load.starts[first] + later) // HOUR
            last = bisect_left(load.starts, (number + 1) * HOUR - later, first)
            need_by_hour[number] = max(*load.needed[first:last], need_by_hour.get(number, 0))
            first = last
    return need_by_hour


def _of_hour(
    hour: int, days: Iterable[Mapping[int, int]], size: int, settings: ScalingSettings
) -> int:
    """Replicas at an hour: all if never seen; rounded up a little, for readability."""
    if not (seen := [day[hour] for day in days if hour in day]):
        return size
    replicas = replicas_for(max(seen), size, settings)
    step = max(1, math.ceil(replicas / _ROUNDED_BY))
    return min(size, math.ceil(replicas / step) * step)


def _place(number: int, hours: int) -> tuple[int, int]:
    """Day and hour of day, or week and hour of week, of an hour since the epoch."""
    return divmod(number + (_EPOCH_HOUR if hours > _DAY_HOURS else 0), hours)


_HOUR_MINUTES: Final = 60
_MINUTE_SECONDS: Final = 60.0
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_CRON_DAYS: Final = (1, 2, 3, 4, 5, 6, 0)


def spans_of(schedule: ReplicaSchedule) -> tuple[tuple[int, int, int], ...]:
    """First hour, hour after the last, and replicas of each span of equal replicas.

    A span may continue over the end of the day or week.
    """
    spans = []
    at = 0
    for replicas, group in groupby(schedule.replicas):
        length = len(list(group))
        spans.append((at, at + length, replicas))
        at += length
    if len(spans) > 1 and spans[0][2] == spans[-1][2]:
        first = spans[0]
        last = spans.pop()
        spans[0] = (last[0], first[1], first[2])
    return tuple((start, end % at, replicas) for start, end, replicas in spans)


def schedule_instructions(workload: Workload, schedule: ReplicaSchedule) -> tuple[Instruction, ...]:
    """Instructions to scale by the hour; text only if the owner has no autoscaler."""
    note = "Nothing answers outside these hours: add a trigger on requests to wake it."
    notes = [note] if min(schedule.replicas) == 0 else []
    notes += ["Counts are of the replicas on this node; hours are UTC."]
    instructions = owner_of(workload.kind).scale_by_hour(workload, _keda_spec(schedule), notes)
    text = "\n".join(["Replicas on this node:", *hours_of(schedule)])
    return instructions or (Instruction("Scale by the hour", text, "text"),)


def hours_of(schedule: ReplicaSchedule) -> list[str]:
    """One line per span of equal replicas."""

    def clock(at: int) -> str:
        day, hour = divmod(at, _DAY_HOURS)
        return f"{_DAYS[day]} {hour:02}:00" if schedule.is_weekly else f"{hour:02}:00"

    return [f"{clock(start)}-{clock(end)} UTC: {count}" for start, end, count in spans_of(schedule)]


def _keda_spec(schedule: ReplicaSchedule) -> list[str]:
    least = min(schedule.replicas)
    maximum = max(schedule.replicas)
    lines = [f"minReplicaCount: {least}", f"maxReplicaCount: {maximum}", "triggers:"]
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
    return lines


def _cron(hour: int, schedule: ReplicaSchedule, lead_minutes: int = 0) -> str:
    minutes = (hour * _HOUR_MINUTES - lead_minutes) % (len(schedule.replicas) * _HOUR_MINUTES)
    hours, minute = divmod(minutes, _HOUR_MINUTES)
    day, hour = divmod(hours, _DAY_HOURS)
    return f"{minute} {hour} * * {_CRON_DAYS[day] if schedule.is_weekly else '*'}"
