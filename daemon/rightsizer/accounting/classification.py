"""Classification of entries: the first state with a signature matched by the signals."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from rightsizer.accounting.classification_settings import ClassificationSettings
from rightsizer.accounting.signals import (
    LAYOUTS_KEPT,
    SignalLayout,
    highest,
    layout_of,
    memory_work,
)
from rightsizer.model.members import members
from rightsizer.model.signal import PIPES, Signal
from rightsizer.model.state import State, Tier, UnknownReason

_Signal = members(Signal)
_State = members(State)
_Tier = members(Tier)

MATCH_MARGIN: Final = 0.5
"""Margin from which a value counts as matching."""
_JUST_OUTSIDE: Final = math.nextafter(MATCH_MARGIN, 0.0)


def margin_above(value: float | None, threshold: float) -> float:
    """Margin of a value above a threshold; at half of the threshold it is 0.25."""
    if value is None:
        return 0.0
    if value < threshold:
        return min(_JUST_OUTSIDE, MATCH_MARGIN * value / threshold)
    if threshold >= 1:
        return 1.0
    return MATCH_MARGIN + MATCH_MARGIN * (value - threshold) / (1.0 - threshold)


def margin_below(value: float | None, threshold: float) -> float:
    """Margin of a value below a threshold; at twice the threshold it is 0.25."""
    if value is None:
        return 0.0
    if value < threshold:
        return MATCH_MARGIN + MATCH_MARGIN * (threshold - value) / threshold
    return min(_JUST_OUTSIDE, MATCH_MARGIN * threshold / value) if value > 0 else 0.0


class StateEvidence:
    """Signals of an interval in the form that signatures compare.

    Ratios, `None` if not measured; the highest of several sources.
    """

    def __init__(
        self,
        signals: Mapping[Signal, float],
        memory_total_bytes: float | None = None,
        *,
        peer_stalls: bool = False,
        clock_ratio: float = 1.0,
    ) -> None:
        """Collect the evidence; the clock ratio is the SM clock over its maximum.

        `peer_stalls` means that another device of the workload looks stalled at the same time.
        """
        get = signals.get
        self.layout = layout = layout_of(signals)
        self.signals = signals
        self.memory_total_bytes = memory_total_bytes
        self.peer_stalls = peer_stalls
        self.clock_ratio = clock_ratio
        self.busy = get(_Signal.GPU_BUSY)
        self.power = get(_Signal.POWER)
        self.sm = get(_Signal.SM_ACTIVE)
        self.pipes = highest(signals, *layout.pipes)
        self.dram = get(_Signal.DRAM_ACTIVE)
        # Media engines may work while the SMs are idle.
        self.engines = highest(signals, *layout.engines)
        self.pcie = highest(signals, *layout.pcie)
        self.nvlink = highest(signals, *layout.nvlink)
        self.cpu = get(_Signal.CPU)
        self.cpu_pressure = get(_Signal.CPU_PRESSURE)
        self.process_cpu = get(_Signal.PROCESS_CPU)
        self.io_pressure = get(_Signal.IO_PRESSURE)

    @property
    def has_counters(self) -> bool:
        """Whether pipe or memory counters were read."""
        return self.pipes is not None or self.dram is not None

    @property
    def sees_compute(self) -> bool:
        """Whether a kernel would be visible; one idle pipe does not rule out the others."""
        return self.busy is not None or self.sm is not None

    @property
    def memory_used_bytes(self) -> float | None:
        """Memory in use as read, or its ratio times the total."""
        used = self.signals.get(_Signal.MEMORY_USED)
        total = self.memory_total_bytes
        stated = self.signals.get(_Signal.MEMORY_USED_BYTES)
        return used * total if stated is None and used is not None and total else stated


def activity_margin(evidence: StateEvidence, settings: ClassificationSettings) -> float:
    """Margin of activity; a device is idle only if no signal shows any."""
    signals = evidence.signals
    layout = evidence.layout
    return max(
        margin_above(highest(signals, *layout.work), settings.active_ratio),
        margin_above(evidence.sm, settings.active_sm_ratio),
        margin_above(highest(signals, *layout.traffic), settings.active_traffic_ratio),
    )


def possible_stall(evidence: StateEvidence, settings: ClassificationSettings) -> float:
    """Margin of a stall that cannot be ruled out without power; 0 if power is known."""
    if evidence.power is not None:
        return 0.0
    return min(
        MATCH_MARGIN,
        _spins(evidence, settings),
        margin_above(evidence.busy, settings.stall_busy_ratio),
    )


def _hidden_stall(evidence: StateEvidence, settings: ClassificationSettings) -> float:
    power = settings.stall_power_ratio
    needed = settings.stall_busy_ratio
    if not evidence.has_counters:
        # Work at a low clock draws little as well; do not report possible work as a stall.
        power *= evidence.clock_ratio
        if not evidence.peer_stalls:
            needed = settings.stall_busy_alone_ratio
    return min(
        margin_above(evidence.busy, needed),
        margin_below(evidence.power, power),
        _spins(evidence, settings),
    )


def _spins(evidence: StateEvidence, settings: ClassificationSettings) -> float:
    """Margin of a resident kernel being the only activity; unmeasured signals count as idle."""
    others = min(
        _rest_margin(evidence.engines, settings.stall_engine_ratio),
        # NVML counts a copy as utilization; GPM does not.
        _rest_margin(evidence.pcie, settings.stall_link_ratio),
        _rest_margin(evidence.nvlink, settings.stall_link_ratio),
    )
    if not evidence.has_counters:
        limit = settings.stall_memory_controller_ratio
        if evidence.pcie is None:
            limit = min(limit, settings.stall_copy_controller_ratio)
        return min(others, _rest_margin(memory_work(evidence.signals), limit))
    return min(
        others,
        _rest_margin(evidence.pipes, settings.stall_pipe_ratio),
        _rest_margin(evidence.dram, settings.stall_dram_ratio),
    )


def _pcie(evidence: StateEvidence, settings: ClassificationSettings) -> float:
    return min(
        margin_above(evidence.pcie, settings.link_ratio),
        _rest_margin(evidence.pipes, settings.link_pipe_ratio),
    )


def _memory_bandwidth(evidence: StateEvidence, settings: ClassificationSettings) -> float:
    # Only with tensor cores, which do most of the work, can pipes be ruled out as the limit.
    pipes = evidence.pipes if _Signal.TENSOR_ACTIVE in evidence.signals else None
    return max(
        margin_above(evidence.dram, settings.dram_ratio),
        min(
            margin_above(evidence.dram, settings.dram_alone_ratio),
            margin_below(pipes, settings.pipe_ratio),
        ),
    )


def _launch(evidence: StateEvidence, settings: ClassificationSettings) -> float:
    busy = evidence.busy
    sm = evidence.sm
    if not busy or sm is None:
        return 0.0
    # A spinning kernel covers as few SMs; without power the two cannot be told apart.
    if possible_stall(evidence, settings) >= MATCH_MARGIN:
        return _JUST_OUTSIDE
    covered = sm / busy
    dense = min(
        margin_above(busy, settings.launch_busy_ratio),
        margin_below(sm, settings.launch_sm_ratio),
        margin_below(covered, settings.launch_coverage_ratio),
    )
    # A process that launches without rest leaves gaps as a lightly used service does, but no CPU.
    sparse = min(
        margin_above(busy, settings.sparse_launch_busy_ratio),
        margin_below(covered, settings.sparse_launch_coverage_ratio),
        margin_above(evidence.process_cpu, settings.sparse_launch_cpu_ratio),
        # Under pressure, the gaps are the host's or the storage's.
        _rest_margin(evidence.cpu_pressure, settings.cpu_pressure_ratio),
        _rest_margin(evidence.io_pressure, settings.io_pressure_ratio),
    )
    return max(dense, sparse)


def _storage(evidence: StateEvidence, settings: ClassificationSettings) -> float:
    pressure = margin_above(evidence.io_pressure, settings.io_pressure_ratio)
    return min(_has_gaps(evidence, settings), pressure)


def _host(evidence: StateEvidence, settings: ClassificationSettings) -> float:
    return min(
        _has_gaps(evidence, settings),
        max(
            margin_above(evidence.cpu, settings.cpu_ratio),
            margin_above(evidence.cpu_pressure, settings.cpu_pressure_ratio),
        ),
    )


def _has_gaps(evidence: StateEvidence, settings: ClassificationSettings) -> float:
    """Margin of gaps in the load; a busy encoder leaves none, even with idle SMs."""
    if (busy := evidence.busy) is not None and evidence.engines is not None:
        busy = max(busy, evidence.engines)
    return margin_below(busy, settings.gap_busy_ratio)


def _rest_margin(value: float | None, threshold: float) -> float:
    """Margin of a value below a threshold; 1 if not measured."""
    return 1.0 if value is None else margin_below(value, threshold)


_Signature = Callable[[StateEvidence, ClassificationSettings], float]
SIGNATURES: Final[tuple[tuple[State, _Signature, frozenset[Signal]], ...]] = (
    (State.HIDDEN_STALL, _hidden_stall, frozenset({Signal.POWER})),
    (State.PCIE_BOUND, _pcie, frozenset({Signal.PCIE_RECEIVE, Signal.PCIE_TRANSMIT})),
    (State.MEMORY_BANDWIDTH_BOUND, _memory_bandwidth, frozenset({Signal.DRAM_ACTIVE})),
    (State.COMPUTE_BOUND, lambda of, to: margin_above(of.pipes, to.pipe_ratio), frozenset(PIPES)),
    (State.LAUNCH_BOUND, _launch, frozenset({Signal.SM_ACTIVE})),
    (State.STORAGE_BOUND, _storage, frozenset({Signal.IO_PRESSURE})),
    (State.HOST_BOUND, _host, frozenset({Signal.CPU, Signal.CPU_PRESSURE})),
)
"""States of an active device, first match; `productive` if none matches.

A state is possible only if at least one of its signals is known.
"""
_WAITS: Final = (State.STORAGE_BOUND, State.HOST_BOUND)
"""States that explain gaps or complete inactivity."""


@lru_cache(maxsize=LAYOUTS_KEPT)
def _possible(layout: SignalLayout) -> Sequence[tuple[State, _Signature]]:
    return [(state, shown) for state, shown, by in SIGNATURES if not by.isdisjoint(layout.known)]


class StateMatch(NamedTuple):
    """State of an interval, the next best explanation, and the score."""

    state: State
    second_cause: State | None
    score: float
    unknown_reason: UnknownReason | None = None
    """Set only for the state `unknown`."""


_UNKNOWN: Final = {why: StateMatch(State.UNKNOWN, None, 1.0, why) for why in UnknownReason}


def classify(evidence: StateEvidence, settings: ClassificationSettings) -> StateMatch:
    """Classify one interval by the table in `docs/definitions.md`, first match."""
    if evidence.layout.tier is _Tier.NONE:
        return _UNKNOWN[UnknownReason.NO_UTILIZATION]
    if (active := activity_margin(evidence, settings)) < MATCH_MARGIN:
        return _at_rest(evidence, active, settings)
    if _is_waking(evidence, settings):
        return _UNKNOWN[UnknownReason.NO_HOLDER]
    return _at_work(evidence, settings)


def looks_stalled(evidence: StateEvidence, settings: ClassificationSettings) -> bool:
    """Whether a device is busy at low power; two such of a workload confirm a hidden stall."""
    busy = evidence.busy
    power = evidence.power
    return (
        busy is not None
        and power is not None
        and busy >= settings.stall_busy_ratio
        and power < settings.stall_power_ratio * evidence.clock_ratio
    )


def _at_rest(
    evidence: StateEvidence, active: float, settings: ClassificationSettings
) -> StateMatch:
    """Idle, unless work would be invisible or the power indicates some."""
    power = evidence.power
    if not evidence.sees_compute:
        return _UNKNOWN[UnknownReason.PARTIAL_COUNTERS]
    if power is not None and power >= settings.idle_power_ratio:
        return _UNKNOWN[UnknownReason.DRAWS_POWER]
    if not _is_held(evidence, settings):
        return StateMatch(_State.IDLE_EMPTY, None, 1.0 - active)
    waits: dict[State, float] = {
        state: signature(evidence, settings)
        for state, signature in _possible(evidence.layout)
        if state in _WAITS
    }
    return StateMatch(_State.IDLE_HELD, _second_cause(waits, settings), 1.0 - active)


def _at_work(evidence: StateEvidence, settings: ClassificationSettings) -> StateMatch:
    scores = {
        state: signature(evidence, settings) for state, signature in _possible(evidence.layout)
    }
    match = next((state for state, score in scores.items() if score >= MATCH_MARGIN), None)
    if match is _State.STORAGE_BOUND and scores.get(_State.HOST_BOUND, 0.0) > scores[match]:
        match = _State.HOST_BOUND
    if match is not None:
        own = scores.pop(match)
        return StateMatch(match, _second_cause(scores, settings), own)
    if not evidence.sees_compute:
        # A limit shows in its own signal; that there is none takes all of the work.
        return _UNKNOWN[UnknownReason.PARTIAL_COUNTERS]
    unsure = max((*scores.values(), possible_stall(evidence, settings)))
    return StateMatch(_State.PRODUCTIVE, _second_cause(scores, settings), 1.0 - unsure)


def _second_cause(scores: Mapping[State, float], settings: ClassificationSettings) -> State | None:
    best = max(scores, key=scores.__getitem__, default=None)
    return best if best and scores[best] >= settings.second_cause_score else None


def _is_held(evidence: StateEvidence, settings: ClassificationSettings) -> bool:
    signals = evidence.signals
    processes = signals.get(_Signal.PROCESS_COUNT)
    memory = signals.get(_Signal.MEMORY_USED)
    if processes:
        return True
    if memory is None:
        size = signals.get(_Signal.MEMORY_USED_BYTES)
        return processes is None if size is None else size >= settings.empty_memory_bytes
    total = evidence.memory_total_bytes
    smallest = settings.empty_memory_bytes / total if total else 0.0
    return memory >= max(settings.empty_memory_ratio, smallest)


def _is_waking(evidence: StateEvidence, settings: ClassificationSettings) -> bool:
    """Whether a device is busy without cause, as a GPU reads while waking up."""
    used = evidence.memory_used_bytes
    processes = evidence.signals.get(_Signal.PROCESS_COUNT)
    # Logs of only utilization and memory may sample the two at different times.
    is_unattended = processes == 0 or (
        processes is None and _Signal.POWER_WATTS in evidence.signals
    )
    return (
        is_unattended
        and used is not None
        and used < settings.context_memory_bytes
        # Counters of SMs, pipes and memory are reliable here.
        and (evidence.sm or 0.0) < settings.active_sm_ratio
        and (evidence.pipes or 0.0) < settings.active_ratio
        and (evidence.dram or 0.0) < settings.active_traffic_ratio
    )
