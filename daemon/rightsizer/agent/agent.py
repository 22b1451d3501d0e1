"""The agent: composition root, startup and shutdown of source, coordinator, jobs and server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rightsizer import __version__
from rightsizer.accounting.served import SERVED_KEPT
from rightsizer.accounting.service import AccountingService
from rightsizer.advice.policy import PolicySet, apply_policies
from rightsizer.advice.rules.rule import Rule
from rightsizer.advice.service import AdviceService, JudgementSource, Recommender, configured_rules
from rightsizer.advice.storage import Storage
from rightsizer.agent.coordinator import (
    Coordinator,
    Heartbeat,
    InstalledPackage,
    driver_metrics,
)
from rightsizer.agent.features import FeatureContext, Features
from rightsizer.agent.history_service import HistoryService
from rightsizer.agent.local_api import ForgetRoute, flush_route, report_route
from rightsizer.agent.node_labels import LabelWriter
from rightsizer.agent.reloader import Reloader, SettingsPart
from rightsizer.agent.served_needs import ASKED_SECONDS, ServedNeeds
from rightsizer.agent.settings import Settings
from rightsizer.agent.source_log import SourceLog
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.io.clock import Clock
from rightsizer.io.heap import trim
from rightsizer.io.jobs import Job, Jobs
from rightsizer.io.log import LogCounter, logger, tune
from rightsizer.io.systemd import Notifier
from rightsizer.model.values import (
    AgentReport,
    Case,
    Device,
    HistoryError,
    Nanoseconds,
    Report,
    Snapshot,
    nanoseconds,
)
from rightsizer.notify.service import NotificationService
from rightsizer.profiler.service import ProfileService
from rightsizer.report.facts import PriceRate, price_rate
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.telemetry.source import ReleaseController, SnapshotSource, StillHeld
from rightsizer.web.advice_api import AdviceApi
from rightsizer.web.api import lifecycle_routes, serving_route
from rightsizer.web.page import SpanCache
from rightsizer.web.router import Route
from rightsizer.web.server import Reloadable, WebAccess, WebServer, configured_access

if TYPE_CHECKING:
    from rightsizer.broker.slot import LeaseSlot


_FORGET_SECONDS: Final = 3.0
"""What a loaded machine may add to two ticks."""


class Agent:
    """Composition root: every component of a running agent, wired."""

    def __init__(  # noqa: PLR0913 - the outside world, each part with its own double in tests.
        self,
        settings: Settings,
        source: SnapshotSource,
        *,
        source_name: str,
        clock: Clock,
        storage: Storage,
        log_counter: LogCounter | None = None,
        notifier: Notifier | None = None,
        local_routes: Sequence[Route] = (),
        controls: ReleaseController | None = None,
        still_held: StillHeld = lambda _: None,
        expect: Callable[[Iterable[Device]], None] = lambda _: None,
        forget: Callable[[str], None] = lambda _: None,
        access: WebAccess | None = None,
        reread: Callable[[], Settings] | None = None,
        config_file: Path | None = None,
    ) -> None:
        self.settings = settings
        self._source = source
        self._clock = clock
        self._source_name = source_name
        self._storage = storage
        self._expect = expect
        self._forget = forget
        self._log_counter = log_counter or LogCounter()
        self._notifier = notifier or Notifier({})
        self._log = logger("agent")
        self._interval = nanoseconds(settings.sampling.interval)
        self._started = clock.wall_time()
        self.accounting = AccountingService(
            settings.accounting, partial(apply_policies, policies=settings.policies_here)
        )
        self._stopping = threading.Event()
        self._notifications = self._new_notifications()
        self.profiles = ProfileService(self.accounting, storage, clock, settings.profiles)
        self._needs = self._new_needs(config_file)
        self.recommender = self._new_recommender()
        ledger = storage.ledger(settings.recommender.ledger)
        sinks = (self._notifications,)
        self.advice_service = AdviceService(self.recommender, ledger, storage, sinks, clock)
        self.history_service = HistoryService(self.accounting, storage, clock, settings.history)
        self._features = self._new_features(controls or ReleaseController(clock), still_held)
        latest = self.accounting.latest
        self._labels = LabelWriter(lambda: self.settings.labels, latest, self._slots_of, clock)
        self.jobs = Jobs(self._schedule(settings), clock)
        access = access or configured_access(settings.web, clock.wall_time)
        self.reloader = self._reloader(access.files, reread)
        self.coordinator = Coordinator(source, clock, self._interval, self._on_snapshot)
        self._advice_routes = self._advice_api()
        self._exposition = self._new_exposition()
        self.server = self._server(access, local_routes)
        self._source_log = SourceLog(self._log)
        self._heartbeat = Heartbeat(self._notifier, clock)
        self._package = InstalledPackage()
        self.part = "start"
        """What runs on the thread that starts, samples and closes."""
        self._parts = self._closing_parts()

    def _new_recommender(self) -> Recommender:
        rules = configured_rules(self.settings)
        policies = PolicySet(self.settings.policies_here)
        sources: Mapping[str, JudgementSource] = {
            "profiles": self.profiles,
            "served": self._needs,
        }
        return Recommender(self.accounting, rules, policies, self._clock, sources)

    def _new_needs(self, config_file: Path | None) -> ServedNeeds:
        def cases(now: Nanoseconds) -> Sequence[Case]:
            return self.accounting.snapshot(now).cases(SERVED_KEPT)

        return ServedNeeds(self.accounting.served_loads, config_file, self._clock, cases)

    def _new_notifications(self) -> NotificationService:
        return NotificationService(
            self.settings,
            self._storage.database,
            lambda: self.advice_service.advice,
            clock=self._clock,
            warn=lambda event, message: self._log.warning(event, message=message),
            sleep=self._stopping.wait,
            titles=self._titles,
        )

    def _titles(self) -> Mapping[str, str]:
        report = self.accounting.latest()
        devices = report.devices if report else ()
        return {device.device.uuid: device.device.title for device in devices}

    def _new_features(self, controls: ReleaseController, still_held: StillHeld) -> Features:
        context = FeatureContext(
            settings=lambda: self.settings,
            accounting=self.accounting,
            recommender=self.recommender,
            advice=self.advice_service,
            profiles=self.profiles,
            database=self._storage.database,
            freshness=self._freshness(),
            clock=self._clock,
            notify=self._notifications.notify,
            controls=controls,
            still_held=still_held,
        )
        return Features(context)

    def recommend(self) -> None:
        """Run the rules, and return the memory that they and readers of the page left free."""
        try:
            self.advice_service.recommend()
        finally:
            trim()

    def _schedule(self, settings: Settings) -> tuple[Job, ...]:
        recommender = settings.recommender
        history = self.history_service
        advice = self.advice_service
        return (
            Job("recommend", self.recommend, recommender.interval, recommender.jitter),
            Job("flush", history.flush, settings.history.flush_interval, has_own_thread=True),
            Job("prune", history.prune, 3600.0),
            Job("annotate", advice.deliver, 60.0),
            # No-op while no file is set; a reload may set one.
            Job("label", self._labels.write, settings.labels.interval),
            *self._planner_jobs(settings),
            *(job for feature in self._features.all for job in feature.jobs),
        )

    def _planner_jobs(self, settings: Settings) -> Iterator[Job]:
        """Yield the planner's jobs: where it may answer, and where engines are real."""
        if settings.web.server.plan_form:
            yield Job("served", self._needs.ask, ASKED_SECONDS, has_own_thread=True)
        # A simulated driver would teach what its scenario says.
        if settings.sources.serving.endpoints and not settings.sources.simulated.scenario:
            yield Job("learn", self._learn, ASKED_SECONDS, has_own_thread=True)

    def _learn(self) -> None:
        if self.settings.sizing.learned_file:
            self._needs.learn()

    def _slots_of(self, report: Report) -> tuple[LeaseSlot, ...]:
        # Imported on use: most nodes write no labels.
        from rightsizer.broker.placement import view_of  # noqa: PLC0415
        from rightsizer.broker.slot_builder import slots_of  # noqa: PLC0415

        now = self._clock.wall_time()
        return slots_of(report, view_of(self.settings, now, self._freshness()))

    def _reloader(
        self, files: Sequence[Reloadable], reread: Callable[[], Settings] | None
    ) -> Reloader:
        parts = tuple(files)
        wall_time = self._clock.wall_time
        if reread is not None:
            parts = (SettingsPart(self.settings, reread, self._change_settings, wall_time), *parts)
        return Reloader(parts, started=self._started, notifier=self._notifier, wall_time=wall_time)

    def _change_settings(self, settings: Settings, rules: Sequence[Rule[Any]]) -> None:
        """Apply settings that differ from those in force only in live keys."""
        # First: the only call that can fail, and it leaves everything unchanged if it does.
        self._notifications.change_settings(settings)
        self.settings = settings
        self.accounting.enrich = partial(apply_policies, policies=settings.policies_here)
        self.recommender.change_rules(rules, PolicySet(settings.policies_here))
        self.advice_service.change_settings(settings.recommender.ledger)
        self.history_service.change_settings(settings.history)
        self._advice_routes.rules = settings.rule_trees
        self.profiles.change_settings(settings.profiles)
        if self._features.broker:
            self._features.broker.change_settings(settings)
        self._exposition.change_settings(settings.web.metrics)
        tune(settings.log.level, settings.log.repeat_interval)
        for job in self._schedule(settings):
            self.jobs.change(job)

    def _freshness(self) -> FreshnessSettings:
        # Gaps in accounting and stale reports share one threshold.
        books = self.settings.accounting.books
        return FreshnessSettings(books.gap_intervals, books.gap_minimum_seconds)

    def _new_exposition(self) -> MetricsExposition:
        latest = self.accounting.latest
        settings = self.settings
        wall_time = self._clock.wall_time
        dcgm = settings.sources.dcgm.url
        metrics = settings.web.metrics
        return MetricsExposition(
            latest, metrics, self._freshness(), wall_time, dcgm_source=dcgm, rate_of=self._rate_of
        )

    def _rate_of(self, device: Device) -> PriceRate | None:
        return price_rate(self.recommender.market, device.board)

    def _advice_api(self) -> AdviceApi:
        note_claim = self._features.actions.note_claim if self._features.actions else None

        def names() -> dict[str, str]:
            devices = (record.device for record in self.accounting.device_records())
            return {device.uuid: device.label for device in devices}

        return AdviceApi(self.advice_service, self.settings.rule_trees, note_claim, names)

    def _server(self, access: WebAccess, local_routes: Sequence[Route]) -> WebServer:
        settings = self.settings
        spans = SpanCache(self.accounting.device_queries)
        return WebServer(
            settings.web.listen_addresses,
            latest=self.accounting.latest,
            exposition=self._exposition,
            settings=settings.web.server,
            freshness=self._freshness(),
            wall_time=self._clock.wall_time,
            local_socket=settings.path.api_socket,
            local_routes=(
                *local_routes,
                *self._advice_routes.routes,
                *self._features.routes,
                flush_route(self.history_service.flush),
                report_route(lambda: self.settings),
                self._forget_route(),
                serving_route(self.accounting.served_loads, self._clock.wall_time),
                *lifecycle_routes(self.reloader.reload, is_enabled=settings.web.enable_lifecycle),
            ),
            access=access,
            past=spans,
            blocks=spans.blocks,
            accounts=self.accounting.whole_accounts,
            rate_of=self._rate_of,
            hang=self.coordinator.hang,
            may_operate=self._features.may_operate,
        )

    def _forget_route(self) -> Route:
        # The next snapshot but one is without the device.
        patience = _FORGET_SECONDS + 2 * self.settings.sampling.interval
        forget_accounts = self.history_service.forget
        return ForgetRoute(self.accounting.latest, self._forget, forget_accounts, patience).route

    def start(self) -> None:
        """Restore the history, listen, and start the jobs; close everything if one part fails.

        Raises:
            RightsizerError: an address cannot be bound.
        """
        with ExitStack() as failed:
            failed.callback(self.close)
            self._restore()
            for feature in self._features.all:
                feature.start()
            self.server.start()
            self.reloader.start()
            self.jobs.start()
            failed.pop_all()
        name = self._source_name
        addresses = ",".join(self.server.addresses)
        self._log.info("agent_started", version=__version__, source=name, addresses=addresses)

    def run(self, stop: threading.Event) -> None:
        """Sample until `stop` is set or the source ends; then flush and stop."""
        self.part = "sampling"
        try:
            self.coordinator.run(stop)
        finally:
            self.stop()

    def stop(self) -> None:
        """Flush the history, then stop all parts without waiting for jobs."""
        self._notifier.stopping()
        self.close()
        self._log.info("agent_stopped")

    def close(self) -> None:
        """Close each part once; log what a part raises and go on with the next."""
        self._parts.close()

    def _closing_parts(self) -> ExitStack:
        """Stack of the parts' close calls: the last one named closes first, each once."""
        parts: tuple[tuple[str, Callable[[], None]], ...] = (
            ("storage", self._storage.close),
            ("source", self._source.close),
            *((type(feature).__name__, feature.stop) for feature in self._features.all),
            ("server", self.server.stop),
            ("flush", partial(self.jobs.run, "flush")),
            ("jobs", self.jobs.stop),
            ("reloader", self.reloader.stop),
        )
        stack = ExitStack()
        for name, close in parts:
            stack.callback(self._close_part, name, close)
        stack.callback(self._stopping.set)
        return stack

    def _close_part(self, name: str, close: Callable[[], None]) -> None:
        self.part = name
        try:
            close()
        except Exception:  # noqa: BLE001 - later parts must be closed as well.
            self._log.exception("close_failed", part=name)

    def _restore(self) -> None:
        if self._storage.database.set_aside is not None:
            moved = str(self._storage.database.set_aside)
            self._log.error("history_set_aside", moved_to=moved, remedy="inspect it")
        if (trouble := self._storage.database.disk_trouble) is not None:
            remedy = f"{self._storage.database.disk_remedy}; until then the history is in memory"
            self._log.error("history_not_written", error=trouble, remedy=remedy)
        if self._storage.history is None:
            return
        try:
            windows, present = self.history_service.restore()
        except HistoryError as error:
            self._log.error("history_unreadable", error=str(error))
        else:
            self._expect(present)
            self._log.info("history_restored", windows=windows)

    def _on_snapshot(self, snapshot: Snapshot) -> None:
        agent_report = partial(self._agent_report, snapshot)
        report = self.accounting.post(snapshot, self.advice_service.advice, agent_report)
        self._source_log.log(snapshot)
        if self._heartbeat.notify(report):
            self.jobs.supervise()
            self.history_service.check()
            self._package.check()

    def _agent_report(self, snapshot: Snapshot) -> AgentReport:
        return AgentReport(
            version=__version__,
            source=self._source_name,
            started=self._started,
            interval_seconds=self.settings.sampling.interval,
            collectors=snapshot.collectors,
            jobs=self.jobs.reports(),
            trouble=snapshot.trouble,
            metrics=self._metrics(snapshot),
            served_needs=self._needs.latest,
        )

    def _metrics(self, snapshot: Snapshot) -> dict[str, float]:
        sources: tuple[Callable[[], Mapping[str, float]], ...] = (
            self.history_service.metrics,
            self.coordinator.metrics,
            self.recommender.metrics,
            self.advice_service.metrics,
            self.profiles.metrics,
            self.reloader.metrics,
            self._notifications.metrics,
            self._log_counter.metrics,
            *(feature.metrics for feature in self._features.all),
        )
        values = driver_metrics(snapshot)
        for metrics in sources:
            values |= metrics()
        return values
