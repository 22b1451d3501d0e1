"""Recommender: runs the configured rules over the accounts.

Failures of rules, gauges of the last run.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from rightsizer.accounting.service import AccountingService
from rightsizer.advice.engine import Cases, Failed, judge_all, raised
from rightsizer.advice.judgement import Judgement
from rightsizer.advice.market import Market
from rightsizer.advice.policy import PolicySet
from rightsizer.advice.recommender_settings import RecommenderSettings
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Rule
from rightsizer.advice.verification import Measured, measure_all
from rightsizer.catalogue.operator_file import read_catalogue, read_prices
from rightsizer.catalogue.settings import CatalogueSettings
from rightsizer.io.clock import Clock
from rightsizer.model.advice import Advice
from rightsizer.model.metric_family import series_key
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.sizing.settings import SizingSettings


class RecommenderSections(Protocol):
    """Sections by which rules judge."""

    @property
    def catalogue(self) -> CatalogueSettings:
        """Files of boards and prices."""

    @property
    def recommender(self) -> RecommenderSettings:
        """Thresholds of the rules, and of what may be bought."""

    @property
    def sizing(self) -> SizingSettings:
        """What sizing takes for granted."""


def configured_market(settings: RecommenderSections) -> Market:
    """What there is to run on and what it costs, by the operator's own files too.

    Raises:
        ConfigurationError: his files of boards or prices have faults.
    """
    files = settings.catalogue
    catalogue = read_catalogue(files.boards_path)
    prices = read_prices(files.prices_path, catalogue)
    return Market(catalogue, prices, settings.recommender.market, settings.sizing.memory)


def configured_rules(settings: RecommenderSections) -> tuple[Rule[Any], ...]:
    """The rules with an operator's settings, in the market that he knows.

    Raises:
        ConfigurationError: his files of boards or prices have faults.
    """
    tree, market = settings.recommender.rules, configured_market(settings)
    return tuple(rule.with_settings(getattr(tree, rule.name)).in_market(market) for rule in RULES)


class JudgementSource(Protocol):
    """Adds judgements to those of the rules, from profiles for one."""

    def combined_with(
        self,
        found: Sequence[Judgement],
        open_now: AbstractSet[tuple[str, str]],
        now: Nanoseconds,
        advice: Sequence[Advice],
    ) -> tuple[Judgement, ...]:
        """The rules' judgements with its own among them.

        Args:
            found: What the rules say of every workload that is there.
            open_now: Workload key and rule of the advice that is open.
            now: Wall time.
            advice: All that the ledger has.
        """


@dataclass(frozen=True, slots=True)
class RecommenderRun:
    """How a run went."""

    time: Nanoseconds
    """Wall time when it began."""
    duration_seconds: float
    judgements: Mapping[str, int]
    """How many, by rule."""
    abstentions: Mapping[str, int]
    """How many of them would not say, by reason."""


@dataclass(frozen=True, slots=True)
class RecommenderResult:
    """What a run came to, for the ledger."""

    time: Nanoseconds
    """Wall time."""
    judgements: tuple[Judgement, ...]
    measured: Measured
    """Looks back from that time; it holds on to the accounts' windows."""


class Recommender:
    """Runs the rules; the last run stays up for whoever asks. One run at a time."""

    def __init__(  # noqa: PLR0913 - who knows, who judges, and what was said before.
        self,
        accountant: AccountingService,
        rules: Sequence[Rule[Any]],
        guidance: PolicySet,
        clock: Clock,
        *,
        failed: Failed = raised,
        profiles: JudgementSource | None = None,
    ) -> None:
        """Nothing was said yet.

        Args:
            accountant: Knows what the devices did.
            rules: Who judges that.
            guidance: What operators say of it.
            clock: Of the runs.
            failed: Is told of a rule that raises; where nothing is given, it raises.
            profiles: What profilers saw of the workloads, if anybody took note of that.
        """
        self._accountant, self._clock = accountant, clock
        self._profiles = profiles
        self._judges = (tuple(rules), guidance)
        self._failed = failed
        self.judgements: tuple[Judgement, ...] = ()
        self.last_run: RecommenderRun | None = None

    def change(self, rules: Sequence[Rule[Any]], guidance: PolicySet) -> None:
        """Judge by other rules and policies from the next run on."""
        self._judges = (tuple(rules), guidance)

    def run(
        self, open_now: AbstractSet[tuple[str, str]], advice: Sequence[Advice] = ()
    ) -> RecommenderResult:
        """What every rule says of every workload, by the policies.

        Args:
            open_now: Workload key and rule of the advice that is open.
            advice: All that the ledger has.
        """
        rules, guidance = self._judges
        now, began = self._clock.wall_time(), self._clock.time()
        cases: Cases = cache(self._accountant.look(now).cases)
        found = judge_all(cases, rules, open_now, guidance.with_thresholds, self._failed)
        found = guidance.suppressed(self._with_profiles(found, open_now, now, advice), now)
        self.judgements = found
        self.last_run = RecommenderRun(
            time=now,
            duration_seconds=seconds(self._clock.time() - began),
            judgements=Counter(judgement.finding.rule for judgement in found),
            abstentions=Counter(
                str(judgement.finding.reasons[0])
                for judgement in found
                if judgement.finding.abstained is not None
            ),
        )
        return RecommenderResult(now, found, cache(lambda span: measure_all(cases(span))))

    def _with_profiles(
        self,
        found: tuple[Judgement, ...],
        open_now: AbstractSet[tuple[str, str]],
        now: Nanoseconds,
        advice: Sequence[Advice],
    ) -> tuple[Judgement, ...]:
        """What profiles say beside it; a fault there keeps no rule from being heard."""
        if self._profiles is None:
            return found
        try:
            return self._profiles.combined_with(found, open_now, now, advice)
        except Exception as error:  # noqa: BLE001 - whatever a profile has led to.
            self._failed("profiles", "", error)
            return found


def recommender_gauges(judgements: Sequence[Judgement]) -> dict[str, float]:
    """Complaints and abstentions by their first reason; there are as many as reasons at most."""
    counts: Counter[tuple[str, str]] = Counter()
    for judgement in judgements:
        finding = judgement.finding
        reason = finding.reasons[0].value if finding.reasons else ""
        if finding.is_complaint:
            counts["rightsizer_recommender_findings", reason] += 1
        elif finding.abstained is not None:
            counts["rightsizer_recommender_abstentions", reason] += 1
    return {series_key(name, reason=reason): float(n) for (name, reason), n in counts.items()}
