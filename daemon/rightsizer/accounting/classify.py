"""What a device did, from its signals: the first state whose signature fits.

Each signature gives a score: 0.5 where a signal stands at its threshold, 1 far inside, 0 far
outside, the weakest signal deciding. So the first score of 0.5 or more is the state, and the
best of the others is the second cause.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.accounting.signals import highest, tier_of
from rightsizer.domain.settings import setting
from rightsizer.domain.signal import PIPES, Signal
from rightsizer.domain.state import State, Tier

__all__ = ["ClassifySettings", "Observation", "Verdict", "classify", "looks_stalled"]

_MATCH: Final = 0.5
_JUST_BELOW: Final = math.nextafter(_MATCH, 0.0)
_MEBIBYTE: Final = 2**20


def _ratio(default: float, text: str, source: str) -> float:
    result: float = setting(default, help=text, unit="ratio", minimum=0, maximum=1, source=source)
    return result


@dataclass(frozen=True, slots=True)
class ClassifySettings:
    """Where one state ends and another begins."""

    active_ratio: float = _ratio(
        0.01,
        "Share of any engine's time from which on a device does something.",
        "docs/definitions.md, states",
    )
    active_sm_ratio: float = _ratio(
        0.005,
        "SM activity from which on a device does something.",
        "docs/definitions.md, sources: execution idle",
    )
    active_traffic_ratio: float = _ratio(
        0.05,
        "Memory or link traffic from which on a device does something.",
        "above the idle noise of profiling counters",
    )
    empty_memory_ratio: float = _ratio(
        0.01, "Memory in use below which nobody holds the device.", "docs/definitions.md, states"
    )
    empty_memory_bytes: float = setting(
        512 * _MEBIBYTE,
        help="The same as a size; the larger of the two counts.",
        unit="bytes",
        minimum=0,
        source="docs/definitions.md, states",
    )
    stall_busy_ratio: float = _ratio(
        0.8, "Busy share of a hidden stall.", "docs/definitions.md, states; NVIDIA/nccl#968"
    )
    stall_power_ratio: float = _ratio(
        0.25,
        "Power below which a busy device does no work.",
        "docs/definitions.md, states; NVIDIA/nccl#968",
    )
    stall_pipe_ratio: float = _ratio(
        0.02,
        "Activity of every pipe below which a busy device does no work.",
        "docs/definitions.md, states",
    )
    stall_dram_ratio: float = _ratio(
        0.05,
        "Memory traffic below which a busy device does no work.",
        "docs/definitions.md, states",
    )
    stall_busy_alone_ratio: float = _ratio(
        0.98,
        "Busy share that shows a hidden stall by itself where no profiling counters are.",
        "docs/definitions.md, states",
    )
    stall_memory_controller_ratio: float = _ratio(
        0.25,
        "Memory controller time from which on a busy device at low power is not stalled; it "
        "decodes at low clocks.",
        "docs/definitions.md, sources: an HBM-bound decode at low clocks can look like a stall",
    )
    link_ratio: float = _ratio(
        0.6, "Share of a PCIe direction that limits.", "docs/definitions.md, states"
    )
    link_pipe_ratio: float = _ratio(
        0.3,
        "Pipe activity from which on PCIe is not what limits.",
        "docs/definitions.md, sources: sm < 0.3",
    )
    dram_ratio: float = _ratio(
        0.65, "Memory traffic that limits, whatever the pipes do.", "docs/definitions.md, states"
    )
    dram_alone_ratio: float = _ratio(
        0.5,
        "Memory traffic that limits where no pipe does.",
        "docs/definitions.md, states; KempnerPulse",
    )
    pipe_ratio: float = _ratio(
        0.5, "Activity of a pipe that limits.", "docs/definitions.md, states"
    )
    launch_busy_ratio: float = _ratio(
        0.5, "Busy share of a device bound by launches.", "docs/definitions.md, sources: gr >= 0.5"
    )
    launch_sm_ratio: float = _ratio(
        0.25,
        "SM activity below which a busy device waits for launches.",
        "docs/definitions.md, states",
    )
    gap_busy_ratio: float = _ratio(
        0.7, "Busy share below which a device has gaps.", "docs/definitions.md, sources: u < 0.7"
    )
    io_pressure_ratio: float = _ratio(
        0.2, "I/O pressure that explains gaps.", "docs/definitions.md, sources: PSI 20 %"
    )
    cpu_pressure_ratio: float = _ratio(
        0.2, "CPU pressure that explains gaps.", "docs/definitions.md, sources: PSI 20 %"
    )
    cpu_ratio: float = _ratio(
        0.9,
        "CPU use of the quota that explains gaps.",
        "docs/definitions.md, sources: 90 % of quota",
    )
    second_cause_score: float = _ratio(
        0.25, "Score from which on another state is named as second cause.", "half a match"
    )


@dataclass(frozen=True, slots=True)
class Observation:
    """What is known of a device for one stretch of time."""

    signals: Mapping[Signal, float]
    memory_total_bytes: float | None = None
    peer_stalls: bool = False
    """Another device of the same workload looks stalled at the same time."""

    @property
    def tier(self) -> Tier:
        """What the signals allow to be claimed."""
        return tier_of(self.signals)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of a stretch, the next best explanation, and how clear the case is."""

    state: State
    second_cause: State | None
    score: float


def classify(observation: Observation, settings: ClassifySettings) -> Verdict:
    """The state of one stretch by the table of `docs/definitions.md`, first match."""
    if observation.tier is Tier.NONE:
        return Verdict(State.UNKNOWN, None, 1.0)
    activity = _activity(observation.signals, settings)
    if activity < _MATCH:
        if not _sees_compute(observation.signals):
            return Verdict(State.UNKNOWN, None, 1.0)
        state = State.IDLE_HELD if _is_held(observation, settings) else State.IDLE_EMPTY
        return Verdict(state, None, 1.0 - activity)
    scores = {state: signature(observation, settings) for state, signature in _SIGNATURES}
    match = next((state for state, score in scores.items() if score >= _MATCH), None)
    if match is State.STORAGE_BOUND and scores[State.HOST_BOUND] > scores[match]:
        match = State.HOST_BOUND
    others = {state: score for state, score in scores.items() if state is not match}
    second = max(others, key=lambda state: others[state])
    runner_up = second if others[second] >= settings.second_cause_score else None
    if match is None:
        return Verdict(State.PRODUCTIVE, runner_up, 1.0 - others[second])
    return Verdict(match, runner_up, scores[match])


def looks_stalled(signals: Mapping[Signal, float], settings: ClassifySettings) -> bool:
    """Whether a device is busy at low power; two of a workload make a hidden stall certain."""
    busy, power = signals.get(Signal.GPU_BUSY), signals.get(Signal.POWER)
    return (
        busy is not None
        and power is not None
        and busy >= settings.stall_busy_ratio
        and power < settings.stall_power_ratio
    )


def _activity(signals: Mapping[Signal, float], settings: ClassifySettings) -> float:
    engines = (
        Signal.GPU_BUSY,
        Signal.ENCODER,
        Signal.DECODER,
        Signal.JPEG,
        Signal.OFA,
        *PIPES,
    )
    witnesses = (
        (highest(signals, *engines), settings.active_ratio),
        (signals.get(Signal.SM_ACTIVE), settings.active_sm_ratio),
        (
            highest(signals, Signal.DRAM_ACTIVE, Signal.PCIE_RECEIVE, Signal.PCIE_TRANSMIT),
            settings.active_traffic_ratio,
        ),
    )
    # An idle second is one in which every witness is below its threshold.
    return max(_above(value, threshold) for value, threshold in witnesses)


def _sees_compute(signals: Mapping[Signal, float]) -> bool:
    """Whether a kernel would show; a single pipe at rest says nothing of the others."""
    return Signal.GPU_BUSY in signals or Signal.SM_ACTIVE in signals


def _is_held(observation: Observation, settings: ClassifySettings) -> bool:
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


def _hidden_stall(observation: Observation, settings: ClassifySettings) -> float:
    signals = observation.signals
    busy, power = signals.get(Signal.GPU_BUSY), signals.get(Signal.POWER)
    pipes, dram = highest(signals, *PIPES), signals.get(Signal.DRAM_ACTIVE)
    low_power = _below(power, settings.stall_power_ratio)
    if pipes is not None or dram is not None:
        return min(
            _above(busy, settings.stall_busy_ratio),
            low_power,
            1.0 if pipes is None else _below(pipes, settings.stall_pipe_ratio),
            1.0 if dram is None else _below(dram, settings.stall_dram_ratio),
        )
    needed = (
        settings.stall_busy_ratio if observation.peer_stalls else settings.stall_busy_alone_ratio
    )
    controller = signals.get(Signal.MEMORY_CONTROLLER_BUSY, 0.0)
    return min(
        _above(busy, needed),
        low_power,
        _below(controller, settings.stall_memory_controller_ratio),
    )


def _pcie(observation: Observation, settings: ClassifySettings) -> float:
    signals = observation.signals
    link = highest(signals, Signal.PCIE_RECEIVE, Signal.PCIE_TRANSMIT)
    pipes = highest(signals, *PIPES)
    quiet = 1.0 if pipes is None else _below(pipes, settings.link_pipe_ratio)
    return min(_above(link, settings.link_ratio), quiet)


def _memory_bandwidth(observation: Observation, settings: ClassifySettings) -> float:
    dram = observation.signals.get(Signal.DRAM_ACTIVE)
    pipes = highest(observation.signals, *PIPES)
    quiet = 1.0 if pipes is None else _below(pipes, settings.pipe_ratio)
    return max(
        _above(dram, settings.dram_ratio), min(_above(dram, settings.dram_alone_ratio), quiet)
    )


def _compute(observation: Observation, settings: ClassifySettings) -> float:
    return _above(highest(observation.signals, *PIPES), settings.pipe_ratio)


def _launch(observation: Observation, settings: ClassifySettings) -> float:
    signals = observation.signals
    return min(
        _above(signals.get(Signal.GPU_BUSY), settings.launch_busy_ratio),
        _below(signals.get(Signal.SM_ACTIVE), settings.launch_sm_ratio),
    )


def _storage(observation: Observation, settings: ClassifySettings) -> float:
    signals = observation.signals
    return min(
        _below(signals.get(Signal.GPU_BUSY), settings.gap_busy_ratio),
        _above(signals.get(Signal.IO_PRESSURE), settings.io_pressure_ratio),
    )


def _host(observation: Observation, settings: ClassifySettings) -> float:
    signals = observation.signals
    return min(
        _below(signals.get(Signal.GPU_BUSY), settings.gap_busy_ratio),
        max(
            _above(signals.get(Signal.CPU), settings.cpu_ratio),
            _above(signals.get(Signal.CPU_PRESSURE), settings.cpu_pressure_ratio),
        ),
    )


_Signature = Callable[[Observation, ClassifySettings], float]
_SIGNATURES: Final[tuple[tuple[State, _Signature], ...]] = (
    (State.HIDDEN_STALL, _hidden_stall),
    (State.PCIE_BOUND, _pcie),
    (State.MEMORY_BANDWIDTH_BOUND, _memory_bandwidth),
    (State.COMPUTE_BOUND, _compute),
    (State.LAUNCH_BOUND, _launch),
    (State.STORAGE_BOUND, _storage),
    (State.HOST_BOUND, _host),
)


def _above(value: float | None, threshold: float) -> float:
    """How far a value is above a threshold: 0.5 at it, 1 at the top, 0 where it is unknown."""
    if value is None:
        return 0.0
    if value < threshold:
        return min(_JUST_BELOW, _MATCH * value / threshold)
    return _MATCH + _MATCH * (value - threshold) / (1.0 - threshold) if threshold < 1 else 1.0


def _below(value: float | None, threshold: float) -> float:
    """How far a value is below a threshold: under 0.5 at it, 1 at zero, 0 where unknown.

    Twice the threshold is as far outside as half of it is for `_above`.
    """
    if value is None:
        return 0.0
    if value < threshold:
        return _MATCH + _MATCH * (threshold - value) / threshold
    return min(_JUST_BELOW, _MATCH * threshold / value) if value > 0 else 0.0
