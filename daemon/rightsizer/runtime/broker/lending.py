"""The broker of a running agent: opened with it, a thread of its own, closed with it."""

import platform
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import structlog

from rightsizer.domain.report import Report
from rightsizer.domain.units import Nanoseconds
from rightsizer.edge.clock import Clock
from rightsizer.placement.booking_plan import about
from rightsizer.placement.broker import Broker, Step
from rightsizer.placement.broker_event import BrokerEvent
from rightsizer.placement.broker_state import BrokerState
from rightsizer.placement.lease_record import FoundLease
from rightsizer.publish.freshness import FreshnessSettings
from rightsizer.publish.web.routes import Route
from rightsizer.runtime.broker.desk import Desk
from rightsizer.runtime.broker.eyes import NodeEyes
from rightsizer.runtime.broker.identity import name_of
from rightsizer.runtime.broker.marker import found_leases
from rightsizer.runtime.broker.notice import TOLD_TO_WEBHOOKS, notice_of
from rightsizer.runtime.broker.process_table import ProcessTable
from rightsizer.runtime.broker.routes import BrokerRoutes, Office
from rightsizer.runtime.broker.store import BrokerStore, SavedClock
from rightsizer.runtime.broker.watcher import Watcher
from rightsizer.runtime.placing import Given
from rightsizer.runtime.settings import Settings
from rightsizer.telemetry.host.text import words

__all__ = ["Lending"]

_STOP_SECONDS: Final = 5.0


class Lending:
    """Desk, eyes and routes, wired."""

    def __init__(
        self,
        settings: Settings,
        latest: Callable[[], Report | None],
        freshness: FreshnessSettings,
        clock: Clock,
        notify: Callable[[str], None] = lambda _: None,
    ) -> None:
        """A broker that goes on where the last one stopped.

        Args:
            settings: Of the whole agent.
            latest: Gives the last report, `None` before the first.
            freshness: When a reading is stale.
            clock: CLOCK_BOOTTIME and the wall's.
            notify: Sends JSON to webhooks.

        Raises:
            HistoryError: another process writes the file, a newer program wrote it, or the place
                cannot be written.
        """
        self._settings = settings
        self._interval_seconds = settings.sampling.interval
        self._clock = clock
        self._log = structlog.get_logger(component="broker")
        procfs = Path(settings.path.procfs)
        self._table = ProcessTable(procfs)
        self._watcher = Watcher(self._table, settings.broker.processes_maximum)
        self._eyes = NodeEyes(
            latest,
            self._watcher,
            lambda: self._settings,
            freshness,
            clock,
        )
        self._store = BrokerStore(Path(settings.broker.path))
        try:
            begun = self._begun(words(f"{procfs}/sys/kernel/random/boot_id"))
            self.desk = Desk(self._broker(), begun.state, self._store, clock, self._eyes)
            self.desk.begin(begun)
        except BaseException:
            self._store.close()
            raise
        self._notify = notify
        self.desk.listen(self._tell_webhooks)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="broker", daemon=True)

    @property
    def routes(self) -> tuple[Route, ...]:
        """What is served over the local socket."""
        office = Office(self.desk, self._table, self._clock, lambda: self._settings.broker)
        return BrokerRoutes(office).routes

    def given(self) -> Given:
        """What is lent at present, and kept free."""
        state, now = self.desk.standing.state, self._clock.time()
        reserved = {
            uuid for each in state.bookings if each.reservation.starts <= now for uuid in each.uuids
        }
        return Given(
            state.leased(), reserved, self._eyes.leased_pids(state), _kept_later(state, now)
        )

    def counters(self) -> dict[str, float]:
        """Since the agent started, by the names of metrics."""
        return self.desk.tally.counters()

    def gauges(self) -> dict[str, float]:
        """As it stands, by the names of metrics."""
        return self.desk.tally.gauges(self.desk.standing.state)

    def follow(self, settings: Settings) -> None:
        """Go by other settings from now on."""
        self._settings = settings
        self._watcher.maximum = settings.broker.processes_maximum
        self.desk.follow(self._broker())

    def start(self) -> None:
        """Serve the queue from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Save and close; leases go on without the agent."""
        self._stop.set()
        self.desk.woken.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)
        self.desk.close()

    def _serve(self) -> None:
        while not self._stop.is_set():
            try:
                self.desk.turn()
            except Exception:  # noqa: BLE001 - leases stay as they are; the next look may go better.
                self._log.exception("broker_failed")
                self._stop.wait(self._interval_seconds)
            self.desk.woken.wait(self._interval_seconds)

    def _tell_webhooks(self, event: BrokerEvent) -> None:
        if self._settings.broker.tell_webhooks and event.kind in TOLD_TO_WEBHOOKS:
            self._notify(notice_of(event, self._clock.wall_time(), platform.node()))

    def _broker(self) -> Broker:
        return Broker(self._settings.broker, self._settings.placement)

    def _begun(self, boot: str) -> Step:
        """The state to go on with; what is not known of leases by it, their processes tell."""
        if self._store.set_aside is not None:
            self._log.error("broker_set_aside", moved_to=str(self._store.set_aside))
        now, saved = self._clock.time(), self._store.load()
        if saved is None:
            return Step(BrokerState.rebuilt(boot, now, self._found()))
        step = self._broker().after_restart(saved, now, boot, self._shift(saved, boot, now))
        if not self._store.unread:
            return step
        state = step.state.joined_by(self._found())
        return Step(state, step.events)

    def _found(self) -> Iterator[FoundLease]:
        socket = Path(self._settings.path.api_socket).resolve()
        return found_leases(self._table, name_of, str(socket))

    def _shift(self, saved: BrokerState, boot: str, now: Nanoseconds) -> Nanoseconds | None:
        clock = self._store.clock
        if clock is None or saved.boot == boot:
            return None
        return clock.shift_to(SavedClock(boot, now, self._clock.wall_time()))


def _kept_later(state: BrokerState, now: Nanoseconds) -> Mapping[str, str]:
    """By the uuid of each seat the first reservation to begin there, as a clause."""
    later = sorted(
        (each for each in state.bookings if each.reservation.starts > now),
        key=lambda each: (-each.reservation.starts, each.id),
    )
    return {
        uuid: f"reservation {each.id} of {each.reservation.user}, which begins in "
        f"{about(each.reservation.starts - now)}"
        for each in later
        for uuid in each.uuids
    }
