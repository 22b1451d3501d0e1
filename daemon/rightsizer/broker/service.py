"""Broker service of a running agent: lease manager, observer, API, webhook notices, one thread."""

import json
import platform
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import structlog

from rightsizer.broker.api import BrokerApi, BrokerApiContext
from rightsizer.broker.broker import Broker
from rightsizer.broker.environment_tag import found_leases
from rightsizer.broker.lease import BrokerEvent, EventKind, RecoveredLease
from rightsizer.broker.lease_manager import LeaseManager
from rightsizer.broker.observer import ProcfsNodeObserver
from rightsizer.broker.placement import LeasedSlots
from rightsizer.broker.process_tracker import ProcessTracker
from rightsizer.broker.repository import BrokerRepository, SavedClock
from rightsizer.broker.reservations import approximate_duration
from rightsizer.broker.settings import BrokerFeatureSettings
from rightsizer.broker.state import BrokerState
from rightsizer.broker.transitions import BrokerTransition
from rightsizer.host.files import read_line
from rightsizer.host.process_table import ProcessTable, user_name
from rightsizer.io.clock import Clock
from rightsizer.model.report import Report
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.web.router import Route

TOLD_TO_WEBHOOKS: Final = frozenset(
    {EventKind.IDLE, EventKind.OVER_MEMORY, EventKind.TIME_UP, EventKind.AT_RISK}
)
_VERSION: Final = 1
"""As that of a change of advice: grows when a key changes its meaning or goes."""


def notice_body(event: BrokerEvent, now: Nanoseconds, node: str) -> str:
    """The body; `event` begins with `broker_`, so that it is told from a change of advice.

    Args:
        event: What happened.
        now: Wall time.
        node: What the machine is called.
    """
    return json.dumps(
        {
            "version": _VERSION,
            "event": f"broker_{event.kind}",
            "delivery": f"{event.id}-{event.kind}-{event.at}",
            "time": seconds(now),
            "node": node,
            "id": event.id,
            "user": event.user,
            "message": event.message,
        },
        separators=(",", ":"),
    )


_STOP_SECONDS: Final = 5.0


class BrokerService:
    """Desk, eyes and routes, wired."""

    def __init__(
        self,
        settings: BrokerFeatureSettings,
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
        self._watcher = ProcessTracker(self._table, settings.broker.processes_maximum)
        self._eyes = ProcfsNodeObserver(
            latest,
            self._watcher,
            lambda: self._settings,
            freshness,
            clock,
        )
        self._store = BrokerRepository(Path(settings.broker.path))
        try:
            begun = self._begun(read_line(f"{procfs}/sys/kernel/random/boot_id"))
            self.desk = LeaseManager(self._broker(), begun.state, self._store, clock, self._eyes)
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
        office = BrokerApiContext(
            self.desk, self._table, self._clock, lambda: self._settings.broker
        )
        return BrokerApi(office).routes

    def given(self) -> LeasedSlots:
        """What is lent at present, and kept free."""
        state, now = self.desk.standing.state, self._clock.time()
        reserved = {
            uuid for each in state.bookings if each.reservation.starts <= now for uuid in each.uuids
        }
        return LeasedSlots(
            state.leased(), reserved, self._eyes.leased_pids(state), _kept_later(state, now)
        )

    def counters(self) -> dict[str, float]:
        """Since the agent started, by the names of metrics."""
        return self.desk.tally.counters()

    def gauges(self) -> dict[str, float]:
        """As it stands, by the names of metrics."""
        return self.desk.tally.gauges(self.desk.standing.state)

    def follow(self, settings: BrokerFeatureSettings) -> None:
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
            self._notify(notice_body(event, self._clock.wall_time(), platform.node()))

    def _broker(self) -> Broker:
        return Broker(self._settings.broker, self._settings.placement)

    def _begun(self, boot: str) -> BrokerTransition:
        """The state to go on with; what is not known of leases by it, their processes tell."""
        if self._store.set_aside is not None:
            self._log.error("broker_set_aside", moved_to=str(self._store.set_aside))
        now, saved = self._clock.time(), self._store.load()
        if saved is None:
            return BrokerTransition(BrokerState.rebuilt(boot, now, self._found()))
        step = self._broker().after_restart(saved, now, boot, self._shift(saved, boot, now))
        if not self._store.unread:
            return step
        state = step.state.joined_by(self._found())
        return BrokerTransition(state, step.events)

    def _found(self) -> Iterator[RecoveredLease]:
        socket = Path(self._settings.path.api_socket).resolve()
        return found_leases(self._table, user_name, str(socket))

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
        f"{approximate_duration(each.reservation.starts - now)}"
        for each in later
        for uuid in each.uuids
    }
