"""Verification of advice: a workload measured before and after, beside others without advice."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from rightsizer.advice.settings import VerificationSettings
from rightsizer.model.device import Device
from rightsizer.model.finding import Action, Case, Finding
from rightsizer.model.state import Condition, State
from rightsizer.model.units import Nanoseconds
from rightsizer.model.window import Window
from rightsizer.model.workload import WorkloadClass


@dataclass(frozen=True, slots=True)
class Measurement:
    """A workload over a span of time."""

    gpus: float
    """That it holds, MIG instances by their part."""
    waste_ratio: float
    """Of the known time, 0 to 1."""
    watts: float | None
    """All GPUs together; `None` where no energy was measured."""
    harms: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Shares of the known time, 0 to 1, by what one would not want more of."""
    boards: tuple[str, ...] = ()
    """Board and MIG profile of each device, in order of the alphabet."""
    devices: tuple[str, ...] = ()
    """Uuids, in order of the alphabet."""
    workload_class: str = WorkloadClass.UNKNOWN

    @property
    def wasted_gpus(self) -> float:
        """GPUs' worth of time that is wasted."""
        return self.gpus * self.waste_ratio


Measured = Callable[[Nanoseconds], Mapping[str, Measurement]]
"""What is measured of each workload over the last span of time, by key."""


def measure_all(cases: Iterable[Case]) -> dict[str, Measurement]:
    """What can be measured, by the case's key."""
    found = {case.key: measure(case) for case in cases}
    return {key: each for key, each in found.items() if each is not None}


def measure(case: Case) -> Measurement | None:
    """What a case came to; `None` where nothing is known of it."""
    known = sum(window.known for window in case.windows)
    wasted = sum(sum(window.waste_seconds.values()) for window in case.windows)
    accounted = wasted + sum(window.used_seconds for window in case.windows)
    if known <= 0 or accounted <= 0.0:
        return None
    joules = [window.energy_joules for window in case.windows]
    return Measurement(
        gpus=sum(device.capacity_ratio for device in case.devices),
        waste_ratio=wasted / accounted,
        watts=sum(joules) / known * 1e9 * len(joules) if all(joules) else None,
        harms={
            name: sum(part(window) for window in case.windows) / known
            for name, part in _HARMS.items()
        },
        boards=tuple(sorted(map(_board, case.devices))),
        devices=tuple(sorted(device.uuid for device in case.devices)),
        workload_class=case.workload.workload_class if case.workload else WorkloadClass.UNKNOWN,
    )


def _board(device: Device) -> str:
    return f"{device.board}/{device.mig.profile}" if device.mig else str(device.board)


def _throttled(window: Window) -> Nanoseconds:
    held = window.conditions
    return max(
        held.get(condition, 0)
        for condition in (
            Condition.POWER_THROTTLED,
            Condition.THERMAL_THROTTLED,
            Condition.HARDWARE_SLOWDOWN,
        )
    )


_HARMS: Mapping[str, Callable[[Window], Nanoseconds]] = {
    "near_out_of_memory": lambda window: window.conditions.get(Condition.NEAR_OUT_OF_MEMORY, 0),
    "pressed": lambda window: max(window.pressed.values(), default=0),
    "throttled": _throttled,
    "stalled": lambda window: window.states.get(State.HIDDEN_STALL, 0),
}


_RELEASING: Final = frozenset(
    {Action.RELEASE, Action.SCALE_TO_ZERO, Action.REDUCE_GPU_COUNT, Action.REDUCE_REPLICAS}
)
_REPLACING: Final = frozenset(
    {Action.CHANGE_GPU_TYPE, Action.SHARE_MIG, Action.SHARE_MPS, Action.SHARE_TIMESLICE}
)
_MOVING: Final = frozenset({Action.MOVE_GPUS, Action.REBIND_NUMA, Action.RESEAT_OR_DRAIN})


@dataclass(frozen=True, slots=True)
class Baseline:
    """How things were before anybody acted."""

    workload: Measurement
    peers: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Waste ratios of others of the same class, by key."""


@dataclass(frozen=True, slots=True)
class VerificationOutcome:
    """What came of it."""

    has_succeeded: bool
    why: str
    saved_gpus: float
    """GPUs' worth of time, less what would have been saved anyhow."""
    saved_watts: float | None
    has_harmed: bool = False


def baseline_of(
    key: str, measured: Mapping[str, Measurement], followed: frozenset[str] = frozenset()
) -> Baseline | None:
    """How a workload and its peers stand; `None` where nothing is known of it.

    Args:
        key: The workload's.
        measured: All workloads of the node.
        followed: Keys of those who are following advice themselves.
    """
    own = measured.get(key)
    if own is None:
        return None
    peers = {
        other: each.waste_ratio
        for other, each in sorted(measured.items())
        if other != key and other not in followed and each.workload_class == own.workload_class
    }
    return Baseline(own, peers)


def has_changed(finding: Finding, before: Measurement, now: Measurement | None) -> bool:
    """Whether the thing that is advised has come about, whoever did it.

    A bottleneck that is gone is what was asked for. Idle GPUs that are used again are not: the
    advice was to let go of them. A workload that left may just have ended.
    """
    if now is None:
        return False
    if finding.action in _RELEASING:
        return now.gpus < before.gpus
    if finding.action in _REPLACING:
        return now.boards != before.boards
    if finding.action in _MOVING and finding.action is not Action.REBIND_NUMA:
        return now.devices != before.devices
    return True


def verify(  # noqa: PLR0913 - before, after, and what was to come of it.
    finding: Finding,
    before: Baseline,
    measured: Mapping[str, Measurement],
    key: str,
    *,
    is_quiet: bool,
    settings: VerificationSettings,
) -> VerificationOutcome | None:
    """Before against after; `None` where the workload left and that was not what was advised.

    Args:
        finding: What was advised.
        before: The workload before.
        measured: All workloads of the node, after.
        key: The workload's.
        is_quiet: Whether the rule has ceased to complain.
        settings: What counts as success.
    """
    after = measured.get(key)
    if after is None:
        if finding.action not in _RELEASING:
            return None
        after = Measurement(gpus=0.0, waste_ratio=0.0, watts=0.0)
    saved = _saved_gpus(before, after, measured)
    harm = _harm(before.workload.harms, after.harms, settings)
    watts = before.workload.watts
    saved_watts = None if watts is None or after.watts is None else watts - after.watts
    least = settings.least_savings_ratio * (finding.savings.gpus_low or 0.0)
    has_saved = saved >= least and saved > 0.0
    figures = f"{before.workload.wasted_gpus:.2f} GPUs wasted before, {after.wasted_gpus:.2f} after"
    if harm is not None:
        return VerificationOutcome(
            has_succeeded=False,
            why=f"{harm}; {figures}",
            saved_gpus=saved,
            saved_watts=saved_watts,
            has_harmed=True,
        )
    why = figures
    if not (has_saved or is_quiet):
        why = f"saved {saved:.2f} GPUs where at least {least:.2f} were to be saved; {figures}"
    return VerificationOutcome(
        has_succeeded=has_saved or is_quiet, why=why, saved_gpus=saved, saved_watts=saved_watts
    )


def _saved_gpus(before: Baseline, after: Measurement, measured: Mapping[str, Measurement]) -> float:
    """The difference in differences: what changed for everybody is nobody's merit."""
    changes = [
        measured[peer].waste_ratio - ratio
        for peer, ratio in before.peers.items()
        if peer in measured
    ]
    drift = sum(changes) / len(changes) if changes else 0.0
    without = min(1.0, max(0.0, before.workload.waste_ratio + drift))
    return before.workload.gpus * without - after.wasted_gpus


def _harm(
    before: Mapping[str, float], after: Mapping[str, float], settings: VerificationSettings
) -> str | None:
    """The signal of harm that rose most, where one did."""
    rises = {
        name: ratio - before.get(name, 0.0)
        for name, ratio in after.items()
        if ratio > before.get(name, 0.0) * (1.0 + settings.tolerated_harm_ratio)
        and ratio - before.get(name, 0.0) >= settings.noticeable_harm_ratio
    }
    if not rises:
        return None
    name = max(sorted(rises), key=lambda each: rises[each])
    words = name.replace("_", " ")
    return f"{words} {before.get(name, 0.0):.1%} of the time before, {after[name]:.1%} after"
