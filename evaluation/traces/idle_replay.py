"""Idle windows on a recorded fleet: how often they are right, and how much they reclaim."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final

from msgspec import Struct

from evaluation.traces.fleet_group import Group, group_of
from evaluation.traces.fleet_trace import BUSY_RATIO, Pod, closed_windows, pods
from evaluation.traces.idle_calibration import IdleWindows
from evaluation.traces.reclaim import (
    MINUTE,
    SOON,
    Kind,
    Tally,
    WatchedIdleness,
    quiet_times,
)
from evaluation.traces.resume_replay import calibration
from measured import as_rows, table
from rightsizer.model.block import Block, Measure
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.model.workload import WorkloadClass

_KINDS: Final = (
    *map(Kind, (WorkloadClass.BATCH, WorkloadClass.NOTEBOOK, WorkloadClass.SERVING)),
    *(Kind(WorkloadClass.SERVING, ratio) for ratio in (0.95, 0.99, 1.0)),
)
_GAP_ROWS: Final = 3
_DAY: Final = 86400 * NANOSECONDS_PER_SECOND
_ZERO: Final = 1e-9


class Reaper(Struct, frozen=True):
    """A rule of a fixed window."""

    below_ratio: float
    window: Nanoseconds
    grace: Nanoseconds
    """How old a pod must be."""


_FIXED: Final = {
    f"idle for {minutes} min": Reaper(BUSY_RATIO, minutes * MINUTE, minutes * MINUTE)
    for minutes in (30, 60, 90, 120)
}
RULES_OF_OTHERS: Final[Mapping[str, Reaper]] = {
    "gpu-pruner: 0 for 30 min": Reaper(_ZERO, 30 * MINUTE, 35 * MINUTE),
    "dstack: below 10% for 1 h": Reaper(0.10, 60 * MINUTE, 60 * MINUTE),
}
"""gpu-pruner as it ships; dstack ships no values, so these are ours."""

Times = Callable[[Pod], Iterable[Nanoseconds]]
"""When a rule holds."""


def tallies(
    fleet: Iterable[Pod], group: Group, rules: Mapping[str, tuple[Times, Nanoseconds]]
) -> tuple[dict[str, Tally], Nanoseconds, Nanoseconds]:
    """Tally of each rule, all idle time, and all time, pod by pod."""
    found: dict[str, Tally] = defaultdict(Tally)
    idle = there = 0
    for pod in fleet:
        for name, (times, armed) in rules.items():
            acted = found[name].add(pod, times(pod), armed)
            found[name].elsewhere_busy += sum(group.busy_at(time) > 0 for time in acted)
        steps = [after - before for before, after in pairwise(pod.times)]
        longest = _GAP_ROWS * median(steps) if steps else 0
        for step, is_busy in zip(steps, pod.are_busy[1:], strict=True):
            there += step
            idle += step if not is_busy and step <= longest else 0
    return dict(found), idle, there


def evaluate(folder: Path) -> Iterator[str]:
    """Fixed windows, our rule by class, others' rules; then the published chance of resuming."""
    watched = WatchedIdleness(_KINDS)
    calibrated = IdleWindows()
    blocks = defaultdict[str, list[Block]](list)
    for closed in closed_windows(folder):
        for window in closed:
            watched.add(window)
            calibrated.add(window)
            blocks[window.uuid].extend(window.blocks.each(Measure.BUSY))
    group = group_of(pods(folder))
    rules: dict[str, tuple[Times, Nanoseconds]] = {
        name: (partial(_quiet, reaper=each, gap=_GAP_ROWS * group.step), each.grace)
        for name, each in {**_FIXED, **RULES_OF_OTHERS}.items()
    }
    for kind in _KINDS:
        name = (
            f"Rightsizer, {kind.workload_class}: {kind.on_ratio:.0%} of "
            f"{kind.patience // MINUTE} min idle"
        )
        rules[name] = (partial(watched.of, kind), kind.patience)
    found, idle, there = tallies(pods(folder), group, rules)
    yield (
        f"Pods were idle {idle / there:.1%} of their time. An action is right where the pod stays "
        f"idle for {SOON // MINUTE} min more; pods that ended before that are not judged.\n"
    )
    yield table(
        ((name, *_cells(tally, idle, there)) for name, tally in found.items()),
        (
            "rule",
            "actions",
            "right",
            "wrong per pod-day",
            "idle time reclaimed",
            "while others of the fleet worked",
        ),
    )
    yield (
        "\nA group of pods is idle only when all are; the last column has actions that would stop "
        "a working group.\n"
    )
    yield as_rows(
        f"Verdicts of our rule, and those with enough confidence to open: {_confident(watched)}.\n"
    )
    yield "Idle times that work followed within 30 min, asked every five minutes:\n"
    yield from calibrated.lines()
    yield "\nThe chance of work within 30 min, as published:\n"
    yield from calibration(blocks)


def _quiet(pod: Pod, reaper: Reaper, gap: Nanoseconds) -> Iterator[Nanoseconds]:
    return quiet_times(pod, reaper.below_ratio, reaper.window, gap)


def _cells(tally: Tally, idle: Nanoseconds, there: Nanoseconds) -> Sequence[str]:
    precision = tally.precision
    return (
        f"{tally.actions}",
        "" if precision is None else f"{precision:.2f}",
        f"{tally.wrong / (there / _DAY):.2f}",
        f"{tally.reclaimed / idle:.1%}" if idle else "",
        f"{tally.elsewhere_busy / tally.actions:.0%}" if tally.actions else "",
    )


def _confident(watched: WatchedIdleness) -> str:
    counts = Counter(kind for (kind, _), times in watched.times.items() for _ in times)
    return ", ".join(
        f"{kind.workload_class} at {kind.on_ratio:.0%} {counts[kind]} and {watched.sure[kind]}"
        for kind in _KINDS
    )
