"""Advice service: runs the rules, maintains the ledger, delivers changes."""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Any, NamedTuple, Protocol

from rightsizer.accounting.node_accounts import NodeAccounts
from rightsizer.accounting.service import AccountingService
from rightsizer.advice.engine import Cases, judge_all, judge_span
from rightsizer.advice.incident import open_incidents, watched_places, with_incidents
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.lookup import open_places
from rightsizer.advice.market import Market
from rightsizer.advice.policy import PolicySet, RecommenderSettings
from rightsizer.advice.restoration import Restoration
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Judgement, Rule
from rightsizer.advice.settings import LedgerSettings
from rightsizer.advice.storage import Storage
from rightsizer.advice.verification import Measured, measure_all
from rightsizer.catalogue.catalogue import read_catalogue
from rightsizer.catalogue.prices_file import read_prices
from rightsizer.catalogue.settings import CatalogueSettings, PriceSettings
from rightsizer.io.clock import Clock
from rightsizer.io.log import logger
from rightsizer.io.worker import attempt_all
from rightsizer.model.values import (
    Advice,
    AdviceEvent,
    AdviceEventKind,
    AdviceState,
    Finding,
    Nanoseconds,
    Severity,
    UsageError,
    nanoseconds,
    series_key,
)
from rightsizer.sizing.settings import SizingSettings


class RecommenderSections(Protocol):
    """Settings sections used by the rules."""

    @property
    def catalogue(self) -> CatalogueSettings:
        """Files of boards and prices."""

    @property
    def prices(self) -> PriceSettings:
        """Prices of GPUs."""

    @property
    def recommender(self) -> RecommenderSettings:
        """Thresholds of the rules, and eligible boards."""

    @property
    def sizing(self) -> SizingSettings:
        """Assumptions of sizing."""


def configured_market(settings: RecommenderSections) -> Market:
    """Market from the settings and the operator's files.

    Raises:
        ConfigurationError: the files are invalid.
    """
    files = settings.catalogue
    catalogue = read_catalogue(files.boards_path)
    prices = read_prices(files.prices_path, catalogue, settings.prices)
    return Market(catalogue, prices, settings.recommender.market, settings.sizing.memory)


def configured_rules(settings: RecommenderSections) -> tuple[Rule[Any], ...]:
    """Rules with the operator's settings and market.

    Raises:
        ConfigurationError: the files of boards or prices are invalid.
    """
    tree = settings.recommender.rules
    market = configured_market(settings)
    return tuple(rule.with_settings(getattr(tree, rule.name)).in_market(market) for rule in RULES)


class JudgementSource(Protocol):
    """Adds judgements to those of the rules, from profiles or plans."""

    def combined_with(
        self,
        judgements: Sequence[Judgement],
        open_now: AbstractSet[tuple[str, str]],
        now: Nanoseconds,
        advice: Sequence[Advice],
    ) -> tuple[Judgement, ...]:
        """Merge its own judgements into the rules'; `open_now` are places of open advice.

        Other arguments are as of `Recommender.run`.
        """


class LedgerUpdate(NamedTuple):
    """What a run brings to the ledger: the arguments of `Ledger.update`."""

    judgements: tuple[Judgement, ...]
    now: Nanoseconds
    """Wall time of the run."""
    measured: Measured
    """Measures before that time; keeps the windows of the accounts in memory."""


class Recommender:
    """Runs the rules, one run at a time; keeps the last judgements and counts failed rules."""

    def __init__(
        self,
        accounts: AccountingService | NodeAccounts,
        rules: Sequence[Rule[Any]],
        policies: PolicySet,
        clock: Clock,
        sources: Mapping[str, JudgementSource] = {},
    ) -> None:
        self._accounts = accounts
        self._clock = clock
        self._sources = dict(sources)
        self._rules_and_policies = (tuple(rules), policies)
        self._log = logger("recommender")
        self.failures: Counter[str] = Counter()
        """Number of exceptions by rule since the start."""
        self.judgements: tuple[Judgement, ...] = ()

    def _count_failure(self, rule: str, workload: str, error: Exception) -> None:
        self.failures[rule] += 1
        self._log.error("rule_failed", rule=rule, workload=workload, exc_info=error)

    @property
    def market(self) -> Market:
        """Boards and prices that the rules in force go by."""
        rules, _ = self._rules_and_policies
        return rules[0].market if rules else Market()

    def metrics(self) -> dict[str, float]:
        """Failed rules; complaints and abstentions of the last run by first reason."""
        counts: Counter[tuple[str, str]] = Counter()
        for judgement in self.judgements:
            finding = judgement.finding
            reason = finding.reasons[0].value if finding.reasons else ""
            if finding.is_actionable:
                counts["rightsizer_recommender_findings", reason] += 1
            elif finding.abstained is not None:
                counts["rightsizer_recommender_abstentions", reason] += 1
        failures = float(self.failures.total())
        return {
            "rightsizer_recommender_rule_failures_total": failures,
            **{series_key(name, reason=reason): float(n) for (name, reason), n in counts.items()},
        }

    def change_rules(self, rules: Sequence[Rule[Any]], policies: PolicySet) -> None:
        """Replace rules and policies from the next run on."""
        self._rules_and_policies = (tuple(rules), policies)

    def run(self, advice: Sequence[Advice] = (), now: Nanoseconds | None = None) -> LedgerUpdate:
        """Judge every workload by every rule, under the policies.

        `advice` is all advice in the ledger; `now` is the wall time of a replay.
        """
        rules, policies = self._rules_and_policies
        now = self._clock.wall_time() if now is None else now
        cases: Cases = cache(self._accounts.snapshot(now).cases)
        open_now = open_places(advice) | watched_places(open_incidents(advice), cases(0))
        judgements = judge_all(
            cases, rules, open_now, policies.with_thresholds, self._count_failure
        )
        for name, source in self._sources.items():
            try:
                judgements = source.combined_with(judgements, open_now, now, advice)
            except Exception as error:  # noqa: BLE001 - a failing source must stop no rule.
                self._count_failure(name, "", error)
        judgements = with_incidents(
            policies.suppressed(judgements, now),
            rules,
            lambda rule: cases(nanoseconds(rule.conduct().long_seconds)),
            policies.with_thresholds,
            advice,
            self._count_failure,
        )
        self.judgements = judgements
        return LedgerUpdate(judgements, now, cache(lambda span: measure_all(cases(span))))

    def over_all(self, now: Nanoseconds) -> tuple[Finding, ...]:
        """Judge everything posted by every rule, under the policies.

        Replay, advice and report all use it, so that they agree.
        """
        rules, policies = self._rules_and_policies
        cases = self._accounts.snapshot(now).cases(None)
        judgements = judge_span(cases, rules, policies.with_thresholds, self._count_failure)
        tuned = policies.with_thresholds
        judgements = with_incidents(
            policies.suppressed(judgements, now),
            rules,
            lambda _: cases,
            tuned,
            failed=self._count_failure,
        )
        return tuple(judgement.finding for judgement in judgements)


class EventSink(Protocol):
    """Receiver of advice events, for example `GrafanaAnnotations`."""

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Queue events; fast, without a request."""

    def deliver(self) -> object:
        """Send queued events; may take seconds, never raises for an unreachable peer."""


class Judge(Protocol):
    """Runs the rules over a node's accounts or a fleet's store."""

    def run(self, advice: Sequence[Advice]) -> LedgerUpdate:
        """Judge the present state; `advice` is all advice in the ledger."""


class AdviceService:
    """Maintains the ledger under its own lock; saves before delivery."""

    def __init__(  # noqa: PLR0913 - the outside world comes in as arguments.
        self,
        judge: Judge,
        ledger: Ledger,
        store: Storage,
        sinks: Sequence[EventSink],
        clock: Clock,
        *,
        restore: Callable[[], Restoration] | None = None,
    ) -> None:
        """Start from the stored ledger.

        `restore` rebuilds a lost ledger from other sources; called after runs while it is empty.
        """
        self._restore = restore
        self._judge = judge
        self._ledger = ledger
        self._store = store
        self._sinks = tuple(sinks)
        self._clock = clock
        self._ledger_lock = threading.Lock()
        self._log = logger("recommender")
        self._update_lock = threading.Lock()
        self._decisions: list[Callable[[Ledger], object]] = []
        """Decisions made since a run began to update a copy of the ledger."""
        self._delivery_lock = threading.Lock()
        self._pending: list[AdviceEvent] = []
        # Saved by the last process, perhaps not delivered.
        self._publish(store.pending_events)

    def change_settings(self, settings: LedgerSettings) -> None:
        """Apply other settings from now on; keep the present advice."""
        with self._ledger_lock:
            self._ledger = self._ledger.with_settings(settings)

    def recommend(self) -> None:
        """Run the rules and update the ledger with their judgements.

        Works on a copy, since it takes long with many workloads and must not block `act`.

        Raises:
            HistoryError: the ledger could not be saved; a later run retries its events.
        """
        advice = self.advice
        update = self._judge.run(advice)
        restoration = None if advice or self._restore is None else self._restore()
        with self._update_lock:
            events = self._update(update, restoration)
        self._log_run(update.judgements, events)
        with self._ledger_lock:
            self._save()
        self._deliver_pending()

    def _update(self, update: LedgerUpdate, restoration: Restoration | None) -> list[AdviceEvent]:
        with self._ledger_lock:
            ledger = self._ledger.with_settings(self._ledger.settings)
            self._decisions = []
        if restoration is not None:
            ledger.restore(restoration)
        events = ledger.update(*update)
        self._store.encode_ledger(ledger, events)
        with self._ledger_lock:
            self._ledger = self._with_decisions(ledger, self._decisions)
            self._decisions = []
            self._publish(events)
        return events

    def _with_decisions(
        self, ledger: Ledger, decisions: Sequence[Callable[[Ledger], object]]
    ) -> Ledger:
        for decide in decisions:
            try:
                decide(ledger)
            except UsageError as error:  # The update has closed the advice.
                self._log.warning("decision_overtaken", error=str(error))
        has_same_settings = ledger.settings is self._ledger.settings
        return ledger if has_same_settings else ledger.with_settings(self._ledger.settings)

    def act(
        self,
        advice_id: str,
        state: AdviceState,
        actor: str,
        why: str = "",
        for_seconds: float | None = None,
    ) -> Advice:
        """Claim, snooze or dismiss advice as `Ledger.act` does, from any thread; return it.

        Raises:
            UsageError: no such open advice, or the state cannot be set manually.
            HistoryError: applied, but could not be saved yet.
        """
        now = self._clock.wall_time()

        def decide(ledger: Ledger) -> AdviceEvent:
            return ledger.act(advice_id, state, actor, now, why=why, for_seconds=for_seconds)

        with self._ledger_lock:
            event = decide(self._ledger)
            self._decisions.append(decide)
            self._log.info(f"advice_{state}", id=advice_id, actor=actor, why=why)
            self._publish([event])
            self._save()
        self._log_changes([event])
        self._deliver_pending()
        return event.advice

    def deliver(self) -> None:
        """Deliver pending events to all sinks.

        A failing sink does not stop the others; the first failure is raised at the end.
        """
        attempt_all(sink.deliver for sink in self._sinks)

    def metrics(self) -> dict[str, float]:
        """Ended advice by reason and outcome; findings without room in the ledger by severity."""
        dropped = self._ledger.dropped
        name = "rightsizer_recommender_dropped_findings"
        metrics = {
            series_key(name, severity=severity): float(dropped.get(severity, 0))
            for severity in Severity
        }
        for (reason, outcome), count in self.outcomes.items():
            key = series_key("rightsizer_advice_outcomes_total", reason=reason, outcome=outcome)
            metrics[key] = float(count)
        return metrics

    def _publish(self, events: Sequence[AdviceEvent]) -> None:
        # New values each time, since the sampling thread reads them.
        self.advice: tuple[Advice, ...] = self._ledger.advice()
        """After the last run and later decisions."""
        self.outcomes: Mapping[tuple[str, str], int] = self._ledger.track_record.outcomes
        """Number of ended recommendations, by reason and outcome."""
        self._pending.extend(events)

    def _log_run(self, judgements: Sequence[Judgement], events: Sequence[AdviceEvent]) -> None:
        self._log_changes(events)
        self._log.info(
            "recommender_ran",
            judgements=len(judgements),
            complaints=sum(judgement.finding.is_actionable for judgement in judgements),
            opened=sum(event.kind is AdviceEventKind.OPENED for event in events),
            closed=sum(event.kind is AdviceEventKind.CLOSED for event in events),
        )
        if dropped := self._ledger.dropped:
            self._log.warning(
                "ledger_full",
                **{f"dropped_{severity}": count for severity, count in sorted(dropped.items())},
                remedy="raise recommender.ledger.most_records, of a fleet fleet.most_records, or "
                "lower the number of findings by policies",
            )

    def _log_changes(self, events: Sequence[AdviceEvent]) -> None:
        for event in events:
            if event.kind is AdviceEventKind.DECIDED:
                continue
            finding = event.advice.finding
            self._log.info(
                f"advice_{event.kind}",
                id=finding.id,
                finding=str(finding.kind),
                reasons=",".join(finding.reasons),
                action=str(finding.action),
                confidence=finding.confidence,
                severity=str(finding.severity),
                workload=finding.workload or "",
                summary=finding.summary,
            )

    def _save(self) -> None:
        # Save before delivery, including pending events: a crash in between loses nothing.
        self._store.save_ledger(self._ledger, self._pending)

    def _deliver_pending(self) -> None:
        """Offer pending events in order; events added meanwhile are offered by the same thread."""
        while self._pending and self._delivery_lock.acquire(blocking=False):
            try:
                with self._ledger_lock:
                    events = tuple(self._pending)
                for sink in self._sinks:
                    sink.offer(events)
                with self._ledger_lock:
                    del self._pending[: len(events)]
                    if not self._pending:
                        self._store.clear_pending()
            finally:
                self._delivery_lock.release()
