"""Jobs of a node: recommend, deliver, flush and prune the history."""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import structlog

from rightsizer.accounting.service import AccountingService
from rightsizer.accounting.settings import HistorySettings
from rightsizer.advice.judgement import Judgement
from rightsizer.advice.ledger import Ledger
from rightsizer.advice.policy import Policy, PolicySet
from rightsizer.advice.recommender import Recommender, RecommenderRun
from rightsizer.advice.rules.rule import Rule
from rightsizer.advice.service import AdviceService, EventSink, RuleFailures
from rightsizer.advice.settings import LedgerSettings
from rightsizer.agent.storage import Storage
from rightsizer.io.clock import Clock
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.errors import HistoryError
from rightsizer.model.units import Nanoseconds, nanoseconds
from rightsizer.profiler.service import ProfileService

_DEFAULTS: Final = HistorySettings()
_LEAP: Final[Nanoseconds] = nanoseconds(3600.0)
"""By which a clock that is set may be wrong."""


class NodeJobs:
    """What the scheduler runs, and what the last run of the rules said."""

    def __init__(  # noqa: PLR0913 - the parts that the jobs bring together.
        self,
        *,
        accountant: AccountingService,
        storage: Storage,
        ledger: Ledger,
        rules: Sequence[Rule[Any]],
        sinks: Sequence[EventSink] = (),
        clock: Clock,
        retention_seconds: float,
        fine_seconds: float = _DEFAULTS.fine_retention,
        policies: Sequence[Policy] = (),
        profiles: ProfileService | None = None,
    ) -> None:
        self._storage, self._clock = storage, clock
        self._failures = RuleFailures()
        self._recommender = Recommender(
            accountant,
            rules,
            PolicySet(policies),
            clock,
            failed=self._failures.note,
            profiles=profiles,
            advice=lambda: self._desk.advice,
        )
        self._desk = AdviceService(self._recommender, ledger, storage, sinks, clock)
        self._accountant = accountant
        self._retention: Nanoseconds = nanoseconds(retention_seconds)
        self._fine: Nanoseconds = nanoseconds(fine_seconds)
        self._ahead = self._wall_ahead()
        self._flushing = threading.Lock()
        self._log = structlog.get_logger(component="recommender")
        self.counts: Counter[str] = Counter(
            {
                "recommender_rule_failures": 0,
                "history_writes": 0,
                "history_write_failures": 0,
                "history_breaks": storage.breaks,
                "history_windows_forgotten": 0,
            }
        )

    @property
    def advice(self) -> tuple[Advice, ...]:
        """The ledger's advice after the last run, and after what was decided since."""
        return self._desk.advice

    @property
    def claims(self) -> Mapping[str, Nanoseconds]:
        """Since when advice is claimed, by its id."""
        return self._desk.claims

    @property
    def judgements(self) -> tuple[Judgement, ...]:
        """What the rules said in the last run."""
        return self._recommender.judgements

    @property
    def last_run(self) -> RecommenderRun | None:
        """How the last run went, `None` before there was one."""
        return self._recommender.last_run

    @property
    def outcomes(self) -> Mapping[tuple[str, str], int]:
        """How much advice has ended, by its reason and by how it ended."""
        return self._desk.outcomes

    @property
    def realized_gpu_hours(self) -> Mapping[str, float]:
        """GPU-hours that were seen to be saved, by rule."""
        return self._desk.realized_gpu_hours

    @property
    def brier(self) -> Mapping[str, float]:
        """The mean squared error of the confidence by rule, where there were answers."""
        return self._desk.brier

    @property
    def confidence_floors(self) -> Mapping[tuple[str, str], float]:
        """Confidence that is asked for by rule and reason, for it was wrong too often."""
        return self._desk.confidence_floors

    def change(
        self, rules: Sequence[Rule[Any]], policies: Sequence[Policy], ledger: LedgerSettings
    ) -> None:
        """Judge and keep advice by other settings from the next run on; what is kept stays."""
        self._recommender.change(rules, PolicySet(policies))
        self._desk.keep_by(ledger)

    def keep(self, retention_seconds: float, fine_seconds: float) -> None:
        """Keep windows for as long from now on."""
        self._retention, self._fine = nanoseconds(retention_seconds), nanoseconds(fine_seconds)

    def recommend(self) -> None:
        """Let every rule judge every workload, and enter what follows into the ledger.

        Raises:
            HistoryError: the ledger could not be saved; its events are told after a run that can.
        """
        try:
            self._desk.recommend()
        finally:
            self.counts["recommender_rule_failures"] = self._failures.counts.total()

    def act(
        self,
        advice_id: str,
        state: AdviceState,
        actor: str,
        why: str = "",
        for_seconds: float | None = None,
    ) -> Advice:
        """Claim, snooze or dismiss advice, or take that back; from any thread.

        Args:
            advice_id: Which.
            state: Claimed, snoozed, dismissed, or active to take it back.
            actor: Who.
            why: In a few words.
            for_seconds: How long a snooze or a dismissal lasts; as the settings say without.

        Returns:
            The advice as it then stands.

        Raises:
            UsageError: there is no such open advice, or it cannot be put into that state.
            HistoryError: it holds, but could not be saved yet.
        """
        return self._desk.act(advice_id, state, actor, why, for_seconds)

    def flush(self) -> None:
        """Write what was accounted for since the last flush, and what is still running."""
        with self._flushing:
            closed, running, devices = self._accountant.take_windows()
            try:
                if self._storage.save_windows(closed, running, devices):
                    self.counts["history_writes"] += 1
            except HistoryError:
                self.counts["history_write_failures"] += 1
                raise
            finally:
                self._tell_history()

    def prune(self) -> None:
        """Roll old windows up into hours, and forget those beyond the retention.

        Not at once where the clock has leapt ahead: should it be wrong, all would be gone.
        """
        history, now = self._storage.history, self._clock.wall_time()
        before, self._ahead = self._ahead, self._wall_ahead()
        if history is not None and self._ahead - before <= _LEAP:
            history.roll_up(now - self._fine)
            history.prune(now - self._retention)

    def annotate(self) -> None:
        """Deliver what waits for Grafana, and for whoever else wants to know of advice.

        One that fails keeps no other waiting; the first failure is raised once all had their turn.
        """
        self._desk.deliver()

    def _wall_ahead(self) -> Nanoseconds:
        """How far the wall clock is ahead of the steady one, which changes as it is set."""
        return self._clock.wall_time() - self._clock.time()

    def _tell_history(self) -> None:
        """Say of each broken file where it went, and once that there is no room for the past."""
        if self._storage.breaks > self.counts["history_breaks"]:
            self.counts["history_breaks"] = self._storage.breaks
            self._log.error(
                "history_set_aside", moved_to=str(self._storage.set_aside), remedy="inspect it"
            )
        history = self._storage.history
        if history is not None and history.forgotten:
            if not self.counts["history_windows_forgotten"]:
                self._log.warning(
                    "history_full",
                    size_bytes=history.size_bytes,
                    remedy="raise history.maximum_size, or lower history.retention",
                )
            self.counts["history_windows_forgotten"] = history.forgotten
