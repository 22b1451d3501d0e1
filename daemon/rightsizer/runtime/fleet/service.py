"""The fleet recommender as a service: looks at intervals, `/metrics`, page, API, annotations."""

import os
import threading
from dataclasses import replace
from typing import Final

import structlog

from rightsizer import __version__
from rightsizer.domain.errors import RightsizerError
from rightsizer.domain.metric_family import series_key
from rightsizer.domain.report import AgentReport, Report
from rightsizer.edge.clock import Clock, SystemClock
from rightsizer.fleet.prometheus.use import StoreUse
from rightsizer.publish.metrics import Exposition
from rightsizer.publish.web.server import WebServer
from rightsizer.runtime.advice_control import AdviceRoutes
from rightsizer.runtime.advice_desk import AdviceDesk
from rightsizer.runtime.door import open_door
from rightsizer.runtime.fleet.answer import FleetAnswer
from rightsizer.runtime.fleet.gauges import USED, fleet_gauges
from rightsizer.runtime.fleet.judge import FleetJudge
from rightsizer.runtime.fleet.routes import FleetRoutes
from rightsizer.runtime.fleet.settings import WholeSettings
from rightsizer.runtime.fleet.unrepeated import Unrepeated
from rightsizer.runtime.jobs import Job, Jobs
from rightsizer.runtime.log import configure
from rightsizer.runtime.notify import Notifier
from rightsizer.runtime.service import stop_on_signals
from rightsizer.runtime.sinks import sinks_of
from rightsizer.runtime.storage import Storage

__all__ = ["FleetService", "serve_fleet"]

_LOOK: Final = "fleet"
_DELIVER_SECONDS: Final = 60.0
_TURN_SECONDS: Final = 20.0


class FleetService:
    """Everything that runs, wired. `stop` ends it; it never ends for a store that is away."""

    def __init__(
        self, settings: WholeSettings, judge: FleetJudge, storage: Storage, clock: Clock
    ) -> None:
        """A service that does not listen yet.

        Args:
            settings: Everything that an operator may set.
            judge: Looks at the estate.
            storage: Keeps the ledger and what waits to be told.
            clock: The service's.
        """
        self._settings, self._judge, self._clock = settings, judge, clock
        self._stopping = threading.Event()
        self._started, self._generation = clock.wall_time(), 0
        self._used = StoreUse()
        self._log = structlog.get_logger(component="fleet")
        self._sinks = sinks_of(
            settings,
            storage,
            lambda: self.desk.advice,
            clock=clock,
            tell=lambda event, message: self._log.warning(event, message=message),
            sleep=self._stopping.wait,
        )
        sinks = tuple(Unrepeated(sink, judge) for sink in self._sinks.all)
        ledger = storage.ledger(settings.recommender.ledger)
        self.desk = AdviceDesk(judge, ledger, storage, sinks, clock)
        self.trouble: str | None = None
        """Why the last look failed."""
        self._answer: FleetAnswer | None = None
        self._jobs = Jobs(
            (
                Job(_LOOK, self.look, settings.fleet.interval_seconds),
                Job("annotate", self.desk.deliver, _DELIVER_SECONDS),
            ),
            clock,
        )
        self._report = self._new_report()
        self.server = self._new_server()

    def look(self) -> None:
        """Look once, and put up what was found; the last answer stays where that fails.

        Raises:
            RightsizerError: the store does not answer, or the ledger cannot be written.
        """
        try:
            self.desk.recommend()
        except RightsizerError as error:
            self.trouble = str(error)
            raise
        else:
            self.trouble = None
            self._answer = replace(self._judge.answer, advice=self.desk.advice)
            self._used += self._judge.answer.use
        finally:
            self._generation += 1
            self._report = self._new_report()

    def run(self, stop: threading.Event) -> None:
        """Listen, look at once and then at intervals, until `stop` is set.

        Raises:
            RightsizerError: an address cannot be bound.
        """
        self.server.start()
        self._jobs.start()
        self._log.info("fleet_started", addresses=",".join(self.server.addresses))
        try:
            first = threading.Thread(target=self._jobs.run, args=(_LOOK,), daemon=True)
            first.start()
            while not stop.wait(_TURN_SECONDS):
                self._jobs.supervise()
                self._report = self._new_report()
        finally:
            self._stopping.set()
            self._jobs.stop()
            self.server.stop()

    def _new_server(self) -> WebServer:
        web = self._settings.web
        routes = FleetRoutes(
            lambda: self._answer,
            lambda: self.trouble,
            lambda: self._settings.fleet.interval_seconds,
            self._clock.wall_time,
        )
        return WebServer(
            web.listen_addresses,
            latest=lambda: self._report,
            exposition=Exposition(
                lambda: self._report, web.metrics, wall_time=self._clock.wall_time
            ),
            settings=web.server,
            wall_time=self._clock.wall_time,
            local_socket=self._settings.path.api_socket,
            local_routes=(
                *routes.routes,
                *AdviceRoutes(self.desk, self._settings.recommender.rules).routes,
            ),
            access=open_door(self._settings, self._clock.wall_time).access,
        )

    def _new_report(self) -> Report:
        return Report(
            generation=self._generation,
            wall_time=self._clock.wall_time(),
            devices=(),
            advice=self.desk.advice,
            agent=AgentReport(
                version=__version__,
                source="fleet",
                started=self._started,
                interval_seconds=self._settings.fleet.interval_seconds,
                jobs=self._jobs.reports(),
                trouble=self.trouble,
                counters=self._counters(),
                gauges=({} if self._answer is None else fleet_gauges(self._answer))
                | self._sinks.gauges(),
            ),
        )

    def _counters(self) -> dict[str, float]:
        outcomes = {
            series_key("rightsizer_advice_outcomes_total", reason=reason, outcome=outcome): count
            for (reason, outcome), count in self.desk.outcomes.items()
        }
        used = {metric: float(getattr(self._used, name)) for name, metric in USED.items()}
        return {**outcomes, **used, **self._sinks.counters()}


def serve_fleet(settings: WholeSettings) -> None:
    """Run until SIGTERM or SIGINT.

    Raises:
        RightsizerError: it cannot start: no store is named, an address or a file is out of reach.
    """
    log, clock = settings.log, SystemClock()
    configure(log.format, log.level, repeat_interval_seconds=log.repeat_interval)
    notifier = Notifier(os.environ)
    with FleetJudge.open(settings, clock) as judge:
        storage = Storage(str(judge.ledger_path))
        try:
            service = FleetService(settings, judge, storage, clock)
            stop = stop_on_signals()
            notifier.ready()
            service.run(stop)
        finally:
            notifier.stopping()
            storage.close()
