"""Fleet recommender as a service: periodic looks, `/metrics`, page, API, annotations."""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from rightsizer import __version__
from rightsizer.advice.storage import Storage
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.fleet.api import FleetApi
from rightsizer.fleet.encoder import USED, FleetAnswer, fleet_gauges
from rightsizer.fleet.judge import FleetJudge
from rightsizer.fleet.ledger import loss_of, opened_ledger
from rightsizer.fleet.run import advice_service
from rightsizer.fleet.settings import FleetConfig, rule_trees
from rightsizer.fleet.source import StoreUse
from rightsizer.io.clock import Clock, SystemClock
from rightsizer.io.jobs import Job, Jobs
from rightsizer.io.log import configure, logger
from rightsizer.io.log_queue import drain_standard_error
from rightsizer.io.shutdown import ended_by_signals
from rightsizer.io.systemd import Notifier
from rightsizer.io.thread import DaemonThread
from rightsizer.model.values import (
    Advice,
    AdviceState,
    AgentReport,
    Report,
    RightsizerError,
    format_duration,
    nanoseconds,
    seconds,
)
from rightsizer.web.advice_api import AdviceApi
from rightsizer.web.plan_route import plan_route
from rightsizer.web.server import WebServer, configured_access

_LOOK: Final = "fleet"
_DELIVER_SECONDS: Final = 60.0
_TURN_SECONDS: Final = 20.0
_HANG: Final = nanoseconds(120.0)
"""Six turns, none of which waits for the store. Source: assumed."""
_NO_NOTIFIER: Final = Notifier({})


class FleetService:
    """All parts of the service. It keeps running while a store is unavailable."""

    def __init__(  # noqa: PLR0913 - each is a part of the outside world.
        self,
        settings: FleetConfig,
        judge: FleetJudge,
        storage: Storage,
        clock: Clock,
        notifier: Notifier = _NO_NOTIFIER,
        *,
        config_file: Path | None = None,
    ) -> None:
        self._settings = settings
        self._judge = judge
        self._clock = clock
        self._notifier = notifier
        self._stopping = threading.Event()
        self._config_file = config_file
        self._started = clock.wall_time()
        self._generation = 0
        self._turned = clock.time()
        self._looking = threading.Lock()
        self._used = StoreUse()
        self._log = logger("fleet")
        self.advice_service, self._notifications = advice_service(
            judge,
            settings,
            storage,
            clock,
            lambda event, message: self._log.warning(event, message=message),
            self._stopping.wait,
        )
        self.part = "start"
        """What runs on the thread that serves and closes."""
        self.trouble: str | None = None
        """Why the last look failed."""
        self._found: FleetAnswer | None = None
        self._jobs = Jobs(
            (
                Job(_LOOK, self.look, settings.fleet.interval_seconds),
                Job("annotate", self.advice_service.deliver, _DELIVER_SECONDS),
            ),
            clock,
        )
        self._report = self._new_report()
        self.server = self._new_server()

    @property
    def advice(self) -> tuple[Advice, ...]:
        """Advice of the ledger, with decisions since the last look."""
        return self.advice_service.advice

    @property
    def answer(self) -> FleetAnswer | None:
        """Result of the last successful look, `None` before the first."""
        fleet_answer = self._found
        return None if fleet_answer is None else replace(fleet_answer, advice=self.advice)

    @property
    def is_looking(self) -> bool:
        """Whether a look is running."""
        return self._looking.locked()

    def look(self) -> None:
        """Look once, and publish the answer; on failure the last answer stays.

        One look at a time: a look due during another is skipped.

        Raises:
            RightsizerError: the store does not answer, or the ledger cannot be written.
        """
        if not self._looking.acquire(blocking=False):
            return
        try:
            self.advice_service.recommend()
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

    def hang(self) -> str | None:
        """How long no turn of the loop has ended, if too long; a look is not part of one."""
        since = self._clock.time() - self._turned
        if since <= _HANG:
            return None
        return f"hangs: no turn of its loop has ended for {format_duration(seconds(since))}"

    def act(
        self, advice_id: str, state: AdviceState, actor: str, why: str, for_seconds: float | None
    ) -> Advice:
        """Change the state of advice manually; metrics show it at once.

        Raises:
            UsageError: there is no such open advice.
        """
        advice = self.advice_service.act(advice_id, state, actor, why, for_seconds)
        self._refresh()
        return advice

    def run(self, stop: threading.Event) -> None:
        """Listen, look at once and then periodically, until `stop` is set.

        Raises:
            RightsizerError: an address cannot be bound.
        """

        def look_first() -> None:
            # At once, since the first turn of a job comes after a whole interval.
            self._jobs.run(_LOOK)
            self._refresh()

        self.part = "service"
        with ExitStack() as running:
            running.callback(self.server.stop)
            self.server.start()
            running.callback(self._jobs.stop)
            self._jobs.start()
            running.callback(self._log_stopping)
            self._log.info("fleet_started", addresses=",".join(self.server.addresses))
            self._notifier.ready()
            DaemonThread("first-look", look_first).start()
            watchdog = self._notifier.watchdog_interval
            turn_seconds = min(_TURN_SECONDS, seconds(watchdog) if watchdog else _TURN_SECONDS)
            while not stop.wait(turn_seconds):
                self._notifier.watchdog()
                self._jobs.supervise()
                self._refresh()
                self._turned = self._clock.time()
        self.part = "ledger"

    def _log_stopping(self) -> None:
        self.part = "jobs and server"
        self._stopping.set()
        self._notifier.stopping()
        self._log.info("fleet_stopped", is_looking=self.is_looking)

    def _new_server(self) -> WebServer:
        web = self._settings.web
        fleet = self._settings.fleet
        wall_time = self._clock.wall_time
        api = FleetApi(
            lambda: self.answer,
            lambda: self.trouble,
            fleet.interval_seconds,
            wall_time,
            has_plan_form=web.server.plan_form,
        )
        return WebServer(
            web.listen_addresses,
            latest=lambda: self._report,
            exposition=MetricsExposition(self._exported, web.metrics, wall_time=wall_time),
            settings=web.server,
            wall_time=wall_time,
            local_socket=fleet.api_socket,
            local_routes=(
                *api.routes,
                *AdviceApi(self, rule_trees(self._settings)).routes,
                plan_route(self._config_file, web.server),
            ),
            access=configured_access(web, wall_time),
            hang=self.hang,
        )

    def _exported(self) -> Report:
        """Return the report for a scrape, without advice already exported by node agents."""
        ids = self._judge.node_advice_ids
        report = self._report
        return replace(
            report,
            advice=tuple(open_advice for open_advice in report.advice if open_advice.id not in ids),
        )

    def _refresh(self) -> None:
        self._generation += 1
        self._report = self._new_report()
        open_count = sum(open_advice.is_open for open_advice in self.advice)
        self._notifier.status(self.trouble or f"{open_count} recommendations are open")

    def _new_report(self) -> Report:
        fleet_answer = self._found
        limit = self._settings.fleet.exported_maximum
        gauges = {} if fleet_answer is None else fleet_gauges(fleet_answer, limit)
        used = {metric: float(getattr(self._used, name)) for name, metric in USED.items()}
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
                metrics={
                    **gauges,
                    **used,
                    **self.advice_service.metrics(),
                    **self._notifications.metrics(),
                },
            ),
        )


def serve_fleet(
    settings: FleetConfig, config_file: Path | None = None, parts: Sequence[Path] = ()
) -> None:
    """Run until SIGTERM or SIGINT; SIGHUP only logs a message.

    The planner behind the form at /plan reads `config_file`; `parts` are the caches of shards.

    Raises:
        RightsizerError: it cannot start: no store is named, or an address or file is inaccessible.
    """
    log = settings.log
    clock = SystemClock()
    configure(log.format, log.level, repeat_interval_seconds=log.repeat_interval)
    notifier = Notifier(os.environ)
    remedy = "restart it to read its files again; what it read is kept"
    warn = logger("fleet").warning
    signal.signal(signal.SIGHUP, lambda *_: warn("reload_unsupported", message=remedy))
    service: FleetService | None = None
    with (
        ended_by_signals(lambda: "start" if service is None else service.part) as stop,
        FleetJudge(settings, clock, parts=parts, config_file=config_file, learns=True) as judge,
        closing(opened_ledger(judge.ledger_path)) as storage,
    ):
        service = FleetService(settings, judge, storage, clock, notifier, config_file=config_file)
        for sentence in loss_of(storage):
            warn("ledger_lost", message=sentence)
        service.run(stop)
        if service.is_looking:
            # State is saved; processes still reading or judging exit with this one.
            sys.stdout.flush()
            drain_standard_error()
            os._exit(0)
