"""The agent: one source, one heartbeat, a few jobs, one server; and how it starts and stops."""

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import structlog

from rightsizer import __version__
from rightsizer.advice.rules.rule import Rule
from rightsizer.domain.errors import HistoryError
from rightsizer.domain.metric_family import series_key
from rightsizer.domain.report import AgentReport, Report
from rightsizer.domain.snapshot import Snapshot
from rightsizer.domain.units import nanoseconds
from rightsizer.edge.clock import Clock
from rightsizer.publish.freshness import FreshnessSettings
from rightsizer.publish.metrics import Exposition
from rightsizer.publish.web.lifecycle import LifecycleRoutes
from rightsizer.publish.web.routes import Route
from rightsizer.publish.web.server import WebServer
from rightsizer.runtime.accountant import Accountant
from rightsizer.runtime.actions.stationing import Acting
from rightsizer.runtime.advice_control import AdviceRoutes
from rightsizer.runtime.broker.stationing import Broking
from rightsizer.runtime.capture.stationing import Capturing
from rightsizer.runtime.capture.witness import Witness
from rightsizer.runtime.chores import Chores
from rightsizer.runtime.control import StillHeld
from rightsizer.runtime.coordinator import Coordinator
from rightsizer.runtime.door import Door, open_door
from rightsizer.runtime.flush_route import FlushRoute
from rightsizer.runtime.heartbeat import Heartbeat
from rightsizer.runtime.jobs import Job, Jobs
from rightsizer.runtime.log import tune
from rightsizer.runtime.log_counter import LogCounter
from rightsizer.runtime.market_rules import rules_of
from rightsizer.runtime.node_labels import LabelWriter
from rightsizer.runtime.notify import Notifier
from rightsizer.runtime.past import PastBook
from rightsizer.runtime.place_route import PlaceRoutes
from rightsizer.runtime.profile_desk import ProfileDesk
from rightsizer.runtime.profile_route import ProfileRoute
from rightsizer.runtime.recommender_gauges import recommender_gauges
from rightsizer.runtime.reloader import Reloader
from rightsizer.runtime.schedule import schedule
from rightsizer.runtime.settings import Settings
from rightsizer.runtime.settings_part import SettingsPart
from rightsizer.runtime.sinks import LiveSinks, Sinks, sinks_of
from rightsizer.runtime.slow_driver import slow_driver_gauges
from rightsizer.runtime.source_log import SourceLog
from rightsizer.runtime.storage import Storage
from rightsizer.telemetry.controls import Controls
from rightsizer.telemetry.source import Source

if TYPE_CHECKING:
    from rightsizer.placement.seat import Seat

__all__ = ["Agent"]

_RESTORED: Final = 30 * 86400.0
_SET_BACK: Final = 86400.0
"""What is further in the future was lived by a wrong clock; beside it all else would be too old."""


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
        controls: Controls | None = None,
        still_held: StillHeld = lambda _: None,
        door: Door | None = None,
        reread: Callable[[], Settings] | None = None,
    ) -> None:
        self.settings, self._source, self._clock = settings, source, clock
        self._source_name, self._storage = source_name, storage
        self._log_counter, self._notifier = log_counter or LogCounter(), notifier or Notifier({})
        self._log = structlog.get_logger(component="agent")
        self._interval = nanoseconds(settings.sampling.interval)
        self._started = clock.wall_time()
        self.accountant = Accountant(settings.accounting, settings.policies_here)
        self._stopping = threading.Event()
        self._sinks = LiveSinks(settings, self._sinks_of)
        self.profiles = ProfileDesk(self.accountant, storage, clock, settings.profiles)
        self.chores = Chores(
            accountant=self.accountant,
            storage=storage,
            ledger=storage.ledger(settings.recommender.ledger),
            rules=rules_of(settings),
            sinks=(self._sinks,),
            policies=settings.policies_here,
            profiles=self.profiles,
            clock=clock,
            retention_seconds=settings.history.retention,
            fine_seconds=settings.history.fine_retention,
        )
        self._capturing = self._capturing_by(controls or Controls(clock), still_held)
        self._acting = Acting(settings, self.chores, self.accountant.latest, storage, clock)
        self._broking = self._broking_by(settings)
        self._labels = LabelWriter(
            lambda: self.settings.labels, self.accountant.latest, self._seats_of, clock
        )
        self.jobs = Jobs(self._schedule(settings), clock)
        door = door or open_door(settings, clock.wall_time)
        self.reloader = Reloader(
            (*self._parts(reread), *door.parts),
            started=self._started,
            notifier=self._notifier,
            wall_time=clock.wall_time,
        )
        self.coordinator = Coordinator(source, clock, self._interval, self._on_snapshot)
        self._advice_routes = AdviceRoutes(self.chores, settings.rule_trees, self._acting.claimed)
        self._exposition = self._new_exposition(settings)
        self.server = self._server(door, local_routes)
        self._source_log = SourceLog(self._log)
        self._heartbeat = Heartbeat(self._notifier, clock)

    def _sinks_of(self, settings: Settings) -> Sinks:
        return sinks_of(
            settings,
            self._storage,
            lambda: self.chores.advice,
            clock=self._clock,
            tell=lambda event, message: self._log.warning(event, message=message),
            sleep=self._stopping.wait,
        )

    def _capturing_by(self, controls: Controls, still_held: StillHeld) -> Capturing:
        chores = self.chores
        return Capturing(
            self.settings.profiles,
            Witness(self.accountant.latest, lambda: chores.judgements, lambda: chores.advice),
            lambda: self._storage.captures,
            self.profiles,
            limits=lambda: self.settings.profiles.read_limits,
            controls=controls,
            still_held=still_held,
            clock=self._clock,
        )

    def _broking_by(self, settings: Settings) -> Broking:
        latest, notify = self.accountant.latest, self._sinks.notify
        return Broking(settings, latest, self._freshness(), self._clock, notify)

    def _schedule(self, settings: Settings) -> tuple[Job, ...]:
        further = (*self._capturing.jobs, *self._acting.jobs)
        return schedule(self.chores, self._labels, settings, further)

    def _seats_of(self, report: Report) -> "tuple[Seat, ...]":
        # Most nodes write no labels, and load nothing for them.
        from rightsizer.runtime.placing import view_of  # noqa: PLC0415
        from rightsizer.runtime.seats import seats_of  # noqa: PLC0415

        now = self._clock.wall_time()
        return seats_of(report, view_of(self.settings, now, self._freshness()))

    def _parts(self, reread: Callable[[], Settings] | None) -> tuple[SettingsPart, ...]:
        if reread is None:
            return ()
        return (SettingsPart(self.settings, reread, self._change, self._clock.wall_time),)

    def _change(self, settings: Settings, rules: Sequence[Rule[Any]]) -> None:
        """Put settings in force that differ in nothing but what may change."""
        # The only one that can fail, and leaves all as it was where it does.
        self._sinks.change(settings)
        self.settings = settings
        self.accountant.follow(settings.policies_here)
        self.chores.change(rules, settings.policies_here, settings.recommender.ledger)
        self.chores.keep(settings.history.retention, settings.history.fine_retention)
        self._advice_routes.explain_by(settings.rule_trees)
        self.profiles.follow(settings.profiles)
        self._broking.follow(settings)
        self._exposition.change(settings.web.metrics)
        tune(settings.log.level, settings.log.repeat_interval)
        for job in self._schedule(settings):
            self.jobs.change(job)

    def _freshness(self) -> FreshnessSettings:
        # What accounting calls a gap is what readers of the report call stale.
        books = self.settings.accounting.books
        return FreshnessSettings(books.gap_intervals, books.gap_minimum_seconds)

    def _new_exposition(self, settings: Settings) -> Exposition:
        return Exposition(
            self.accountant.latest,
            settings.web.metrics,
            self._freshness(),
            self._clock.wall_time,
            dcgm_source=settings.sources.dcgm.url,
        )

    def _server(self, door: Door, local_routes: Sequence[Route]) -> WebServer:
        settings = self.settings
        return WebServer(
            settings.web.listen_addresses,
            latest=self.accountant.latest,
            exposition=self._exposition,
            settings=settings.web.server,
            freshness=self._freshness(),
            wall_time=self._clock.wall_time,
            local_socket=settings.path.api_socket,
            local_routes=(
                *local_routes,
                *self._advice_routes.routes,
                *ProfileRoute(self.profiles.profiles).routes,
                *self._capturing.routes,
                *self._acting.routes,
                *FlushRoute(self.chores.flush).routes,
                *PlaceRoutes(lambda: self.settings, self._broking.given).routes,
                *self._broking.routes,
                *LifecycleRoutes(
                    self.reloader.reload, is_enabled=settings.web.enable_lifecycle
                ).routes,
            ),
            access=door.access,
            past=PastBook(self.accountant.remembered),
        )

    def start(self) -> None:
        """Restore what is kept, listen, and start the jobs.

        Raises:
            RightsizerError: an address cannot be bound.
        """
        self._restore()
        self._capturing.start()
        self._acting.start()
        self._broking.start()
        self.server.start()
        self.reloader.start()
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
        self.reloader.stop()
        self.jobs.stop()
        self._capturing.stop()
        self._acting.stop()
        self.jobs.run("flush")
        self.server.stop()
        self._broking.stop()
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

    def _on_snapshot(self, snapshot: Snapshot) -> None:
        report = self.accountant.post(
            snapshot, self.chores.advice, lambda: self._agent_report(snapshot)
        )
        self._source_log.tell(snapshot)
        if self._heartbeat.beat(report):
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
        for (form, outcome), count in self.profiles.counts.items():
            key = series_key("rightsizer_profiles_total", format=form, outcome=outcome)
            counters[key] = count
        for level, count in self._log_counter.by_level().items():
            counters[series_key("rightsizer_log_messages_total", level=level)] = count
        for part in (self._capturing, self._acting, self._broking, self._sinks):
            counters |= part.counters()
        return counters

    def _gauges(self, snapshot: Snapshot) -> dict[str, float]:
        gauges = {
            **recommender_gauges(self.chores.judgements),
            "rightsizer_workers_abandoned": float(snapshot.abandoned_workers),
            **slow_driver_gauges(snapshot),
            **self.reloader.gauges,
        }
        if self._storage.history is not None:
            gauges["rightsizer_history_size_bytes"] = self._storage.history.size_bytes
        return gauges | self._broking.gauges() | self._sinks.gauges()
