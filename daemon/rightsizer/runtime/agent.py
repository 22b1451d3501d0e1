"""The agent: one source, one heartbeat, a few jobs, one server; and how it starts and stops."""

import threading
from collections.abc import Sequence
from typing import Any, Final

import structlog

from rightsizer import __version__
from rightsizer.advice.market import Market
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Rule
from rightsizer.catalogue.operator_file import read_catalogue, read_prices
from rightsizer.domain.errors import HistoryError
from rightsizer.domain.metric_family import series_key
from rightsizer.domain.report import AgentReport, Report
from rightsizer.domain.snapshot import Snapshot
from rightsizer.domain.units import Nanoseconds, nanoseconds, seconds
from rightsizer.edge.clock import Clock
from rightsizer.publish.freshness import FreshnessSettings
from rightsizer.publish.grafana.annotations import GrafanaAnnotations, grafana_annotations
from rightsizer.publish.metrics import Exposition
from rightsizer.publish.web.routes import Route
from rightsizer.publish.web.server import WebServer
from rightsizer.runtime.accountant import Accountant
from rightsizer.runtime.chores import Chores
from rightsizer.runtime.coordinator import Coordinator
from rightsizer.runtime.jobs import Job, Jobs
from rightsizer.runtime.log_counter import LogCounter
from rightsizer.runtime.notify import Notifier
from rightsizer.runtime.settings import Settings
from rightsizer.runtime.storage import Storage
from rightsizer.telemetry.source import Source

__all__ = ["Agent", "rules_of"]

_RESTORED: Final = 30 * 86400.0
_SET_BACK: Final = 86400.0
"""What is further in the future was lived by a wrong clock; beside it all else would be too old."""
_STATUS_EVERY: Final = nanoseconds(60.0)


class Agent:
    """Everything that runs, wired."""

    def __init__(  # noqa: PLR0913 - the outside world, each part with its own double in tests.
        self,
        settings: Settings,
        source: Source,
        *,
        source_name: str,
        clock: Clock,
        storage: Storage,
        log_counter: LogCounter | None = None,
        notifier: Notifier | None = None,
        local_routes: Sequence[Route] = (),
    ) -> None:
        self.settings, self._source, self._clock = settings, source, clock
        self._source_name = source_name
        self._storage = storage
        self._log_counter = log_counter or LogCounter()
        self._notifier = notifier or Notifier({})
        self._log = structlog.get_logger(component="agent")
        self._interval = nanoseconds(settings.sampling.interval)
        self._started = clock.wall_time()
        self.accountant = Accountant(settings.accounting, settings.policies)
        self._stopping = threading.Event()
        self._sink = self._grafana()
        self.chores = Chores(
            accountant=self.accountant,
            storage=storage,
            ledger=storage.ledger(settings.recommender.ledger),
            rules=rules_of(settings),
            sink=self._sink,
            clock=clock,
            retention_seconds=settings.history.retention,
            fine_seconds=settings.history.fine_retention,
        )
        self.jobs = Jobs(self._schedule(), clock)
        books = settings.accounting.books
        # What accounting calls a gap is what readers of the report call stale.
        freshness = FreshnessSettings(books.gap_intervals, books.gap_minimum_seconds)
        self.coordinator = Coordinator(source, clock, self._interval, self._on_snapshot)
        self.server = WebServer(
            settings.web.listen_addresses,
            latest=self.accountant.latest,
            exposition=Exposition(
                self.accountant.latest, settings.web.metrics, freshness, clock.wall_time
            ),
            settings=settings.web.server,
            freshness=freshness,
            wall_time=clock.wall_time,
            local_socket=settings.path.api_socket,
            local_routes=local_routes,
        )
        self._watchdog_due: Nanoseconds = 0
        self._status_due: Nanoseconds = 0
        self._trouble: str | None = None
        self._released: str | None = None
        self._is_ready = False

    def start(self) -> None:
        """Restore what is kept, listen, and start the jobs.

        Raises:
            RightsizerError: an address cannot be bound.
        """
        self._restore()
        self.server.start()
        self.jobs.start()
        self._log.info(
            "agent_started",
            version=__version__,
            source=self._source_name,
            addresses=",".join(self.server.addresses),
        )

    def run(self, stop: threading.Event) -> None:
        """Sample until `stop` is set, or the source has no more; then flush and stop."""
        try:
            self.coordinator.run(stop)
        finally:
            self.stop()

    def stop(self) -> None:
        """Write the history first, then stop everything; no job is waited for."""
        self._notifier.stopping()
        self._stopping.set()
        self.jobs.stop()
        self.jobs.run("flush")
        self.server.stop()
        self._source.close()
        self._storage.close()
        self._log.info("agent_stopped")

    def _restore(self) -> None:
        if self._storage.set_aside is not None:
            self._log.error(
                "history_set_aside", moved_to=str(self._storage.set_aside), remedy="inspect it"
            )
        if self._storage.history is None:
            return
        now = self._clock.wall_time()
        since, until = now - nanoseconds(_RESTORED), now + nanoseconds(_SET_BACK)
        try:
            history = self._storage.history
            restored = self.accountant.restore(history.devices(), history.load(since, until))
            self._log.info("history_restored", windows=restored)
        except HistoryError as error:
            self._log.error("history_unreadable", error=str(error))

    def _grafana(self) -> GrafanaAnnotations | None:
        if not self.settings.grafana.url:
            return None
        return grafana_annotations(
            self.settings.grafana,
            self._storage.outbox,
            self._clock,
            lambda message: self._log.warning("grafana_trouble", message=message),
            self._stopping.wait,
        )

    def _schedule(self) -> Sequence[Job]:
        recommender, history = self.settings.recommender, self.settings.history
        return (
            Job("recommend", self.chores.recommend, recommender.interval, recommender.jitter),
            Job("flush", self.chores.flush, history.flush_interval),
            Job("prune", self.chores.prune, 3600.0),
            Job("annotate", self.chores.annotate, 60.0),
        )

    def _on_snapshot(self, snapshot: Snapshot) -> None:
        report = self.accountant.post(
            snapshot, self.chores.advice, lambda: self._agent_report(snapshot)
        )
        self._tell_released(snapshot.released)
        self._tell_trouble(snapshot.trouble)
        self._tell_manager(report)

    def _tell_released(self, released: str | None) -> None:
        """Say once what was let go on request, and once that it was taken back."""
        if released != self._released:
            if released is not None:
                self._log.info("released", what=released)
            else:
                self._log.info("resumed")
            self._released = released

    def _tell_trouble(self, trouble: str | None) -> None:
        """Say once that there are no devices and why, and once that there are again."""
        if trouble != self._trouble:
            if trouble is not None:
                self._log.warning("devices_absent", reason=trouble)
            else:
                self._log.info("devices_found")
            self._trouble = trouble

    def _tell_manager(self, report: Report) -> None:
        now = self._clock.time()
        if not self._is_ready:
            self._is_ready = self._notifier.ready() or True
        interval = self._notifier.watchdog_interval
        if interval is not None and now >= self._watchdog_due:
            self._notifier.watchdog()
            self._watchdog_due = now + interval
        if now >= self._status_due:
            open_advice = sum(advice.is_open for advice in report.advice)
            self._notifier.status(
                f"Devices sampled: {len(report.devices)}; open advice: {open_advice}"
            )
            self._status_due = now + _STATUS_EVERY
            self.jobs.supervise()

    def _agent_report(self, snapshot: Snapshot) -> AgentReport:
        return AgentReport(
            version=__version__,
            source=self._source_name,
            started=self._started,
            interval_seconds=self.settings.sampling.interval,
            collectors=snapshot.collectors,
            jobs=self.jobs.reports(),
            trouble=snapshot.trouble,
            counters=self._counters(),
            gauges=self._gauges(snapshot),
        )

    def _counters(self) -> dict[str, float]:
        counters = {
            f"rightsizer_{name}_total": float(count) for name, count in self.chores.counts.items()
        }
        counters["rightsizer_samples_total"] = self.coordinator.samples
        counters["rightsizer_samples_failed_total"] = self.coordinator.failed_ticks
        counters["rightsizer_samples_late_total"] = self.coordinator.late_samples
        for (reason, outcome), count in self.chores.outcomes.items():
            key = series_key("rightsizer_advice_outcomes_total", reason=reason, outcome=outcome)
            counters[key] = count
        for level, count in self._log_counter.by_level().items():
            counters[series_key("rightsizer_log_messages_total", level=level)] = count
        if self._sink is not None:
            counters["rightsizer_annotations_total"] = self._sink.report.tried
            counters["rightsizer_annotation_failures_total"] = self._sink.report.failed
        return counters

    def _gauges(self, snapshot: Snapshot) -> dict[str, float]:
        judgements = self.chores.judgements
        gauges = {
            "rightsizer_recommender_findings": float(
                sum(judgement.finding.is_complaint for judgement in judgements)
            ),
            "rightsizer_recommender_abstentions": float(
                sum(judgement.finding.abstained is not None for judgement in judgements)
            ),
            "rightsizer_workers_abandoned": float(snapshot.abandoned_workers),
            "rightsizer_config_last_reload_successful": 1.0,
            "rightsizer_config_last_reload_success_timestamp_seconds": seconds(self._started),
        }
        if self._storage.history is not None:
            gauges["rightsizer_history_size_bytes"] = self._storage.history.size_bytes
        if self._sink is not None:
            gauges["rightsizer_annotations_pending"] = self._sink.report.pending
        return gauges


def rules_of(settings: Settings) -> tuple[Rule[Any], ...]:
    """The rules with an operator's settings, in the market that he knows.

    Raises:
        ConfigurationError: his files of boards or prices have faults.
    """
    tree, files = settings.recommender.rules, settings.catalogue
    catalogue = read_catalogue(files.boards_path)
    prices = read_prices(files.prices_path, catalogue)
    market = Market(catalogue, prices, settings.recommender.market)
    return tuple(rule.with_settings(getattr(tree, rule.name)).in_market(market) for rule in RULES)
