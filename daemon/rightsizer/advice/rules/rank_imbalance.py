"""Rule: GPUs of one job with unequal work, such as a straggler, a starved or an overloaded rank.

A job is as fast as its slowest rank, so all others lose the time that they wait.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.advice.instructions import dump_stacks, instruction
from rightsizer.advice.observation import limit_of, lost_gpus, observe, observed_seconds
from rightsizer.advice.rules.rule import OpeningPolicy, Rule, RuleSettings
from rightsizer.advice.savings import release_savings
from rightsizer.advice.screen import Screen, SubjectTable, unmeasured, well
from rightsizer.advice.verdict import CaseSubject, finding_id, names_of
from rightsizer.model.values import (
    CONSTANT,
    IDLE_STATES,
    Action,
    Case,
    Condition,
    Device,
    Finding,
    Instruction,
    Measure,
    Observation,
    Reason,
    Spec,
    State,
    Window,
    seconds,
)

_AT_REST: Final = 0.5
"""Idle for at least half as long as the others spin."""


class Deviation(StrEnum):
    """How a straggler differs from the others."""

    AWAITED = "awaited"
    """The others spin until it has finished its work."""
    ABSENT = "absent"
    """The others spin while it is idle: its process works on the CPU, or hangs."""
    STARVED = "starved"
    """It gets less work than the others."""
    OVERLOADED = "overloaded"
    """It does most of the work."""
    UNCLEAR = "unclear"
    """They differ, but not always the same one."""


class Straggler(Struct, frozen=True):
    """Straggling GPUs of a job, and the kind of deviation."""

    deviation: Deviation
    devices: tuple[Device, ...]
    levels: Mapping[str, float]
    """Basis of the decision: share of time at work of each GPU, by uuid."""


def straggler_of(case: Case, stalled_ratio: float, spread_ratio: float) -> Straggler:
    """Find the stragglers; none if all GPUs are alike.

    `stalled_ratio`: share of time from which a GPU spins; `spread_ratio`: difference that counts.
    """
    windows = {window.uuid: window for window in case.windows}
    stalls = {uuid: window.share(State.HIDDEN_STALL) for uuid, window in windows.items()}
    spinning = [uuid for uuid, share in stalls.items() if share >= stalled_ratio]
    awaited = [uuid for uuid in stalls if uuid not in spinning and is_awaited(uuid, stalls)]
    working = {
        uuid: round(max(0.0, busy_ratio(window) - stalls[uuid]), 4)
        for uuid, window in windows.items()
    }
    if spinning and awaited:
        stragglers = tuple(device for device in case.devices if device.uuid in awaited)
        longest = _AT_REST * max(stalls.values())
        at_rest = all(windows[device.uuid].share(*IDLE_STATES) >= longest for device in stragglers)
        return Straggler(Deviation.ABSENT if at_rest else Deviation.AWAITED, stragglers, working)
    for levels in (working, _watts(case)):
        if (straggler := _by_level(case.devices, levels, spread_ratio)) is not None:
            return straggler
    return Straggler(Deviation.UNCLEAR, (), working)


_MOSTLY: Final = 0.5


def is_awaited(uuid: str, stalls: Mapping[str, float]) -> bool:
    """Whether a GPU is at work in most of the time in which the others spin.

    `stalls` are the shares of time that each GPU spins.
    """
    return stalls[uuid] < _MOSTLY * max(stalls.values())


def busy_ratio(window: Window) -> float:
    """Mean share of time with a kernel resident; without blocks, the active share."""
    blocks = window.blocks.of(Measure.BUSY)
    if (known_seconds := sum(block.known_seconds for block in blocks)) <= 0.0:
        return 1.0 - window.share(*IDLE_STATES) if window.known else 0.0
    return sum(block.mean * block.known_seconds for block in blocks) / known_seconds


def straggler_group(case: Case) -> str:
    """Exclusive group of advice on one straggler: a single fix resolves all of it."""
    return finding_id(case.key, "exclusive", "straggler", "")


def follow_up(case: Case, stragglers: Sequence[Device]) -> tuple[Instruction, ...]:
    """Instructions to find the cause on the stragglers, or on all GPUs without one."""
    suspects = tuple(stragglers) or case.devices
    limits = {window.uuid: limit_of(window) for window in case.windows}
    return (
        dump_stacks(suspects, f"Dump the stacks of the processes on {names_of(suspects)}"),
        *(
            Instruction(
                f"Begin with what limits {device.title}",
                f"it is {str(limit).replace('_', ' ')} for most of the time that it is at work",
            )
            for device in stragglers
            if (limit := limits[device.uuid]) is not None
        ),
        instruction("trace_collectives"),
    )


def _watts(case: Case) -> dict[str, float]:
    """Mean power over the limit for GPUs of one model; empty if not comparable."""
    ratios = {}
    for device, window in zip(case.devices, case.windows, strict=True):
        limit = device.power_limit_watts
        if not limit or not window.known_seconds or window.energy_joules <= 0.0:
            return {}
        ratios[device.uuid] = round(window.energy_joules / window.known_seconds / limit, 4)
    return ratios if len({device.name for device in case.devices}) == 1 else {}


def _by_level(
    devices: Sequence[Device], levels: Mapping[str, float], spread_ratio: float
) -> Straggler | None:
    """Smaller group beside the widest gap; `None` if all are within `spread_ratio`."""
    if len(levels) <= 1 or max(levels.values()) - min(levels.values()) < spread_ratio:
        return None
    order = sorted(levels.values())
    gaps = [later - earlier for earlier, later in pairwise(order)]
    widest = max(range(len(gaps)), key=lambda at: gaps[at])
    limit = order[widest]
    low = tuple(device for device in devices if levels[device.uuid] <= limit)
    high = tuple(device for device in devices if levels[device.uuid] > limit)
    # Of two GPUs, the one at work may as well be the straggler.
    if len(low) <= len(high):
        return Straggler(Deviation.STARVED, low, levels)
    return Straggler(Deviation.OVERLOADED, high, levels)


class RankImbalanceSettings(RuleSettings, frozen=True):
    """Thresholds for imbalance, and for its cause.

    Attributes:
        on_ratio: Share of the span that the job must be out of balance.
            Source: docs/definitions.md, conduct: as for a hidden stall
        stalled_ratio: Share of the span from which a GPU spins to wait for the others.
            Source: two thirds of what is a hidden stall by itself
        spread_ratio: Difference of active shares over the span that identifies the outlier.
            Source: the spread .25 of docs/definitions.md for a bit less than half of the span
    """

    on_ratio: Annotated[float, Spec(within=(0.001, 1))] = 0.3
    stalled_ratio: Annotated[float, Spec(within=(0.01, 1)), CONSTANT] = 0.2
    spread_ratio: Annotated[float, Spec(within=(0.01, 1)), CONSTANT] = 0.1
    conduct: OpeningPolicy = OpeningPolicy()


_UNKNOWN_HOLDER: Final = "who holds the GPU is not known, and so not with which others"


def judge(subject: CaseSubject, settings: RankImbalanceSettings) -> Finding:
    """Whether the GPUs of the job do unequal work, and which one differs."""
    case = subject.case
    if len(case.devices) == 1:
        if case.workload is None:
            return subject.abstain(_UNKNOWN_HOLDER)
        return subject.find_nothing("One GPU cannot be out of balance.")
    seen = observe(
        subject,
        settings,
        _unbalanced_share,
        "out of balance",
        why_unsupported="the GPUs were not compared: that takes 10 min in which two of them are "
        "at one job",
        observation=Observation.RANKS,
    )
    if isinstance(seen, Finding):
        return seen
    stragglers = straggler_of(case, settings.stalled_ratio, settings.spread_ratio)
    lost = _lost(case, stragglers)
    finding = seen.find_problem(
        f": {_names(stragglers)}",
        reasons=(Reason.RANK_IMBALANCE,),
        action=Action.INVESTIGATE_STRAGGLER,
        evidence={"oddity": str(stragglers.deviation), "at_work_ratio": dict(stragglers.levels)},
        culprits=tuple(device.uuid for device in stragglers.devices),
        savings=release_savings(case, subject.market, 0.0, lost / case.gpus),
        instructions=follow_up(case, stragglers.devices),
        affected_gpus=lost,
    )
    return replace(finding, exclusive_group=straggler_group(case))


def _unbalanced_share(window: Window) -> float:
    """Share of the time in which the GPU was compared with others."""
    held = seconds(window.conditions.get(Condition.RANK_IMBALANCE, 0))
    compared = max(held, observed_seconds(window, Observation.RANKS))
    return held / compared if compared else 0.0


def _lost(case: Case, stragglers: Straggler) -> float:
    """Time in GPUs lost to spinning, or if all worked as much as the first."""
    highest = max(stragglers.levels.values(), default=0.0)
    unequal = sum(
        (highest - stragglers.levels[device.uuid]) * device.capacity_ratio
        for device in case.devices
        if device.uuid in stragglers.levels
    )
    return min(case.gpus, max(unequal, lost_gpus(case, State.HIDDEN_STALL)))


def _names(stragglers: Straggler) -> str:
    names = names_of(stragglers.devices) if stragglers.devices else ""
    is_one = len(stragglers.devices) == 1
    return {
        Deviation.AWAITED: f"the others spin while {names} {'works' if is_one else 'work'}",
        Deviation.ABSENT: (
            f"the others spin while {names} {'rests' if is_one else 'rest'}, so that "
            f"{'its process is' if is_one else 'their processes are'} busy elsewhere, or "
            f"{'hangs' if is_one else 'hang'}"
        ),
        Deviation.STARVED: f"{names} {'does' if is_one else 'do'} less than the others",
        Deviation.OVERLOADED: f"{names} {'does' if is_one else 'do'} most of the work",
        Deviation.UNCLEAR: "which one lags changes, as with inputs of unequal length",
    }[stragglers.deviation]


def screen(table: SubjectTable, _: RankImbalanceSettings) -> Screen:
    """Settle that single GPUs have no others to compare with."""
    yield unmeasured(table.is_single & ~table.is_held, _UNKNOWN_HOLDER)
    yield well(table.is_single)


RULE: Final = Rule("rank_imbalance", RankImbalanceSettings(), judge, screen)
