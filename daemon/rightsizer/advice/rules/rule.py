"""Rules: settings, judgement of a case, and the policy that turns judgements into advice."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Generic, Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.advice.market import Market
from rightsizer.advice.screen import Screen, SubjectTable
from rightsizer.advice.verdict import CaseSubject
from rightsizer.config.shape import shape_of
from rightsizer.model.values import (
    CONSTANT,
    Case,
    Finding,
    Nanoseconds,
    Reason,
    Spec,
    Workload,
    nanoseconds,
)


class OpeningPolicy(Struct, frozen=True):
    """Conditions under which a recommendation opens and closes.

    Attributes:
        long_seconds: Span over which the finding must hold.
            Source: docs/definitions.md, conduct
        short_seconds: Final part of the long span over which it must also hold.
            Source: docs/definitions.md, conduct
        minimum_known_seconds: Known time within the long span required to open.
            Source: most of the long span
        minimum_confidence_ratio: Confidence required to open.
            Source: docs/definitions.md, conduct
        close_ratio: Share of the opening threshold below which the short span must fall to close.
            Source: docs/definitions.md, conduct
        close_after_seconds: How long it must stay below.
            Source: docs/definitions.md, conduct
    """

    long_seconds: Annotated[float, Spec(within=(600, None))] = 3600.0
    short_seconds: Annotated[float, Spec(within=(300, None)), CONSTANT] = 600.0
    minimum_known_seconds: Annotated[float, CONSTANT] = 3000.0
    minimum_confidence_ratio: float = 0.5
    close_ratio: Annotated[float, CONSTANT] = 0.6
    close_after_seconds: float = 1800.0

    @classmethod
    def slow(cls) -> Self:
        """Policy for limits that vary with the phases of a job: six hours and half an hour."""
        return cls(6 * 3600.0, 1800.0, minimum_known_seconds=3600.0, close_after_seconds=7200.0)

    @classmethod
    def sizing(cls, minimum_known_seconds: float = 7 * 86400.0) -> Self:
        """Policy for judgements of size: two weeks and three days."""
        return cls(14 * 86400.0, 3 * 86400.0, minimum_known_seconds, close_after_seconds=86400.0)


class RuleSettings(Struct, frozen=True):
    """Thresholds of every rule; subclasses say what their ratio is of.

    Attributes:
        on_ratio: Share or margin from which the finding is true.
            Source: docs/definitions.md, conduct: over half of the time
        minimum_known_seconds: Known time below which the rule abstains.
            Source: one learned idle draw: a minute of readings
    """

    on_ratio: Annotated[float, Spec(within=(0.001, 1))] = 0.5
    minimum_known_seconds: Annotated[float, CONSTANT] = 60.0


class SizeRuleSettings(RuleSettings, frozen=True):
    """Thresholds of rules that judge the size of a GPU.

    Attributes:
        minimum_known_seconds: Active time below which the rule abstains.
            Source: docs/definitions.md, provisioning
    """

    on_ratio: Annotated[float, Spec(within=(0.05, 1))] = 0.5
    minimum_known_seconds: Annotated[float, CONSTANT] = 600.0


SettingsT = TypeVar("SettingsT", bound=RuleSettings)


class _RuleOptions(Struct, Generic[SettingsT], frozen=True, kw_only=True):
    given_market: Market | None = None
    opening_policy_with: Callable[[Workload | None, SettingsT], OpeningPolicy] | None = None
    """Overrides `settings.conduct` for rules with a policy that depends on the workload's class."""
    scope: str = ""
    """Prefix of the targets of a rule of another package, since its reasons may be another's."""


class TunableRule(_RuleOptions[SettingsT], frozen=True):
    """Common part of the rules of a node and of a fleet."""

    name: str
    settings: SettingsT

    def conduct(self, workload: Workload | None = None) -> OpeningPolicy:
        """Opening policy of this rule for a workload."""
        if self.opening_policy_with is not None:
            return self.opening_policy_with(workload, self.settings)
        settings: Any = self.settings
        policy: OpeningPolicy = settings.conduct
        return policy

    @property
    def market(self) -> Market:
        """Available boards and their prices; by default all boards, without prices.

        Created on use: rules are part of the settings, and most commands need no catalogue.
        """
        return self.given_market or Market()

    def relaxed(self, factor: float) -> Self:
        """Copy with a lower threshold, which decides whether advice stays open."""
        lowered = replace(self.settings, on_ratio=self.settings.on_ratio * factor)
        return replace(self, settings=lowered)

    def with_settings(self, settings: SettingsT) -> Self:
        """Copy with an operator's settings."""
        return replace(self, settings=settings)

    def in_market(self, market: Market) -> Self:
        """Copy with an operator's boards and prices."""
        return replace(self, given_market=market)


class Rule(TunableRule[SettingsT], frozen=True):
    """Rule with its functions."""

    judge_with: Callable[[CaseSubject, SettingsT], Finding]
    screen_with: Callable[[SubjectTable, SettingsT], Screen] | None = None
    """Settles the verdicts on most subjects of a fleet; without it all are judged."""

    def judge(self, case: Case, *, is_counted: bool = False) -> Finding:
        """Judge one case; with `is_counted`, a verdict without a complaint is cut short."""
        subject = CaseSubject(self.name, case, self.market, scope=self.scope, is_counted=is_counted)
        return self.judge_with(subject, self.settings)


def checked_rule(_: str, value: object) -> Rule[Any]:
    """Return a rule of another package.

    Raises:
        TypeError: it is no rule, or its settings are none.
        ValueError: its name, settings or opening policy cannot be used.
    """
    if not isinstance(value, Rule):
        raise TypeError(f"{value!r} is no rightsizer.advice.rules.rule.Rule")
    if not isinstance(value.settings, RuleSettings):
        raise TypeError(f"its settings are no RuleSettings: {value.settings!r}")
    if not re.fullmatch("[a-z][a-z0-9_]*", value.name):
        raise ValueError(f"its name is '{value.name}'; write it in small letters, as in idle_pool")
    shape_of(type(value.settings))
    value.conduct()
    return replace(value, scope=f"{value.name}/")


class Exclusion(Struct, frozen=True):
    """Findings that are still reported but open no recommendation.

    Attributes:
        reasons: Reasons to exclude; empty for all.
        until: Last day of the exclusion, such as '2027-01-31', in UTC.
        why: Justification, shown with the suppressed finding.
        actor: Person who decided it.
    """

    reasons: tuple[Reason, ...] = ()
    until: str = ""
    why: str = ""
    actor: str = ""

    def __post_init__(self) -> None:
        if self.until:
            try:
                date.fromisoformat(self.until)
            except ValueError:
                raise ValueError(
                    f"until: '{self.until}' is not a date; write it like '2027-01-31'"
                ) from None
        if not self.why:
            raise ValueError("why: say in a few words why this is ignored")

    @property
    def expires(self) -> Nanoseconds | None:
        """End of its last day, or `None`."""
        if not self.until:
            return None
        last = datetime.combine(date.fromisoformat(self.until), time(), UTC) + timedelta(days=1)
        return nanoseconds(last.timestamp())

    def holds(self, finding: Finding, now: Nanoseconds) -> bool:
        """Whether it excludes a finding from advice."""
        if self.expires is not None and now >= self.expires:
            return False
        return not self.reasons or any(reason in self.reasons for reason in finding.reasons)

    def __str__(self) -> str:
        until = f" until {self.until}" if self.until else ""
        actor = f" ({self.actor})" if self.actor else ""
        return f"ignored{until}: {self.why}{actor}"


class Judgement(Struct, frozen=True):
    """Verdict of a rule on a workload, with the data that the ledger needs."""

    finding: Finding
    conduct: OpeningPolicy = OpeningPolicy()
    workload: Workload | None = None
    known_seconds: float = 0.0
    """Known time of the long span."""
    may_open: bool = False
    """Whether it was true long enough, recently, and with enough confidence."""
    still_holds: bool | None = None
    """Whether recent time still supports it; `None` if undecided."""
    exclusions: tuple[Exclusion, ...] = ()
    """Findings excluded by an operator for this workload."""
    has_conflict: bool = False
    """Whether another rule's verdict on the workload contradicts it."""
    incidents: tuple[str, ...] = ()
    """Keys of the judgements that stand for it, and for others of one cause."""
    folds: tuple[str, ...] = ()
    """Ids of the findings that it stands for."""

    @classmethod
    def decided(cls, finding: Finding, conduct: OpeningPolicy, workload: Workload | None) -> Self:
        """Judgement of the present, as of a plan or a profile: no span decides about it."""
        is_sure = finding.confidence >= conduct.minimum_confidence_ratio
        return cls(
            finding,
            conduct,
            workload,
            may_open=finding.is_actionable and is_sure,
            still_holds=finding.is_actionable if finding.abstained is None else None,
        )

    @property
    def key(self) -> str:
        """Key of the workload, or uuid of the device."""
        return self.finding.key

    def exclusion_of(self, finding: Finding, now: Nanoseconds) -> Exclusion | None:
        """First exclusion that applies to a finding, or `None`."""
        return next(
            (exclusion for exclusion in self.exclusions if exclusion.holds(finding, now)), None
        )

    def settled(self, short: Finding | None, relaxed: Callable[[], Finding | None]) -> "Judgement":
        """Decide by the short span: a finding true of both spans may open.

        `relaxed` returns the verdict on the short span with a lower threshold.
        """
        finding = self.finding
        conduct = self.conduct
        if finding.is_actionable and short is not None and short.is_actionable:
            return replace(
                self,
                may_open=self.known_seconds >= conduct.minimum_known_seconds
                and finding.confidence >= conduct.minimum_confidence_ratio,
                still_holds=True,
            )
        if (lower := relaxed()) is None or lower.abstained is not None:
            return self
        return replace(self, still_holds=lower.is_actionable)

    def suppressed_by_conflict(self, why: str) -> "Judgement":
        """Suppress it because of another rule's verdict; open advice closes too."""
        return replace(
            self,
            finding=_with_evidence(self.finding, "held_back", why),
            may_open=False,
            still_holds=False,
            has_conflict=True,
        )

    def folded_into(self, incidents: tuple[str, ...]) -> "Judgement":
        """Let incidents, by key, stand for it; open advice closes once one is open."""
        why = f"incident of {', '.join(incidents)}"
        finding = _with_evidence(self.finding, "held_back", why)
        return replace(self, finding=finding, may_open=False, incidents=incidents)

    def with_exclusions(self, exclusions: tuple[Exclusion, ...], now: Nanoseconds) -> "Judgement":
        """Apply an operator's exclusions."""
        judgement = replace(self, exclusions=exclusions)
        exclusion = (
            judgement.exclusion_of(self.finding, now) if self.finding.is_actionable else None
        )
        if exclusion is None:
            return judgement
        finding = _with_evidence(self.finding, "excluded", str(exclusion))
        return replace(judgement, finding=finding, may_open=False)


def _with_evidence(finding: Finding, name: str, what: str) -> Finding:
    return replace(finding, evidence={**finding.evidence, name: what})
