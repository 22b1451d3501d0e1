"""The fleet recommender as a service: looks at intervals, `/metrics`, page, API, annotations."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import structlog

from rightsizer import __version__
from rightsizer.advice.service import AdviceService
from rightsizer.advice.storage import Storage
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.fleet.api import FleetApi
from rightsizer.fleet.encoder import USED, FleetAnswer, fleet_gauges
from rightsizer.fleet.judge import FleetJudge
from rightsizer.fleet.ledger import loss_of, opened_ledger
from rightsizer.fleet.run import DeduplicatingSink, LedgerRecovery
from rightsizer.fleet.settings import FleetConfig, rule_trees
from rightsizer.fleet.source import StoreUse
from rightsizer.io.clock import Clock, SystemClock
from rightsizer.io.jobs import Job, Jobs
from rightsizer.io.log import configure
from rightsizer.io.systemd import Notifier, stop_on_signals
from rightsizer.model.advice import Advice, AdviceState
from rightsizer.model.errors import RightsizerError
from rightsizer.model.metric_family import series_key
from rightsizer.model.report import AgentReport, Report
from rightsizer.model.units import seconds
from rightsizer.notify.service import NotificationService
from rightsizer.web.advice_api import AdviceApi
from rightsizer.web.server import WebServer, configured_access

_LOOK: Final = "fleet"
_DELIVER_SECONDS: Final = 60.0
_TURN_SECONDS: Final = 20.0
_UNTOLD: Final = Notifier({})


class FleetService:
    """Everything that runs, wired. It never ends for a store that is away."""

    def __init__(
        self,
        settings: FleetConfig,
        judge: FleetJudge,
        storage: Storage,
        clock: Clock,
        notifier: Notifier = _UNTOLD,
    ) -> None:
        """A service that does not listen yet.

        Args:
            settings: Everything that an operator may set.
            judge: Looks at the estate.
            storage: Keeps the ledger and what waits to be told.
            clock: The service's.
            notifier: Tells the service manager how it is.
        """
        self._settings, self._judge, self._clock = settings, judge, clock
        self._notifier, self._stopping = notifier, threading.Event()
        self._started, self._generation = clock.wall_time(), 0
        self._looking = threading.Lock()
        self._used = StoreUse()
        self._log = structlog.get_logger(component="fleet")
        self._sinks = NotificationService(
            settings,
            storage.database,
            lambda: self.desk.advice,
            clock=clock,
            warn=lambda event, message: self._log.warning(event, message=message),
            sleep=self._stopping.wait,
        )
        sinks = (DeduplicatingSink(self._sinks, judge),)
        ledger = storage.ledger(settings.recommender.ledger)
        restorer = LedgerRecovery(judge, settings, self._say_what_stays_lost, self._stopping.wait)
        self.desk = AdviceService(
            judge, ledger, storage, sinks, clock, restore=restorer.restoration
        )
        self.trouble: str | None = None
        """Why the last look failed."""
        self._found: FleetAnswer | None = None
        self._jobs = Jobs(
            (
                Job(_LOOK, self.look, settings.fleet.interval_seconds),
                Job("annotate", self.desk.deliver, _DELIVER_SECONDS),
            ),
            clock,
        )
        self._report = self._new_report()
        self.server = self._new_server()

    @property
    def advice(self) -> tuple[Advice, ...]:
        """The ledger's, with what was decided since the last look."""
        return self.desk.advice

    @property
    def answer(self) -> FleetAnswer | None:
        """What the last look that succeeded came to, `None` before the first."""
        found = self._found
        return None if found is None else replace(found, advice=self.advice)

    @property
    def is_looking(self) -> bool:
        """Whether a look is under way."""
        return self._looking.locked()

    def look(self) -> None:
        """Look once, and put up what was found; the last answer stays where that fails.

        One look at a time: what is due while another goes on is left out.

        Raises:
            RightsizerError: the store does not answer, or the ledger cannot be written.
        """
        if not self._looking.acquire(blocking=False):
            return
        try:
            self.desk.recommend()
        except RightsizerError as error:
            self.trouble = str(error)
            raise
        else:
            self.trouble = None
            self._found = self._judge.answer
            self._used += self._judge.answer.use
        finally:
            self._looking.release()
            self._refresh()

    def act(
        self,
        advice_id: str,
        state: AdviceState,
        actor: str,
        why: str,
        for_seconds: float | None,
    ) -> Advice:
        """Put advice into a state by hand; the metrics tell of it at once.

        Raises:
            UsageError: there is no such open advice.
        """
        advice = self.desk.act(advice_id, state, actor, why, for_seconds)
        self._refresh()
        return advice

    def run(self, stop: threading.Event) -> None:
        """Listen, look at once and then at intervals, until `stop` is set.

        Raises:
            RightsizerError: an address cannot be bound.
        """
        self.server.start()
        self._jobs.start()
        self._log.info("fleet_started", addresses=",".join(self.server.addresses))
        self._notifier.ready()
        try:
            threading.Thread(target=self._look_first, daemon=True).start()
            while not stop.wait(self._turn_seconds()):
                self._notifier.watchdog()
                self._jobs.supervise()
                self._refresh()
        finally:
            self._notifier.stopping()
            self._log.info("fleet_stopped", is_looking=self.is_looking)
            self._stopping.set()
            self._jobs.stop()
            self.server.stop()

    def _say_what_stays_lost(self, message: str) -> None:
        self._log.warning("ledger_lost", message=message)

    def _look_first(self) -> None:
        """At once, for the first turn of a job comes after a whole interval."""
        self._jobs.run(_LOOK)
        self._refresh()

    def _turn_seconds(self) -> float:
        watchdog = self._notifier.watchdog_interval
        return _TURN_SECONDS if watchdog is None else min(_TURN_SECONDS, seconds(watchdog))

    def _new_server(self) -> WebServer:
        web = self._settings.web
        routes = FleetApi(
            lambda: self.answer,
            lambda: self.trouble,
            lambda: self._settings.fleet.interval_seconds,
            self._clock.wall_time,
        )
        return WebServer(
            web.listen_addresses,
            latest=lambda: self._report,
            exposition=MetricsExposition(
                self._exported, web.metrics, wall_time=self._clock.wall_time
            ),
            settings=web.server,
            wall_time=self._clock.wall_time,
            local_socket=self._settings.fleet.api_socket,
            local_routes=(*routes.routes, *AdviceApi(self, rule_trees(self._settings)).routes),
            access=configured_access(self._settings.web, self._clock.wall_time),
        )

    def _exported(self) -> Report:
        """For a scrape: what a node's own agent exports is not there twice."""
        told, report = self._judge.told_by_nodes, self._report
        return replace(report, advice=tuple(each for each in report.advice if each.id not in told))

    def _refresh(self) -> None:
        self._generation += 1
        self._report = self._new_report()
        self._notifier.status(self.trouble or f"{len(self._open())} pieces of advice are open")

    def _open(self) -> list[Advice]:
        return [each for each in self.advice if each.is_open]

    def _new_report(self) -> Report:
        found, limit = self._found, self._settings.fleet.exported_maximum
        return Report(
            generation=self._generation,
            wall_time=self._clock.wall_time(),
            devices=(),
            advice=self.advice,
            agent=AgentReport(
                version=__version__,
                source="fleet",
                started=self._started,
                interval_seconds=self._settings.fleet.interval_seconds,
                jobs=self._jobs.reports(),
                trouble=self.trouble,
                counters=self._counters(),
                gauges=({} if found is None else fleet_gauges(found, limit)) | self._sinks.gauges(),
            ),
        )

    def _counters(self) -> dict[str, float]:
        outcomes = {
            series_key("rightsizer_advice_outcomes_total", reason=reason, outcome=outcome): count
            for (reason, outcome), count in self.desk.outcomes.items()
        }
        used = {metric: float(getattr(self._used, name)) for name, metric in USED.items()}
        return {**outcomes, **used, **self._sinks.counters()}


def serve_fleet(settings: FleetConfig, end: Callable[[int], object] = os._exit) -> None:
    """Run until SIGTERM or SIGINT; SIGHUP is answered with a line in the log.

    Args:
        settings: Everything that an operator may set.
        end: Ends the process on the spot, where a look is under way that nobody waits for.

    Raises:
        RightsizerError: it cannot start: no store is named, an address or a file is out of reach.
    """
    log, clock = settings.log, SystemClock()
    configure(log.format, log.level, repeat_interval_seconds=log.repeat_interval)
    notifier = Notifier(os.environ)
    with FleetJudge.open(settings, clock) as judge:
        storage = opened_ledger(judge.ledger_path)
        try:
            service = FleetService(settings, judge, storage, clock, notifier)
            for sentence in loss_of(storage):
                structlog.get_logger(component="fleet").warning("ledger_lost", message=sentence)
            stop = stop_on_signals()
            signal.signal(signal.SIGHUP, _say_that_nothing_is_reloaded)
            service.run(stop)
            if service.is_looking:
                # What was read is kept; processes that still read or judge end with this one.
                sys.stdout.flush()
                sys.stderr.flush()
                end(0)
        finally:
            storage.close()


def _say_that_nothing_is_reloaded(*_: object) -> None:
    structlog.get_logger(component="fleet").warning(
        "reload_unsupported", message="restart it to read its files again; what it read is kept"
    )
