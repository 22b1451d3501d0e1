"""What each state looks like: the weakest of its signs decides how well it fits.

The order is that of `docs/definitions.md`: the first that fits is the state.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rightsizer.accounting.evidence import Evidence
from rightsizer.accounting.margin import MATCH, above, below
from rightsizer.accounting.thresholds import ClassifySettings
from rightsizer.domain.state import State

__all__ = ["SIGNATURES", "Scene", "activity", "possible_stall", "why_it_waits"]


@dataclass(frozen=True, slots=True)
class Scene:
    """The evidence of a stretch with what else bears on it."""

    evidence: Evidence
    peer_stalls: bool = False
    clock_ratio: float = 1.0


def activity(evidence: Evidence, settings: ClassifySettings) -> float:
    """How clearly a device does anything; every witness must be at rest for it to be idle."""
    ratio, traffic = settings.active_ratio, settings.active_traffic_ratio
    return max(
        above(evidence.busy, ratio),
        above(evidence.pipes, ratio),
        above(evidence.engines, ratio),
        above(evidence.sm, settings.active_sm_ratio),
        above(evidence.dram, traffic),
        above(evidence.pcie, traffic),
        above(evidence.nvlink, traffic),
    )


def possible_stall(scene: Scene, settings: ClassifySettings) -> float:
    """How far a stall cannot be excluded for want of the device's power; 0 where it is known."""
    evidence = scene.evidence
    if evidence.power is not None:
        return 0.0
    return min(MATCH, _spins(evidence, settings), above(evidence.busy, settings.stall_busy_ratio))


def why_it_waits(scene: Scene, settings: ClassifySettings) -> dict[State, float]:
    """How well storage and host explain that a device has gaps, or does nothing at all."""
    return {
        State.STORAGE_BOUND: _storage(scene, settings),
        State.HOST_BOUND: _host(scene, settings),
    }


def _hidden_stall(scene: Scene, settings: ClassifySettings) -> float:
    evidence, power = scene.evidence, settings.stall_power_ratio
    needed = settings.stall_busy_ratio
    if not evidence.has_counters:
        # Work draws less at a low clock, too; and what may be work is not accused.
        power *= scene.clock_ratio
        if not scene.peer_stalls:
            needed = settings.stall_busy_alone_ratio
    return min(
        above(evidence.busy, needed), below(evidence.power, power), _spins(evidence, settings)
    )


def _spins(evidence: Evidence, settings: ClassifySettings) -> float:
    """How far nothing else than the presence of a kernel shows; what nobody measures may be."""
    signs = [_at_rest(evidence.engines, settings.stall_engine_ratio)]
    if evidence.has_counters:
        signs.append(_at_rest(evidence.pipes, settings.stall_pipe_ratio))
        signs.append(_at_rest(evidence.dram, settings.stall_dram_ratio))
    else:
        controller = evidence.memory_controller
        signs.append(_at_rest(controller, settings.stall_memory_controller_ratio))
    return min(signs)


def _pcie(scene: Scene, settings: ClassifySettings) -> float:
    evidence = scene.evidence
    return min(
        above(evidence.pcie, settings.link_ratio),
        _at_rest(evidence.pipes, settings.link_pipe_ratio),
    )


def _memory_bandwidth(scene: Scene, settings: ClassifySettings) -> float:
    evidence = scene.evidence
    return max(
        above(evidence.dram, settings.dram_ratio),
        min(
            above(evidence.dram, settings.dram_alone_ratio),
            _at_rest(evidence.pipes, settings.pipe_ratio),
        ),
    )


def _compute(scene: Scene, settings: ClassifySettings) -> float:
    return above(scene.evidence.pipes, settings.pipe_ratio)


def _launch(scene: Scene, settings: ClassifySettings) -> float:
    busy, sm = scene.evidence.busy, scene.evidence.sm
    if not busy or sm is None:
        return 0.0
    return min(
        above(busy, settings.launch_busy_ratio),
        below(sm, settings.launch_sm_ratio),
        below(sm / busy, settings.launch_coverage_ratio),
    )


def _storage(scene: Scene, settings: ClassifySettings) -> float:
    evidence = scene.evidence
    return min(
        _has_gaps(evidence, settings), above(evidence.io_pressure, settings.io_pressure_ratio)
    )


def _host(scene: Scene, settings: ClassifySettings) -> float:
    evidence = scene.evidence
    return min(
        _has_gaps(evidence, settings),
        max(
            above(evidence.cpu, settings.cpu_ratio),
            above(evidence.cpu_pressure, settings.cpu_pressure_ratio),
        ),
    )


def _has_gaps(evidence: Evidence, settings: ClassifySettings) -> float:
    """An encoder that works all the time leaves no gaps, however little the SMs do."""
    busy = evidence.busy
    if busy is not None and evidence.engines is not None:
        busy = max(busy, evidence.engines)
    return below(busy, settings.gap_busy_ratio)


def _at_rest(value: float | None, threshold: float) -> float:
    """How far a value is below a threshold, wholly where nobody measures it."""
    return 1.0 if value is None else below(value, threshold)


_Signature = Callable[[Scene, ClassifySettings], float]
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
