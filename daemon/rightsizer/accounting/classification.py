"""State classification: the first state whose signature fits the signals."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.accounting.classification_settings import ClassificationSettings
from rightsizer.accounting.signals import tier_of
from rightsizer.accounting.signatures import (
    MATCH_MARGIN,
    SIGNATURES,
    SignatureInput,
    StateEvidence,
    activity_margin,
    possible_stall,
    wait_cause,
)
from rightsizer.model.signal import Signal
from rightsizer.model.state import State, Tier


@dataclass(frozen=True, slots=True)
class ClassificationInput:
    """What is known of a device for one stretch of time."""

    signals: Mapping[Signal, float]
    memory_total_bytes: float | None = None
    peer_stalls: bool = False
    """Another device of the same workload looks stalled at the same time."""
    clock_ratio: float = 1.0
    """SM clock over its maximum."""

    @property
    def tier(self) -> Tier:
        """What the signals allow to be claimed."""
        return tier_of(self.signals)

    @property
    def memory_used_bytes(self) -> float | None:
        """As it was read, or as its ratio of the total."""
        used, total = self.signals.get(Signal.MEMORY_USED), self.memory_total_bytes
        stated = self.signals.get(Signal.MEMORY_USED_BYTES)
        return used * total if stated is None and used is not None and total else stated


@dataclass(frozen=True, slots=True)
class StateMatch:
    """The state of a stretch, the next best explanation, and how clear the case is."""

    state: State
    second_cause: State | None
    score: float


_UNKNOWN: Final = StateMatch(State.UNKNOWN, None, 1.0)


def classify(observation: ClassificationInput, settings: ClassificationSettings) -> StateMatch:
    """The state of one stretch by the table of `docs/definitions.md`, first match."""
    if observation.tier is Tier.NONE:
        return _UNKNOWN
    evidence = StateEvidence.of(observation.signals)
    scene = SignatureInput(evidence, observation.peer_stalls, observation.clock_ratio)
    active = activity_margin(evidence, settings)
    if active < MATCH_MARGIN:
        return _at_rest(observation, scene, active, settings)
    if _is_waking(observation, evidence, settings):
        return _UNKNOWN
    return _at_work(scene, settings)


def looks_stalled(
    signals: Mapping[Signal, float], settings: ClassificationSettings, clock_ratio: float = 1.0
) -> bool:
    """Whether a device is busy at low power; two of a workload make a hidden stall certain.

    Args:
        signals: What the device shows.
        settings: What is busy, and what is low.
        clock_ratio: Work draws less at a low clock, too.
    """
    busy, power = signals.get(Signal.GPU_BUSY), signals.get(Signal.POWER)
    return (
        busy is not None
        and power is not None
        and busy >= settings.stall_busy_ratio
        and power < settings.stall_power_ratio * clock_ratio
    )


def _at_rest(
    observation: ClassificationInput,
    scene: SignatureInput,
    active: float,
    settings: ClassificationSettings,
) -> StateMatch:
    """Idle, unless nobody looked where it could have been at work, or power says that it is."""
    power = scene.evidence.power
    if not scene.evidence.sees_compute or (
        power is not None and power >= settings.idle_power_ratio
    ):
        return _UNKNOWN
    if not _is_held(observation, settings):
        return StateMatch(State.IDLE_EMPTY, None, 1.0 - active)
    second, score = _best(wait_cause(scene, settings))
    cause = second if score >= settings.second_cause_score else None
    return StateMatch(State.IDLE_HELD, cause, 1.0 - active)


def _at_work(scene: SignatureInput, settings: ClassificationSettings) -> StateMatch:
    scores = {state: signature(scene, settings) for state, signature in SIGNATURES}
    match = next((state for state, score in scores.items() if score >= MATCH_MARGIN), None)
    if match is State.STORAGE_BOUND and scores[State.HOST_BOUND] > scores[match]:
        match = State.HOST_BOUND
    own = scores.pop(match) if match is not None else None
    second, score = _best(scores)
    cause = second if score >= settings.second_cause_score else None
    if match is not None and own is not None:
        return StateMatch(match, cause, own)
    return StateMatch(State.PRODUCTIVE, cause, 1.0 - max(score, possible_stall(scene, settings)))


def _best(scores: Mapping[State, float]) -> tuple[State, float]:
    best = max(scores, key=lambda state: scores[state])
    return best, scores[best]


def _is_held(observation: ClassificationInput, settings: ClassificationSettings) -> bool:
    signals = observation.signals
    processes = signals.get(Signal.PROCESS_COUNT)
    memory = signals.get(Signal.MEMORY_USED)
    if processes:
        return True
    if memory is None:
        size = signals.get(Signal.MEMORY_USED_BYTES)
        return processes is None if size is None else size >= settings.empty_memory_bytes
    total = observation.memory_total_bytes
    smallest = settings.empty_memory_bytes / total if total else 0.0
    return memory >= max(settings.empty_memory_ratio, smallest)


def _is_waking(
    observation: ClassificationInput, evidence: StateEvidence, settings: ClassificationSettings
) -> bool:
    """Whether it is busy with nothing to be busy with, as a GPU reads that was just woken."""
    used = observation.memory_used_bytes
    processes = observation.signals.get(Signal.PROCESS_COUNT)
    # A log of utilization and memory alone may read the one before the other.
    is_unattended = processes == 0 or (processes is None and Signal.POWER in observation.signals)
    return (
        is_unattended
        and used is not None
        and used < settings.context_memory_bytes
        # Counters of SMs, pipes and memory are not fooled.
        and (evidence.sm or 0.0) < settings.active_sm_ratio
        and (evidence.pipes or 0.0) < settings.active_ratio
        and (evidence.dram or 0.0) < settings.active_traffic_ratio
    )
