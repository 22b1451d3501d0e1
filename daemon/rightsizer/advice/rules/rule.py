"""Rule: its settings, its judgement of a case, and when a judgement becomes advice."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Generic, Protocol, Self, TypeVar

from rightsizer.advice.market import Market
from rightsizer.advice.verdict import CaseSubject
from rightsizer.model.finding import Case, Finding, Reason
from rightsizer.model.frozen import dataclass, field, replace
from rightsizer.model.settings import setting
from rightsizer.model.units import Nanoseconds, nanoseconds
from rightsizer.model.workload import Workload


@dataclass(frozen=True, slots=True)
class OpeningPolicy:
    """When a verdict becomes advice, and when advice is withdrawn.

    Attributes:
        long_seconds: Span over which the finding must hold.
            Source: docs/definitions.md, conduct
        short_seconds: Span at its end over which it must hold too, so that what is over opens
            nothing.
            Source: docs/definitions.md, conduct
        minimum_known_seconds: Known time within the long span without which nothing is opened.
            Source: most of the long span
        minimum_confidence_ratio: Confidence without which nothing is opened.
            Source: docs/definitions.md, conduct
        close_ratio: Part of the opening threshold that the short span must fall below to close.
            Source: docs/definitions.md, conduct
        close_after_seconds: Time for which it must stay below.
            Source: docs/definitions.md, conduct
    """

    long_seconds: float = setting(3600.0, within=(600, None))
    short_seconds: float = setting(600.0, within=(300, None))
    minimum_known_seconds: float = setting(3000.0)
    minimum_confidence_ratio: float = setting(0.5)
    close_ratio: float = setting(0.6)
    close_after_seconds: float = setting(1800.0)

    @classmethod
    def slow(cls) -> Self:
        """That of limits which come and go with the phases of a job: six hours, half an hour."""
        return cls(6 * 3600.0, 1800.0, minimum_known_seconds=3600.0, close_after_seconds=7200.0)

    @classmethod
    def sizing(cls, minimum_known_seconds: float = 7 * 86400.0) -> Self:
        """That of judgements of size: two weeks and three days."""
        return cls(14 * 86400.0, 3 * 86400.0, minimum_known_seconds, close_after_seconds=86400.0)


def minimum_known(default: float = 60.0, source: str = "one learned idle draw") -> Any:
    """The setting of the known time that a rule abstains under."""
    return setting(default, help="Known time under which the rule abstains.", source=source)


def minimum_active() -> Any:
    """The setting of the active time that a rule abstains under."""
    return setting(
        600.0,
        help="Active time of a GPU under which the rule says nothing of it.",
        source="docs/definitions.md, provisioning; jobs below ten minutes are start-up",
    )


def minimum_sized() -> Any:
    """The setting of the active time that a judgement of size abstains under."""
    return setting(
        600.0,
        help="Active time under which the rule abstains.",
        source="docs/definitions.md, provisioning",
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
class TunableRule(Generic[SettingsT]):
    """What rules of a node and of a fleet have alike."""

    name: str
    settings: SettingsT
    given_market: Market | None = field(default=None, kw_only=True)

    @property
    def market(self) -> Market:
        """What else there is to run on, and what it costs; by itself all boards, without prices.

        Only who asks reads the catalogue: rules are part of the settings, which all commands read.
        """
        return self.given_market or Market()

    def relaxed(self, factor: float) -> Self:
        """The same rule with a lower threshold: what is still true enough to stay open."""
        lowered: Any = self.settings
        return replace(self, settings=replace(lowered, on_ratio=self.settings.on_ratio * factor))

    def with_settings(self, settings: SettingsT) -> Self:
        """The same rule with an operator's settings."""
        return replace(self, settings=settings)

    def in_market(self, market: Market) -> Self:
        """The same rule with an operator's boards and prices."""
        return replace(self, given_market=market)


@dataclass(frozen=True, slots=True)
class Rule(TunableRule[SettingsT]):
    """A rule by its parts."""

    judge_with: Callable[[CaseSubject, SettingsT], Finding]
    opening_policy_with: Callable[[Workload | None, SettingsT], OpeningPolicy] | None = None
    """Where advice behaves by the class of a workload; else as `settings.conduct` says."""

    def judge(self, case: Case) -> Finding:
        """The verdict on one case."""
        return self.judge_with(CaseSubject(self.name, case, self.market), self.settings)

    def conduct(self, workload: Workload | None) -> OpeningPolicy:
        """How advice of this rule behaves for a workload."""
        if self.opening_policy_with is not None:
            return self.opening_policy_with(workload, self.settings)
        settings: Any = self.settings
        policy: OpeningPolicy = settings.conduct
        return policy


@dataclass(frozen=True, slots=True)
class Exclusion:
    """Findings that are kept as findings and never become advice.

    Attributes:
        reasons: Reasons to ignore; empty for all.
        until: The last day that it holds, as '2027-01-31' in UTC; empty: forever.
        why: The reason, shown with the suppressed finding.
        actor: Who decided it.
    """

    reasons: tuple[Reason, ...] = setting(())
    until: str = setting("")
    why: str = setting("")
    actor: str = setting("")

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
        """The end of its last day, `None` for one without."""
        if not self.until:
            return None
        last = datetime.combine(date.fromisoformat(self.until), time(), UTC) + timedelta(days=1)
        return nanoseconds(last.timestamp())

    def holds(self, finding: Finding, now: Nanoseconds) -> bool:
        """Whether it keeps a finding from becoming advice."""
        if self.expires is not None and now >= self.expires:
            return False
        return not self.reasons or any(reason in self.reasons for reason in finding.reasons)

    def __str__(self) -> str:
        until = f" until {self.until}" if self.until else ""
        actor = f" ({self.actor})" if self.actor else ""
        return f"ignored{until}: {self.why}{actor}"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A rule's verdict on a workload, with what the ledger needs to act on it."""

    finding: Finding
    key: str
    """The workload's, or the device's."""
    conduct: OpeningPolicy
    may_open: bool
    """True long enough, recently, and with enough confidence."""
    still_holds: bool | None
    """Whether recent time still supports it; `None` where that cannot be said."""
    workload: Workload | None = None
    exclusions: tuple[Exclusion, ...] = ()
    """What an operator does not want to hear of this workload."""
    has_conflict: bool = False
    """Whether another rule's verdict on the workload contradicts it."""

    def exclusion_of(self, finding: Finding, now: Nanoseconds) -> Exclusion | None:
        """What keeps a finding on the workload from being advice, if anything."""
        return next((each for each in self.exclusions if each.holds(finding, now)), None)

    def settled(
        self, short: Finding | None, relaxed: Callable[[], Finding | None], known_seconds: float
    ) -> "Judgement":
        """The same, by what the rule says of recent time: what is true of both spans may open.

        `relaxed` gives the verdict on the short span by a lower threshold, `known_seconds` is the
        known time of the long one.
        """
        finding, conduct = self.finding, self.conduct
        if finding.is_complaint and short is not None and short.is_complaint:
            return replace(
                self,
                may_open=known_seconds >= conduct.minimum_known_seconds
                and finding.confidence >= conduct.minimum_confidence_ratio,
                still_holds=True,
            )
        if (lower := relaxed()) is None or lower.abstained is not None:
            return self
        return replace(self, still_holds=lower.is_complaint)

    def suppressed_by_conflict(self, why: str) -> "Judgement":
        """The same, which another rule's verdict keeps from being advice: it closes, too."""
        return replace(
            self,
            finding=_with_evidence(self.finding, "held_back", why),
            may_open=False,
            still_holds=False,
            has_conflict=True,
        )

    def under(self, exclusions: tuple[Exclusion, ...], now: Nanoseconds) -> "Judgement":
        """The same, where an operator does not want to hear of some findings."""
        judgement = replace(self, exclusions=exclusions)
        found = judgement.exclusion_of(self.finding, now) if self.finding.is_complaint else None
        if found is None:
            return judgement
        finding = _with_evidence(self.finding, "excluded", str(found))
        return replace(judgement, finding=finding, may_open=False)


def _with_evidence(finding: Finding, name: str, what: str) -> Finding:
    return replace(finding, evidence={**finding.evidence, name: what})
