"""Straggler: the GPU of a job that differs from the others, and how."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final

from rightsizer.advice.attribution import limit_of
from rightsizer.advice.instructions import instruction
from rightsizer.advice.operator_commands import dump_stacks
from rightsizer.advice.verdict import finding_id, names_of
from rightsizer.model.block import Measure
from rightsizer.model.device import Device
from rightsizer.model.finding import Case, Instruction
from rightsizer.model.frozen import dataclass
from rightsizer.model.state import IDLE_STATES, State
from rightsizer.model.window import Window

_AT_REST: Final = 0.5
"""Idle for at least half as long as the others spin."""


class Deviation(StrEnum):
    """How a straggler differs."""

    AWAITED = "awaited"
    """The others spin until it has done its work."""
    ABSENT = "absent"
    """The others spin, and it rests: its process works on the CPU, or hangs."""
    STARVED = "starved"
    """It gets less to do than the others."""
    OVERLOADED = "overloaded"
    """It does most of the work."""
    UNCLEAR = "unclear"
    """They differ, and not always the same one."""


@dataclass(frozen=True, slots=True)
class Straggler:
    """The stragglers of a job's GPUs."""

    deviation: Deviation
    devices: tuple[Device, ...]
    levels: Mapping[str, float]
    """What it was found by: the share of time at work of each GPU, by uuid."""


def straggler_of(case: Case, stalled_ratio: float, spread_ratio: float) -> Straggler:
    """The stragglers; none where all are alike.

    A GPU spins from `stalled_ratio` of the time on; shares differ from `spread_ratio` on.
    """
    windows = {window.uuid: window for window in case.windows}
    stalls = {uuid: each.share(State.HIDDEN_STALL) for uuid, each in windows.items()}
    spinning = [uuid for uuid, share in stalls.items() if share >= stalled_ratio]
    working = {
        uuid: round(max(0.0, busy_ratio(window) - stalls[uuid]), 4)
        for uuid, window in windows.items()
    }
    if spinning and len(spinning) < len(windows):
        stragglers = tuple(device for device in case.devices if device.uuid not in spinning)
        longest = _AT_REST * max(stalls.values())
        at_rest = all(windows[each.uuid].share(*IDLE_STATES) >= longest for each in stragglers)
        return Straggler(Deviation.ABSENT if at_rest else Deviation.AWAITED, stragglers, working)
    for levels in (working, _watts(case)):
        found = _by_level(case.devices, levels, spread_ratio)
        if found is not None:
            return found
    return Straggler(Deviation.UNCLEAR, (), working)


def busy_ratio(window: Window) -> float:
    """The mean share of time with a kernel resident; without blocks, the share that is active."""
    blocks = window.blocks.of(Measure.BUSY)
    known = sum(block.known_seconds for block in blocks)
    if known <= 0.0:
        return 1.0 - window.share(*IDLE_STATES) if window.known else 0.0
    return sum(block.mean * block.known_seconds for block in blocks) / known


def straggler_group(case: Case) -> str:
    """The exclusive group of advice on one straggler: one fix does all of it."""
    return finding_id(case.key, "exclusive", "straggler", "")


def follow_up(case: Case, stragglers: Sequence[Device]) -> tuple[Instruction, ...]:
    """How to find out what keeps the stragglers, or all without one."""
    suspects = tuple(stragglers) or case.devices
    limits = {window.uuid: limit_of(window) for window in case.windows}
    return (
        dump_stacks(suspects, f"See where the process on {names_of(suspects)} stands"),
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
    """Mean draw over the limit, of boards of one kind; empty where it cannot be compared."""
    found = {}
    for device, window in zip(case.devices, case.windows, strict=True):
        limit = device.power_limit_watts
        if not limit or not window.known_seconds or window.energy_joules <= 0.0:
            return {}
        found[device.uuid] = round(window.energy_joules / window.known_seconds / limit, 4)
    return found if len({device.name for device in case.devices}) == 1 else {}


def _by_level(
    devices: Sequence[Device], levels: Mapping[str, float], spread_ratio: float
) -> Straggler | None:
    """The fewer ones beside the widest gap."""
    if len(levels) <= 1 or max(levels.values()) - min(levels.values()) < spread_ratio:
        return None
    order = sorted(levels.values())
    gaps = [later - earlier for earlier, later in pairwise(order)]
    widest = max(range(len(gaps)), key=lambda at: gaps[at])
    limit = order[widest]
    low = tuple(device for device in devices if levels[device.uuid] <= limit)
    high = tuple(device for device in devices if levels[device.uuid] > limit)
    # Of two, the one at work is as likely the one that is waited for.
    if len(low) <= len(high):
        return Straggler(Deviation.STARVED, low, levels)
    return Straggler(Deviation.OVERLOADED, high, levels)
