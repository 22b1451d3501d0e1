"""Sums of the scores of scenario runs."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from evaluation.states.confusion import Confusion, Detection
from rightsizer.model.state import Condition, Tier
from rightsizer.model.units import Nanoseconds

OURS: Final = "Rightsizer"

Key = tuple[str, Tier, bool]
"""By whose judgment, on which tier, and whether the readings were disturbed."""


def _confusions() -> dict[Key, Confusion]:
    return defaultdict(Confusion)


def _detections() -> dict[tuple[Condition, bool], Detection]:
    return defaultdict(Detection)


@dataclass
class Scores:
    """Confusions by judge, tier and disturbance; conditions; time without a verdict."""

    confusions: dict[Key, Confusion] = field(default_factory=_confusions)
    conditions: dict[tuple[Condition, bool], Detection] = field(default_factory=_detections)
    """On the profiling tier."""
    abstained: Nanoseconds = 0
    """`unknown`, and nothing was read that tells."""
    rightly_unknown: Nanoseconds = 0
    """`unknown`, and it was: a GPU that is lost has no state."""
    invented: Nanoseconds = 0
    """Called something while nothing could be known."""

    def merge(self, other: "Scores") -> None:
        """Add the scores of another run."""
        for key, confusion in other.confusions.items():
            self.confusions[key].merge(confusion)
        for name, detection in other.conditions.items():
            self.conditions[name].merge(detection)
        self.abstained += other.abstained
        self.rightly_unknown += other.rightly_unknown
        self.invented += other.invented

    def false_idle_seconds_per_day(self, judge: str, *, is_disturbed: bool) -> float:
        """False idle seconds of a judge over all tiers."""
        total = Confusion()
        for (whose, _, rough), confusion in self.confusions.items():
            if whose == judge and rough == is_disturbed:
                total.merge(confusion)
        return total.false_idle_seconds_per_day

    @classmethod
    def total(cls, parts: Iterable["Scores"]) -> "Scores":
        """All of them together."""
        total = cls()
        for part in parts:
            total.merge(part)
        return total
