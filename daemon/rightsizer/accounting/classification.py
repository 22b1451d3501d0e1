"""Classification of readings: the first state with a claim that the signals meet."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from rightsizer.accounting.classification_settings import ClassificationSettings
from rightsizer.accounting.definitions import (
    ACTIVE,
    AT_REST,
    AT_WORK,
    HAS_UTILIZATION,
    LIMITS,
    LOOKS_STALLED,
    MAY_STALL,
    SUSPECTED,
    WAITS,
)
from rightsizer.accounting.float_interpreter import MATCH_MARGIN, closed
from rightsizer.accounting.signals import LAYOUTS_KEPT, SignalLayout, StateEvidence
from rightsizer.model.members import members
from rightsizer.model.values import State, UnknownReason

_State = members(State)


class StateMatch(NamedTuple):
    """State of an interval, the next best explanation, and the score."""

    state: State
    second_cause: State | None
    score: float
    unknown_reason: UnknownReason | None = None
    """Set only for the state `unknown`."""


_UNKNOWN: Final = {why: StateMatch(State.UNKNOWN, None, 1.0, why) for why in UnknownReason}
_FIRST: Final = AT_WORK.index(LIMITS[0])
_BEFORE: Final = AT_WORK[:_FIRST]
_AFTER: Final = AT_WORK[_FIRST + len(LIMITS) :]


class _States:
    """Compiled table of states, for a layout; limits that its signals cannot show are absent."""

    def __init__(self, layout: SignalLayout, settings: ClassificationSettings) -> None:
        compiler = layout.compiler(settings)
        self._second_cause_score = settings.second_cause_score
        self._has_utilization = compiler.test(HAS_UTILIZATION)
        self._activity = closed(compiler.margin(ACTIVE))
        self._possible_stall = closed(compiler.margin(MAY_STALL))
        self._at_rest, self._before, self._after, self._suspected = (
            [(row, closed(test)) for row in rows if (test := compiler.test(row.claim))]
            for rows in (AT_REST, _BEFORE, _AFTER, SUSPECTED)
        )
        margins = ((row.state, compiler.margin(row.claim)) for row in LIMITS)
        self._limits = [(state, closed(margin)) for state, margin in margins if margin]
        self._waits = [limit for limit in self._limits if limit[0] in WAITS]

    def match(self, values: Mapping[str, Any]) -> StateMatch:
        """First row that holds; a limit by its margin."""
        if not self._has_utilization:
            return _UNKNOWN[UnknownReason.NO_UTILIZATION]
        active = self._activity(values)
        if active < MATCH_MARGIN:
            row = next(row for row, test in self._at_rest if test(values))
            if row.unknown_reason is not None:
                return _UNKNOWN[row.unknown_reason]
            waits = self._waits if row.state is _State.IDLE_HELD else ()
            scores = {state: margin(values) for state, margin in waits}
            return StateMatch(row.state, self._second_cause(scores), 1.0 - active)
        for row, test in self._before:
            if test(values):
                return _UNKNOWN[row.unknown_reason or UnknownReason.NO_UTILIZATION]
        scores = {}
        match: State | None = None
        for state, margin in self._limits:
            scores[state] = score = margin(values)
            if match is None and score >= MATCH_MARGIN:
                match = state
        if match is not None:
            score = scores.pop(match)
            return StateMatch(match, self._second_cause(scores), score)
        row = next(row for row, test in self._after if test(values))
        if row.unknown_reason is not None:
            return _UNKNOWN[row.unknown_reason]
        possible = min(MATCH_MARGIN, self._possible_stall(values))
        unsure = max((*scores.values(), possible))
        suspected = next((row.state for row, test in self._suspected if test(values)), None)
        return StateMatch(row.state, suspected or self._second_cause(scores), 1.0 - unsure)

    def _second_cause(self, scores: Mapping[State, float]) -> State | None:
        best = max(scores, key=scores.__getitem__, default=None)
        return best if best and scores[best] >= self._second_cause_score else None


_states: Final = lru_cache(maxsize=LAYOUTS_KEPT)(_States)


def classify(evidence: StateEvidence, settings: ClassificationSettings) -> StateMatch:
    """Classify one interval by the table in `docs/definitions.md`, first match."""
    return _states(evidence.layout, settings).match(evidence.values)


@lru_cache(maxsize=LAYOUTS_KEPT)
def _stalled(layout: SignalLayout, settings: ClassificationSettings) -> Callable[..., Any]:
    return closed(layout.compiler(settings).test(LOOKS_STALLED))


def looks_stalled(evidence: StateEvidence, settings: ClassificationSettings) -> bool:
    """Whether a device is busy at low power; two such of a workload confirm a hidden stall."""
    return bool(_stalled(evidence.layout, settings)(evidence.values))
