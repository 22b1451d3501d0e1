"""What a rule of the estate is: its settings, a judgement of the whole, and how advice behaves."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from rightsizer.advice.market import Market
from rightsizer.advice.rules.rule import Conduct, RuleSettings
from rightsizer.domain.finding import Finding
from rightsizer.fleet.view import EstateView

__all__ = ["EstateRule", "Verdict"]

Settings = TypeVar("Settings", bound=RuleSettings)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A finding of the estate, and the key of what it is about (`pool/NAME`, a workload's key)."""

    key: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class EstateRule(Generic[Settings]):
    """A rule by its parts; one verdict a pool or a workload, the well ones included."""

    name: str
    settings: Settings
    judge_with: Callable[[EstateView, Settings, Market], tuple[Verdict, ...]]
    conduct_with: Callable[[Settings], Conduct]
    market: Market = field(default_factory=Market)

    def judge(self, view: EstateView) -> tuple[Verdict, ...]:
        """The verdicts on the estate."""
        return self.judge_with(view, self.settings, self.market)

    def conduct(self) -> Conduct:
        """How advice of this rule behaves."""
        return self.conduct_with(self.settings)

    def relaxed(self, factor: float) -> "EstateRule[Settings]":
        """The same rule with a lower threshold: what is still true enough to stay open."""
        lowered: Any = self.settings
        return replace(self, settings=replace(lowered, on_ratio=self.settings.on_ratio * factor))

    def with_settings(self, settings: Settings) -> "EstateRule[Settings]":
        """The same rule with an operator's settings."""
        return replace(self, settings=settings)

    def in_market(self, market: Market) -> "EstateRule[Settings]":
        """The same rule with an operator's boards and prices."""
        return replace(self, market=market)
