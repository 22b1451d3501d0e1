"""Track record of advice: outcomes, savings, and calibration of confidence, by rule and reason."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.advice.settings import TrackRecordSettings
from rightsizer.model.values import Advice

_BINS: Final = 20
_NONE: Final = (0,) * _BINS


class OutcomeCounts(Struct, frozen=True):
    """Outcomes of a rule's advice for one reason."""

    rule: str
    reason: str
    outcomes: Mapping[str, int] = {}
    """By final state."""
    confirmed: tuple[int, ...] = _NONE
    """By opening confidence, in twentieths."""
    contradicted: tuple[int, ...] = _NONE
    realized_gpu_hours: float = 0.0
    realized_joules: float = 0.0

    @property
    def answers(self) -> int:
        """Number of recommendations known to be right or wrong."""
        return sum(self.confirmed) + sum(self.contradicted)

    def floor(self, settings: TrackRecordSettings) -> float:
        """Confidence from which it was right often enough; 0 as long as precision suffices."""
        right = sum(self.confirmed)
        wrong = sum(self.contradicted)
        if self.answers < settings.least_answers:
            return 0.0
        for place in range(_BINS):
            if right + wrong and right >= settings.least_precision_ratio * (right + wrong):
                return min(settings.highest_floor_ratio, place / _BINS)
            right -= self.confirmed[place]
            wrong -= self.contradicted[place]
        return settings.highest_floor_ratio


class TrackRecord:
    """Outcome counts by rule and reason, bounded by the number of rules."""

    def __init__(
        self, tallies: Iterable[OutcomeCounts] = (), settings: TrackRecordSettings | None = None
    ) -> None:
        self._settings = settings or TrackRecordSettings()
        self._tallies = {(tally.rule, tally.reason): tally for tally in tallies}

    @property
    def tallies(self) -> tuple[OutcomeCounts, ...]:
        """All counts, by rule and reason."""
        return tuple(self._tallies[key] for key in sorted(self._tallies))

    @property
    def outcomes(self) -> dict[tuple[str, str], int]:
        """Number of ended recommendations, by reason and final state."""
        counts: Counter[tuple[str, str]] = Counter()
        for tally in self.tallies:
            counts.update({(tally.reason, state): n for state, n in tally.outcomes.items()})
        return dict(counts)

    def floor(self, rule: str, reason: str) -> float:
        """Minimum confidence to open advice; 0 leaves it to the rule's own."""
        tally = self._tallies.get((rule, reason))
        if tally is None or not self._settings.raises_floors:
            return 0.0
        return tally.floor(self._settings)

    def count_end(self, advice: Advice, *, was_right: bool | None = None) -> None:
        """Count the final state of advice, and whether it was right if known."""
        tally = self._of(advice)
        count = tally.outcomes.get(advice.state, 0) + 1
        self._put(tally, outcomes={**tally.outcomes, str(advice.state): count})
        if was_right is not None:
            self.count_answer(advice, was_right=was_right)

    def count_answer(self, advice: Advice, *, was_right: bool) -> None:
        """Count whether advice was right, by the confidence with which it was opened."""
        tally = self._of(advice)
        counts = list(tally.confirmed if was_right else tally.contradicted)
        counts[min(_BINS - 1, int(advice.opening_confidence * _BINS))] += 1
        changes = {"confirmed" if was_right else "contradicted": tuple(counts)}
        self._put(tally, **changes)

    def add_savings(self, advice: Advice, gpu_hours: float, joules: float) -> None:
        """Add the verified savings of advice."""
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
