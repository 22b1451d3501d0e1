"""Track record of advice: outcomes, savings, and how its confidence held, by rule and reason."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rightsizer.advice.settings import TrackRecordSettings
from rightsizer.model.advice import Advice
from rightsizer.model.frozen import dataclass, field, replace

_BINS: Final = 20
_NONE: Final = (0,) * _BINS


@dataclass(frozen=True, slots=True)
class OutcomeCounts:
    """What became of a rule's advice for one reason."""

    rule: str
    reason: str
    outcomes: Mapping[str, int] = field(default_factory=dict, hash=False)
    """By the state in which it ended."""
    confirmed: tuple[int, ...] = _NONE
    """By confidence, in twentieths."""
    contradicted: tuple[int, ...] = _NONE
    squared_errors: float = 0.0
    """Of the confidence that it was opened with, over all answers."""
    realized_gpu_hours: float = 0.0
    realized_joules: float = 0.0

    @property
    def answers(self) -> int:
        """Advice of which it became clear whether it was right."""
        return sum(self.confirmed) + sum(self.contradicted)

    def floor(self, settings: TrackRecordSettings) -> float:
        """The confidence from which on it was right often enough; 0 while nothing is amiss."""
        right, wrong = sum(self.confirmed), sum(self.contradicted)
        if self.answers < settings.least_answers:
            return 0.0
        for place in range(_BINS):
            if right + wrong and right >= settings.least_precision_ratio * (right + wrong):
                return min(settings.highest_floor_ratio, place / _BINS)
            right -= self.confirmed[place]
            wrong -= self.contradicted[place]
        return settings.highest_floor_ratio


class TrackRecord:
    """Tallies by rule and reason. There are only so many rules: it is bounded by itself."""

    def __init__(
        self, tallies: Iterable[OutcomeCounts] = (), settings: TrackRecordSettings | None = None
    ) -> None:
        self._settings = settings or TrackRecordSettings()
        self._tallies = {(tally.rule, tally.reason): tally for tally in tallies}

    @property
    def tallies(self) -> tuple[OutcomeCounts, ...]:
        """All, by rule and reason."""
        return tuple(self._tallies[key] for key in sorted(self._tallies))

    @property
    def outcomes(self) -> dict[tuple[str, str], int]:
        """How much advice ended, by its reason and the state that it ended in."""
        found: Counter[tuple[str, str]] = Counter()
        for tally in self.tallies:
            found.update({(tally.reason, state): n for state, n in tally.outcomes.items()})
        return dict(found)

    @property
    def realized_gpu_hours(self) -> dict[str, float]:
        """GPU-hours that were saved within the times compared, by rule."""
        found: dict[str, float] = {}
        for tally in self.tallies:
            found[tally.rule] = found.get(tally.rule, 0.0) + tally.realized_gpu_hours
        return found

    @property
    def brier(self) -> dict[str, float]:
        """The mean squared error of the confidence, by rule; none without an answer."""
        errors: dict[str, tuple[float, int]] = {}
        for tally in self.tallies:
            total, count = errors.get(tally.rule, (0.0, 0))
            errors[tally.rule] = (total + tally.squared_errors, count + tally.answers)
        return {rule: total / count for rule, (total, count) in errors.items() if count}

    def floor(self, rule: str, reason: str) -> float:
        """The confidence without which nothing is opened; 0 where the rule's own decides."""
        tally = self._tallies.get((rule, reason))
        if tally is None or not self._settings.raises_floors:
            return 0.0
        return tally.floor(self._settings)

    def ended(self, advice: Advice) -> None:
        """Count how advice ended."""
        tally = self._of(advice)
        count = tally.outcomes.get(advice.state, 0) + 1
        self._put(tally, outcomes={**tally.outcomes, str(advice.state): count})

    def answered(self, advice: Advice, confidence: float, *, was_right: bool) -> None:
        """Count whether advice was right that was opened with some confidence."""
        tally = self._of(advice)
        error = (confidence - float(was_right)) ** 2
        counts = list(tally.confirmed if was_right else tally.contradicted)
        counts[min(_BINS - 1, int(confidence * _BINS))] += 1
        changes = {"confirmed" if was_right else "contradicted": tuple(counts)}
        self._put(tally, squared_errors=tally.squared_errors + error, **changes)

    def saved(self, advice: Advice, gpu_hours: float, joules: float) -> None:
        """Count what following advice has saved."""
        tally = self._of(advice)
        self._put(
            tally,
            realized_gpu_hours=tally.realized_gpu_hours + gpu_hours,
            realized_joules=tally.realized_joules + joules,
        )

    def _of(self, advice: Advice) -> OutcomeCounts:
        reasons = advice.finding.reasons
        key = (advice.finding.rule, str(reasons[0]) if reasons else "")
        return self._tallies.get(key) or OutcomeCounts(*key)

    def _put(self, tally: OutcomeCounts, **changes: Any) -> None:
        self._tallies[tally.rule, tally.reason] = replace(tally, **changes)
