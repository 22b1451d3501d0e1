"""Signatures of the states.

Evidence from signals, margins to thresholds, the weakest sign decides.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.accounting.classification_settings import ClassificationSettings
from rightsizer.accounting.signals import highest, memory_work
from rightsizer.model.signal import PIPES, Signal
from rightsizer.model.state import State

MATCH_MARGIN: Final = 0.5
"""From here on a value is inside."""
_JUST_OUTSIDE: Final = math.nextafter(MATCH_MARGIN, 0.0)


def margin_above(value: float | None, threshold: float) -> float:
    """How far a value is above a threshold; a half of the threshold is halfway out."""
    if value is None:
        return 0.0
    if value < threshold:
        return min(_JUST_OUTSIDE, MATCH_MARGIN * value / threshold)
    return (
        MATCH_MARGIN + MATCH_MARGIN * (value - threshold) / (1.0 - threshold)
        if threshold < 1
        else 1.0
    )


def margin_below(value: float | None, threshold: float) -> float:
    """How far a value is below a threshold; twice the threshold is halfway out."""
    if value is None:
        return 0.0
    if value < threshold:
        return MATCH_MARGIN + MATCH_MARGIN * (threshold - value) / threshold
    return min(_JUST_OUTSIDE, MATCH_MARGIN * threshold / value) if value > 0 else 0.0


_ENGINES: Final = (Signal.ENCODER, Signal.DECODER, Signal.JPEG, Signal.OFA)
_PCIE: Final = (Signal.PCIE_RECEIVE, Signal.PCIE_TRANSMIT)
_NVLINK: Final = (Signal.NVLINK_RECEIVE, Signal.NVLINK_TRANSMIT)


@dataclass(frozen=True, slots=True)
class StateEvidence:
    """The witnesses, each `None` where nobody heard it; where there are several, the loudest."""

    busy: float | None
    power: float | None
    sm: float | None
    pipes: float | None
    dram: float | None
    engines: float | None
    """The media engines, which work while the SMs rest."""
    pcie: float | None
    nvlink: float | None
    memory_controller: float | None
    """At the highest memory clock; its own share is of the current one."""
    cpu: float | None
    cpu_pressure: float | None
    io_pressure: float | None

    @classmethod
    def of(cls, signals: Mapping[Signal, float]) -> "StateEvidence":
        """The evidence in these signals."""
        get = signals.get
        return cls(
            busy=get(Signal.GPU_BUSY),
            power=get(Signal.POWER),
            sm=get(Signal.SM_ACTIVE),
            pipes=highest(signals, *PIPES),
            dram=get(Signal.DRAM_ACTIVE),
            engines=highest(signals, *_ENGINES),
            pcie=highest(signals, *_PCIE),
            nvlink=highest(signals, *_NVLINK),
            memory_controller=memory_work(signals),
            cpu=get(Signal.CPU),
            cpu_pressure=get(Signal.CPU_PRESSURE),
            io_pressure=get(Signal.IO_PRESSURE),
        )

    @property
    def has_counters(self) -> bool:
        """Whether anybody counts what pipes or memory do."""
        return self.pipes is not None or self.dram is not None

    @property
    def sees_compute(self) -> bool:
        """Whether a kernel would show; a single pipe at rest says nothing of the others."""
        return self.busy is not None or self.sm is not None


@dataclass(frozen=True, slots=True)
class SignatureInput:
    """The evidence of a stretch with what else bears on it."""

    evidence: StateEvidence
    peer_stalls: bool = False
    clock_ratio: float = 1.0


def activity_margin(evidence: StateEvidence, settings: ClassificationSettings) -> float:
    """How clearly a device does anything; every witness must be at rest for it to be idle."""
    ratio, traffic = settings.active_ratio, settings.active_traffic_ratio
    return max(
        margin_above(evidence.busy, ratio),
        margin_above(evidence.pipes, ratio),
        margin_above(evidence.engines, ratio),
        margin_above(evidence.sm, settings.active_sm_ratio),
        margin_above(evidence.dram, traffic),
        margin_above(evidence.pcie, traffic),
        margin_above(evidence.nvlink, traffic),
    )


def possible_stall(scene: SignatureInput, settings: ClassificationSettings) -> float:
    """How far a stall cannot be excluded for want of the device's power; 0 where it is known."""
    evidence = scene.evidence
    if evidence.power is not None:
        return 0.0
    return min(
        MATCH_MARGIN,
        _spins(evidence, settings),
        margin_above(evidence.busy, settings.stall_busy_ratio),
    )


def wait_cause(scene: SignatureInput, settings: ClassificationSettings) -> dict[State, float]:
    """How well storage and host explain that a device has gaps, or does nothing at all."""
    return {
        State.STORAGE_BOUND: _storage(scene, settings),
        State.HOST_BOUND: _host(scene, settings),
    }


def _hidden_stall(scene: SignatureInput, settings: ClassificationSettings) -> float:
    evidence, power = scene.evidence, settings.stall_power_ratio
    needed = settings.stall_busy_ratio
    if not evidence.has_counters:
        # Work draws less at a low clock, too; and what may be work is not accused.
        power *= scene.clock_ratio
        if not scene.peer_stalls:
            needed = settings.stall_busy_alone_ratio
    return min(
        margin_above(evidence.busy, needed),
        margin_below(evidence.power, power),
        _spins(evidence, settings),
    )


def _spins(evidence: StateEvidence, settings: ClassificationSettings) -> float:
    """How far nothing else than the presence of a kernel shows; what nobody measures may be."""
    signs = [_at_rest(evidence.engines, settings.stall_engine_ratio)]
    if evidence.has_counters:
        signs.append(_at_rest(evidence.pipes, settings.stall_pipe_ratio))
        signs.append(_at_rest(evidence.dram, settings.stall_dram_ratio))
    else:
        controller = evidence.memory_controller
        signs.append(_at_rest(controller, settings.stall_memory_controller_ratio))
    return min(signs)


def _pcie(scene: SignatureInput, settings: ClassificationSettings) -> float:
    evidence = scene.evidence
    return min(
        margin_above(evidence.pcie, settings.link_ratio),
        _at_rest(evidence.pipes, settings.link_pipe_ratio),
    )


def _memory_bandwidth(scene: SignatureInput, settings: ClassificationSettings) -> float:
    evidence = scene.evidence
    return max(
        margin_above(evidence.dram, settings.dram_ratio),
        min(
            margin_above(evidence.dram, settings.dram_alone_ratio),
            _at_rest(evidence.pipes, settings.pipe_ratio),
        ),
    )


def _compute(scene: SignatureInput, settings: ClassificationSettings) -> float:
    return margin_above(scene.evidence.pipes, settings.pipe_ratio)


def _launch(scene: SignatureInput, settings: ClassificationSettings) -> float:
    busy, sm = scene.evidence.busy, scene.evidence.sm
    if not busy or sm is None:
        return 0.0
    return min(
        margin_above(busy, settings.launch_busy_ratio),
        margin_below(sm, settings.launch_sm_ratio),
        margin_below(sm / busy, settings.launch_coverage_ratio),
    )


def _storage(scene: SignatureInput, settings: ClassificationSettings) -> float:
    evidence = scene.evidence
    return min(
        _has_gaps(evidence, settings),
        margin_above(evidence.io_pressure, settings.io_pressure_ratio),
    )


def _host(scene: SignatureInput, settings: ClassificationSettings) -> float:
    evidence = scene.evidence
    return min(
        _has_gaps(evidence, settings),
        max(
            margin_above(evidence.cpu, settings.cpu_ratio),
            margin_above(evidence.cpu_pressure, settings.cpu_pressure_ratio),
        ),
    )


def _has_gaps(evidence: StateEvidence, settings: ClassificationSettings) -> float:
    """An encoder that works all the time leaves no gaps, however little the SMs do."""
    busy = evidence.busy
    if busy is not None and evidence.engines is not None:
        busy = max(busy, evidence.engines)
    return margin_below(busy, settings.gap_busy_ratio)


def _at_rest(value: float | None, threshold: float) -> float:
    """How far a value is below a threshold, wholly where nobody measures it."""
    return 1.0 if value is None else margin_below(value, threshold)


_Signature = Callable[[SignatureInput, ClassificationSettings], float]
SIGNATURES: Final[tuple[tuple[State, _Signature], ...]] = (
    (State.HIDDEN_STALL, _hidden_stall),
    (State.PCIE_BOUND, _pcie),
    (State.MEMORY_BANDWIDTH_BOUND, _memory_bandwidth),
    (State.COMPUTE_BOUND, _compute),
    (State.LAUNCH_BOUND, _launch),
    (State.STORAGE_BOUND, _storage),
    (State.HOST_BOUND, _host),
)
"""The states of a device that does something, first match; `productive` is what is left."""
