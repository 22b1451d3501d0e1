"""One scenario with one seed, judged by Rightsizer and by the rules of others."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from evaluation.simulated_day import Truth, simulated_ticks
from evaluation.states.baseline_state import BaselineState
from evaluation.states.baselines import BASELINES
from evaluation.states.disturbance import Disturbance, without_power, without_profiling
from evaluation.states.merged_states import merged_state
from evaluation.states.scores import OURS, Scores
from rightsizer.accounting.entry_builder import EntryBuilder
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.state import Condition, State, Tier
from rightsizer.model.window import Entry

_NO_CONDITIONS: Final[frozenset[Condition]] = frozenset()
_REDUCTIONS: Final[Mapping[Tier, Callable[[Snapshot], Snapshot]]] = {
    Tier.PROFILING: lambda snapshot: snapshot,
    Tier.POWER: without_profiling,
    Tier.BASIC: without_power,
}
_STREAMS: Final = (
    (Tier.PROFILING, False),
    (Tier.POWER, False),
    (Tier.BASIC, False),
    (Tier.PROFILING, True),
    (Tier.POWER, True),
)
"""By tier, and whether it is disturbed."""
_RIVALS_TIERS: Final = frozenset({Tier.PROFILING, Tier.POWER})


def judge(path: Path, seed: int, tick_seconds: float, *, is_varied: bool) -> Scores:
    """A day of a scenario on every tier, as it is and disturbed.

    Args:
        path: The scenario's file.
        seed: For its noise, its variation and its disturbance.
        tick_seconds: Simulated time between two readings.
        is_varied: Whether the seed also changes what the kernels do.

    Raises:
        ScenarioError: the file is no scenario.
    """
    scores = Scores()
    disturbance = Disturbance(f"{path.stem} {seed}")
    streams = [_Stream(scores, tier, is_disturbed=is_disturbed) for tier, is_disturbed in _STREAMS]
    for tick in simulated_ticks(path, seed, tick_seconds, is_varied=is_varied):
        disturbed = disturbance.disturbed(tick.snapshot, tick.late)
        for stream in streams:
            stream.see(disturbed if stream.is_disturbed else tick.snapshot, tick.truths)
    return scores


class _Segment(Struct, frozen=True):
    """Entry of a device with its true state and conditions."""

    entry: Entry
    truth: State
    conditions: frozenset[Condition]


class _Stream:
    """All who judge one stream of snapshots."""

    def __init__(self, scores: Scores, tier: Tier, *, is_disturbed: bool) -> None:
        self.is_disturbed = is_disturbed
        self._scores = scores
        self._reduce = _REDUCTIONS[tier]
        self._entry_builder = EntryBuilder()
        self._watch = BaselineState() if tier in _RIVALS_TIERS else None

    def see(self, seen: Snapshot, truths: Mapping[str, Truth]) -> None:
        """Judge what is left of a snapshot on this tier."""
        snapshot = self._reduce(seen)
        entries = self._entry_builder.post(snapshot)
        watched = self._watch.see(snapshot) if self._watch is not None else {}
        for entry in entries:
            segment = _Segment(entry, *truths.get(entry.uuid, (State.UNKNOWN, _NO_CONDITIONS)))
            if self._is_judged(segment):
                self._ours(segment)
                if entry.uuid in watched:
                    for name, rule in BASELINES.items():
                        self._count(name, segment, rule(*watched[entry.uuid]))

    def _is_judged(self, segment: _Segment) -> bool:
        """Whether there is anything to be right or wrong about."""
        is_unknown = segment.entry.state is State.UNKNOWN
        if segment.truth is not State.UNKNOWN and not is_unknown:
            return True
        duration = segment.entry.duration
        scores = self._scores
        if not is_unknown:
            scores.invented += duration
        elif segment.truth is State.UNKNOWN:
            scores.rightly_unknown += duration
        else:
            scores.abstained += duration
        return False

    def _ours(self, segment: _Segment) -> None:
        entry = segment.entry
        self._count(OURS, segment, entry.state, entry.second_cause)
        if entry.tier is Tier.PROFILING:
            for condition in Condition:
                self._scores.conditions[condition, self.is_disturbed].add(
                    entry.duration,
                    is_true=condition in segment.conditions,
                    is_found=condition in entry.conditions,
                )

    def _count(
        self, judge: str, segment: _Segment, found: State, second: State | None = None
    ) -> None:
        entry = segment.entry
        names = [
            None if state is None else merged_state(state, entry.tier, entry.signals)
            for state in (segment.truth, found, second)
        ]
        confusion = self._scores.confusions[judge, entry.tier, self.is_disturbed]
        confusion.add(str(names[0]), str(names[1]), entry.duration, names[2])
