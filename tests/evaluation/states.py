"""Every second's state against the simulator's truth: as it is, without profiling, disturbed."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from evaluation.confusion import Confusion
from evaluation.disturbance import disturbed, without_profiling
from evaluation.options import Options
from measured import table
from rightsizer.accounting.books import Books
from rightsizer.catalogue.catalogue import built_in
from rightsizer.domain.entry import Entry
from rightsizer.domain.snapshot import Snapshot
from rightsizer.domain.state import State, Tier
from rightsizer.domain.units import NANOSECONDS_PER_SECOND
from rightsizer.telemetry.simulated.node import Node
from rightsizer.telemetry.simulated.scenario import load_scenario, packaged_scenarios
from rightsizer.telemetry.simulated.source import SimulatedSource

__all__ = ["evaluate"]

_DAY: Final = 86400 * NANOSECONDS_PER_SECOND
_MISTAKES: Final = 8
_SCORES: Final = ("state", "hours", "precision", "recall", "F1")
_TAKEN: Final = ("truth", "taken for", "hours", "of that truth")


@dataclass
class _Scores:
    """Over all scenarios and seeds."""

    profiling: Confusion = field(default_factory=Confusion)
    disturbed: Confusion = field(default_factory=Confusion)
    power: Confusion = field(default_factory=Confusion)
    blind: Confusion = field(default_factory=Confusion)
    """Devices of which NVML alone reads no activity."""


def evaluate(options: Options) -> Iterator[str]:
    """Scores on the profiling tier, then disturbed, then on the power tier."""
    scores = _Scores()
    for name in packaged_scenarios():
        for seed in range(options.seeds):
            _run(name, seed, options.tick_seconds, scores)
    yield f"{len(packaged_scenarios())} scenarios, {options.seeds} seeds each, one day each.\n"
    yield "#### Profiling tier\n"
    yield from _report(scores.profiling)
    yield "#### Profiling tier, disturbed\n"
    yield "Activities off by a fifth and power by a tenth (one sigma), one value in 20 missing.\n"
    yield from _report(scores.disturbed)
    yield "#### Power tier\n"
    yield from _report(scores.power)
    yield "By what that tier can tell apart:\n"
    yield table(scores.power.coarse().score_rows(), _SCORES)
    yield (
        f"\nBeside these, {scores.blind.gpu_days:.0f} GPU-days of MIG instances were unknown, as "
        "NVML alone reads nothing of their activity.\n"
    )


def _report(confusion: Confusion) -> Iterator[str]:
    yield (
        f"{confusion.gpu_days:.0f} GPU-days: accuracy {confusion.accuracy:.3f}, "
        f"macro-F1 {confusion.macro_f1:.3f}, "
        f"false idle {confusion.false_idle_seconds_per_day:.1f} s per GPU-day.\n"
    )
    yield table(confusion.score_rows(), _SCORES) + "\n"
    if mistakes := list(confusion.mistakes(_MISTAKES)):
        yield f"Taken for something else most often:\n\n{table(mistakes, _TAKEN)}\n"


def _run(name: str, seed: int, tick_seconds: int, scores: _Scores) -> None:
    catalogue = built_in()
    scenario = load_scenario(name, catalogue)
    scenario = replace(scenario, seed=scenario.seed + seed)
    source = SimulatedSource(
        scenario, catalogue, interval=tick_seconds * NANOSECONDS_PER_SECOND, duration=_DAY
    )
    whole, blurred, power = Books(), Books(), Books()
    random = Random(scenario.seed)
    for snapshot in iter(source.read, None):
        truths = _truths(source.node, snapshot)
        _count(whole.post(snapshot), truths, {Tier.PROFILING: scores.profiling})
        _count(
            blurred.post(disturbed(snapshot, random)), truths, {Tier.PROFILING: scores.disturbed}
        )
        _count(
            power.post(without_profiling(snapshot)),
            truths,
            {Tier.POWER: scores.power, Tier.NONE: scores.blind},
        )


def _count(entries: list[Entry], truths: dict[str, State], by_tier: dict[Tier, Confusion]) -> None:
    for entry in entries:
        confusion = by_tier.get(entry.tier)
        if confusion is not None:
            confusion.add(truths[entry.uuid], entry.state, entry.duration)


def _truths(node: Node, snapshot: Snapshot) -> dict[str, State]:
    return {uuid: node.truth(uuid, reading.time)[0] for uuid, reading in snapshot.readings.items()}
