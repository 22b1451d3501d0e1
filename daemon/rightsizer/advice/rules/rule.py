"""Rule: its settings, a judgement of one case, and when its verdicts become advice."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from rightsizer.advice.market import Market
from rightsizer.model.finding import Case, Finding
from rightsizer.model.settings import setting
from rightsizer.model.workload import Workload


@dataclass(frozen=True, slots=True)
class OpeningPolicy:
    """When a verdict becomes advice, and when advice is withdrawn."""

    long_seconds: float = setting(
        3600.0,
        help="Span over which the finding must hold.",
        within=(600, None),
        source="docs/definitions.md, conduct",
    )
    short_seconds: float = setting(
        600.0,
        help="Span at its end over which it must hold too, so that what is over opens nothing.",
        within=(300, None),
        source="docs/definitions.md, conduct",
    )
    minimum_known_seconds: float = setting(
        3000.0,
        help="Known time within the long span without which nothing is opened.",
        source="most of the long span",
    )
    minimum_confidence_ratio: float = setting(
        0.5,
        help="Confidence without which nothing is opened.",
        source="docs/definitions.md, conduct",
    )
    close_ratio: float = setting(
        0.6,
        help="Part of the opening threshold that the short span must fall below to close.",
        source="docs/definitions.md, conduct",
    )
    close_after_seconds: float = setting(
        1800.0, help="Time for which it must stay below.", source="docs/definitions.md, conduct"
    )


class RuleSettings(Protocol):
    """Settings of any rule."""

    @property
    def on_ratio(self) -> float:
        """The share, or margin, from which on the finding is true."""

    @property
    def minimum_known_seconds(self) -> float:
        """Known time under which the rule abstains."""


SettingsT = TypeVar("SettingsT", bound=RuleSettings)


@dataclass(frozen=True, slots=True)
class Rule(Generic[SettingsT]):
    """A rule by its parts."""

    name: str
    settings: SettingsT
    judge_with: Callable[[Case, SettingsT, Market], Finding]
    opening_policy_with: Callable[[Workload | None, SettingsT], OpeningPolicy] | None = None
    """Where advice behaves by the class of a workload; else as `settings.conduct` says."""
    market: Market = field(default_factory=Market)
    """What else there is to run on, and what it costs."""

    def judge(self, case: Case) -> Finding:
        """The verdict on one case."""
        return self.judge_with(case, self.settings, self.market)

    def conduct(self, workload: Workload | None) -> OpeningPolicy:
        """How advice of this rule behaves for a workload."""
        if self.opening_policy_with is not None:
            return self.opening_policy_with(workload, self.settings)
        settings: Any = self.settings
        policy: OpeningPolicy = settings.conduct
        return policy

    def relaxed(self, factor: float) -> "Rule[SettingsT]":
        """The same rule with a lower threshold: what is still true enough to stay open."""
        lowered: Any = self.settings
        return replace(self, settings=replace(lowered, on_ratio=self.settings.on_ratio * factor))

    def with_settings(self, settings: SettingsT) -> "Rule[SettingsT]":
        """The same rule with an operator's settings."""
        return replace(self, settings=settings)

    def in_market(self, market: Market) -> "Rule[SettingsT]":
        """The same rule with an operator's boards and prices."""
        return replace(self, market=market)
