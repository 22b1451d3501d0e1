"""Verification of advice by comparing a workload before and after, relative to its peers."""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from operator import itemgetter
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.advice.settings import LedgerSettings, VerificationSettings
from rightsizer.advice.track_record import TrackRecord
from rightsizer.model.values import (
    THROTTLES,
    Action,
    Advice,
    AdviceEvent,
    AdviceEventKind,
    AdviceState,
    Baseline,
    Case,
    Condition,
    Finding,
    Measurement,
    Nanoseconds,
    State,
    Window,
    nanoseconds,
)

Measured = Callable[[Nanoseconds], Mapping[str, Measurement]]
"""Returns measurements of all workloads over the last span, by key."""


def measure_all(cases: Iterable[Case]) -> dict[str, Measurement]:
    """Measure all cases with known data, by key."""
    measurements = {case.key: measure(case) for case in cases}
    return {
        key: measurement for key, measurement in measurements.items() if measurement is not None
    }


def measure(case: Case) -> Measurement | None:
    """Measure a case; `None` if nothing is known of it."""
    known_time = sum(window.known for window in case.windows)
    wasted = sum(sum(window.waste_seconds.values()) for window in case.windows)
    accounted = wasted + sum(window.used_seconds for window in case.windows)
    if known_time <= 0 or accounted <= 0.0:
        return None
    joules = [window.energy_joules for window in case.windows]
    return Measurement(
        gpus=case.gpus,
        waste_ratio=wasted / accounted,
        watts=sum(joules) / known_time * 1e9 * len(joules) if all(joules) else None,
        harms={
            name: sum(part(window) for window in case.windows) / known_time
            for name, part in _HARMS.items()
        },
        boards=tuple(
            sorted(
                f"{device.board}/{device.mig.profile}" if device.mig else str(device.board)
                for device in case.devices
            )
        ),
        devices=tuple(sorted(device.uuid for device in case.devices)),
        workload_class=case.workload_class,
    )


_HARMS: Mapping[str, Callable[[Window], Nanoseconds]] = {
    "near_out_of_memory": lambda window: window.conditions.get(Condition.NEAR_OUT_OF_MEMORY, 0),
    "pressed": lambda window: max(window.pressed.values(), default=0),
    "throttled": lambda window: max(window.conditions.get(throttle, 0) for throttle in THROTTLES),
    "stalled": lambda window: window.states.get(State.HIDDEN_STALL, 0),
}


RELEASING: Final = frozenset(
    {Action.RELEASE, Action.SCALE_TO_ZERO, Action.REDUCE_GPU_COUNT, Action.REDUCE_REPLICAS}
)
REPLACING: Final = frozenset(
    {Action.CHANGE_GPU_TYPE, Action.SHARE_MIG, Action.SHARE_MPS, Action.SHARE_TIMESLICE}
)
_MOVING: Final = frozenset({Action.MOVE_GPUS, Action.RESEAT_OR_DRAIN})


class VerificationOutcome(Struct, frozen=True):
    """Result of a verification."""

    has_succeeded: bool
    why: str
    saved_gpus: float
    """Time saved in GPUs, corrected by the change of the peers."""
    saved_watts: float | None
    has_harmed: bool = False


class Baselines:
    """Baselines of workloads at one moment; each span is measured and grouped once."""

    def __init__(
        self,
        now: Nanoseconds,
        measured: Measured | None,
        in_trial: AbstractSet[str] = frozenset(),
        most_peers: int = 30,
    ) -> None:
        """Use measurements before that moment, if any; `in_trial` are workloads in a trial."""
        self.now = now
        self.measured: Measured = measured or (lambda _: {})
        self._is_measured = measured is not None
        self._in_trial = frozenset(in_trial)
        self._most_peers = most_peers
        self._peers: dict[Nanoseconds, Mapping[str, Mapping[str, float]]] = {}

    def of(self, key: str, span: Nanoseconds) -> Baseline | None:
        """Measurements of a workload and its peers; `None` if nothing is known of it.

        Peers are workloads of the same class that are not in a trial, evenly sampled if there are
        many.
        """
        measurements = self.measured(span)
        if (measurement := measurements.get(key)) is None:
            return None
        if span not in self._peers:
            self._peers[span] = self._by_class(measurements)
        peers = self._peers[span].get(measurement.workload_class, {})
        if key in peers:
            peers = {other: ratio for other, ratio in peers.items() if other != key}
        return Baseline(measurement, peers)

    def added_to(self, advice: Advice) -> Advice:
        """Set the baseline of advice, and renew it if the advice was claimed since."""
        is_fresh = advice.baseline_since >= (advice.trial_since or 0)
        span = nanoseconds(advice.trial_seconds)
        # Advice of an earlier version has no trial span.
        if not span or (advice.baseline is not None and is_fresh):
            return advice
        baseline = self.of(advice.finding.key, span)
        if baseline is None:
            return advice
        return replace(advice, baseline=baseline, baseline_since=self.now)

    def is_worth_verifying(self, advice: Advice) -> bool:
        """Whether open advice is worth verifying, since the recommended change was made."""
        if advice.baseline is None or not self._is_measured:
            return False
        if advice.state is AdviceState.CLAIMED:
            return True
        now = self.measured(nanoseconds(advice.trial_seconds)).get(advice.finding.key)
        return has_changed(advice.finding, advice.baseline.workload, now)

    def _by_class(self, by_key: Mapping[str, Measurement]) -> Mapping[str, Mapping[str, float]]:
        by_class: dict[str, dict[str, float]] = {}
        for key in sorted(by_key.keys() - self._in_trial):
            by_class.setdefault(by_key[key].workload_class, {})[key] = by_key[key].waste_ratio
        return {
            name: dict(list(peers.items())[:: -(-len(peers) // self._most_peers)])
            for name, peers in by_class.items()
        }


def has_changed(finding: Finding, before: Measurement, now: Measurement | None) -> bool:
    """Whether the owner's change can be seen: fewer or more GPUs, other boards, or other places.

    A bottleneck or a fault that is gone leaves no such trace, and may have ended by itself. Idle
    GPUs used again do not count: the advice was to release them. A workload that left may just have
    ended.
    """
    if now is None:
        return False
    if finding.action in RELEASING:
        return now.gpus < before.gpus
    if finding.action is Action.ADD_GPUS:
        return now.gpus > before.gpus
    if finding.action in REPLACING:
        return now.boards != before.boards
    return finding.action in _MOVING and now.devices != before.devices


def verify(
    finding: Finding,
    before: Baseline,
    measured: Mapping[str, Measurement],
    *,
    is_quiet: bool,
    settings: VerificationSettings,
) -> VerificationOutcome | None:
    """Compare before and after; `None` if the workload left although it was not advised to.

    Success requires savings, or a rule that stays quiet; needs measurements of all workloads.
    """
    if (after := measured.get(finding.key)) is None:
        if finding.action not in RELEASING:
            return None
        after = Measurement(gpus=0.0, waste_ratio=0.0, watts=0.0)
    saved = _saved_gpus(before, after, measured)
    harm = _harm(before.workload.harms, after.harms, settings)
    watts = before.workload.watts
    least = settings.least_savings_ratio * (finding.savings.gpus_low or 0.0)
    has_saved = is_quiet or (saved >= least and saved > 0.0)
    why = f"{before.workload.wasted_gpus:.2f} GPUs wasted before, {after.wasted_gpus:.2f} after"
    if harm is not None:
        why = f"{harm}; {why}"
    elif not has_saved:
        why = f"saved {saved:.2f} GPUs where at least {least:.2f} were to be saved; {why}"
    return VerificationOutcome(
        has_succeeded=has_saved and harm is None,
        why=why,
        saved_gpus=saved,
        saved_watts=None if watts is None or after.watts is None else watts - after.watts,
        has_harmed=harm is not None,
    )


def _saved_gpus(before: Baseline, after: Measurement, measured: Mapping[str, Measurement]) -> float:
    """Difference in differences: changes common to all peers are no savings."""
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
    """Signal of harm with the largest intolerable increase, or `None`."""
    rises = []
    for name, ratio in sorted(after.items()):
        was = before.get(name, 0.0)
        is_tolerated = ratio <= was * (1.0 + settings.tolerated_harm_ratio)
        if not is_tolerated and ratio - was >= settings.noticeable_harm_ratio:
            words = name.replace("_", " ")
            rises.append((ratio - was, f"{words} {was:.1%} of the time before, {ratio:.1%} after"))
    return max(rises, key=itemgetter(0), default=(0.0, None))[1]


def conclude(
    advice: Advice, baselines: Baselines, settings: LedgerSettings, track_record: TrackRecord
) -> tuple[Advice, list[AdviceEvent]]:
    """Conclude a due trial, and count its outcome; return the advice and its events."""
    now = baselines.now
    was_open = advice.is_open
    outcome = None
    if advice.baseline is not None:
        outcome = verify(
            advice.finding,
            advice.baseline,
            baselines.measured(nanoseconds(advice.trial_seconds)),
            is_quiet=not was_open,
            settings=settings.verification,
        )
    if outcome is None:
        if not was_open:
            track_record.count_end(advice)
        return replace(advice, trial_since=None), []
    has_succeeded = outcome.has_succeeded
    hours = advice.trial_seconds / 3600.0
    gpu_hours = max(0.0, outcome.saved_gpus) * hours if has_succeeded else 0.0
    advice = replace(
        advice,
        trial_since=None,
        quiet_since=None,
        state=AdviceState.SUCCEEDED if has_succeeded else AdviceState.FAILED,
        updated=now,
        closed=now if was_open else advice.closed,
        # Do not immediately repeat advice that was just tried.
        expires=now + nanoseconds(settings.rested_seconds) if was_open else None,
        why=outcome.why,
        verified=now,
        realized_gpu_hours=gpu_hours,
    )
    track_record.count_end(
        advice, was_right=True if has_succeeded else False if outcome.has_harmed else None
    )
    if has_succeeded:
        watts = max(0.0, outcome.saved_watts or 0.0)
        track_record.add_savings(advice, gpu_hours, watts * advice.trial_seconds)
    # A success has its own event; a failure closes, even if closed before.
    events = []
    if was_open or not has_succeeded:
        ended = now if advice.closed is None else advice.closed
        events.append(AdviceEvent(AdviceEventKind.CLOSED, advice, ended))
    if has_succeeded:
        events.append(AdviceEvent(AdviceEventKind.VERIFIED, advice, now))
    return advice, events
