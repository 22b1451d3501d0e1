"""What one log of the load generator tells, before it becomes a profile."""

from dataclasses import dataclass, field
from typing import Final

from rightsizer.domain.profile import BenchmarkResult, Profile, ProfileFormat
from rightsizer.domain.units import Nanoseconds

__all__ = ["Findings"]

_VALIDITY: Final = {"VALID": True, "INVALID": False}
_NAME_CHARACTERS: Final = 80
_HEADLINES: Final = (
    ("samples_per_second", ("completed_samples_per_second", "scheduled_samples_per_second")),
    ("tokens_per_second", ("completed_tokens_per_second", "inferred_tokens_per_second")),
)
"""The names that every scenario's rate goes by, and what stands for it, best first."""


@dataclass(slots=True)
class Findings:
    """Collected line by line."""

    system: str = ""
    scenario: str = ""
    mode: str = ""
    validity: str = ""
    version: str = ""
    start: Nanoseconds | None = None
    figures: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    events: int = 0
    unread: dict[str, int] = field(default_factory=dict)
    may_hold_result: bool = True
    """Round 0.7 wrote results into the summary alone."""

    def add(self, figure: tuple[str, float] | None) -> None:
        """Takes a figure; the first of a name stays, for headlines come first."""
        if figure is not None:
            self.figures.setdefault(*figure)

    def profile(self, source: str) -> Profile:
        """The profile that they make."""
        figures = dict(self.figures)
        for name, others in _HEADLINES:
            found = next((figures[each] for each in others if each in figures), None)
            if found is not None:
                figures.setdefault(name, found)
        has_result = self.validity != "" or any(name.startswith("latency") for name in figures)
        notes = [*self.notes]
        if "accuracy" in self.mode.lower():
            notes.append("An accuracy run: it measures no speed.")
        elif not self.may_hold_result:
            notes.append("Its round wrote results into mlperf_log_summary.txt alone.")
        elif not has_result:
            notes.append("It holds no result: an accuracy run, or a run that did not end.")
        return Profile(
            format=ProfileFormat.MLPERF_INFERENCE,
            source=source,
            version=_shown(self.version),
            start=self.start,
            benchmark=BenchmarkResult(
                benchmark=_shown(self.system),
                scenario=_shown(self.scenario.replace(" ", "")),
                is_valid=_VALIDITY.get(self.validity.strip().upper()),
                figures=figures,
            ),
            events=self.events,
            unread=self.unread,
            notes=tuple(notes),
        )


def _shown(text: str) -> str:
    return "".join(each for each in text.strip() if each.isprintable())[:_NAME_CHARACTERS]
