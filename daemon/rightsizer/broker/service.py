"""Broker service of a running agent: lease manager, observer, API, webhook notices, one thread."""

import platform
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from rightsizer.broker.api import BrokerApi
from rightsizer.broker.broker import Broker
from rightsizer.broker.launch import found_leases
from rightsizer.broker.lease import HOLDER_NOTICES, BrokerEvent, EventKind, Lease
from rightsizer.broker.lease_manager import LeaseManager
from rightsizer.broker.observer import ProcfsNodeObserver
from rightsizer.broker.placement import LeasedSlots
from rightsizer.broker.process_tracker import ProcessTracker
from rightsizer.broker.repository import BrokerRepository, SavedClock
from rightsizer.broker.reservations import approximate_duration
from rightsizer.broker.settings import BrokerFeatureSettings
from rightsizer.broker.state import BrokerState, ShareUsage
from rightsizer.broker.transitions import BrokerTransition
from rightsizer.host.files import boot_id
from rightsizer.host.process_table import ProcessTable, user_name
from rightsizer.io.clock import Clock
from rightsizer.io.codec import encode
from rightsizer.io.jobs import Job
from rightsizer.io.log import logger
from rightsizer.io.thread import DaemonThread, outlive_shortages
from rightsizer.model.values import Nanoseconds, Report, seconds
from rightsizer.report.freshness import FreshnessSettings
from rightsizer.web.router import Route

_WEBHOOK_KINDS: Final = HOLDER_NOTICES | {EventKind.AT_RISK}
_VERSION: Final = 1
"""Same rules as for recommendations: incremented when a key changes meaning or is removed."""
_STOP_SECONDS: Final = 5.0


def notice_body(event: BrokerEvent, now: Nanoseconds, node: str) -> str:
    """Webhook body of an event at a wall time on a node.

    The event name begins with `broker_`, unlike those of recommendations.
    """
    return encode(
        {
            "version": _VERSION,
            "event": f"broker_{event.kind}",
            "delivery": f"{event.id}-{event.kind}-{event.at}",
            "time": seconds(now),
            "node": node,
            "id": event.id,
            "user": event.user,
            "message": event.message,
        }
    ).decode()


class BrokerService:
    """Lease manager, observer and routes wired together; continues from the saved state."""

    def __init__(
        self,
        settings: BrokerFeatureSettings,
        latest: Callable[[], Report | None],
        freshness: FreshnessSettings,
        clock: Clock,
        notify: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Load the state, or rebuild it from running processes.

        `latest` returns the last report, `None` before the first; `notify` sends JSON to webhooks.

        Raises:
            HistoryError: the database is locked by another process, of a newer version, or not
                writable.
        """
        self._settings = settings
        self._clock = clock
        self._notify = notify
        self._interval_seconds = settings.sampling.interval
        self._log = logger("broker")
        procfs = Path(settings.path.procfs)
        self._table = ProcessTable(procfs)
        self._tracker = ProcessTracker(self._table, settings.broker.processes_maximum)
        self._observer = ProcfsNodeObserver(
            latest, self._tracker, lambda: self._settings, freshness, clock
        )
        self._repository = BrokerRepository(Path(settings.broker.path))
        try:
            begun = self._begun(boot_id(procfs))
            self.manager = LeaseManager(
                self._broker(), begun.state, self._repository, clock, self._observer
            )
            self.manager.begin(begun)
        except BaseException:
            self._repository.close()
            raise
        self.manager.listener = self._notify_webhooks
        self.metrics = self.manager.metrics
        self.jobs: tuple[Job, ...] = ()
        """None: a thread of its own serves the queue."""
        self._stop = threading.Event()
        self._thread = DaemonThread("broker", outlive_shortages, self._serve)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Routes for the local socket."""
        return BrokerApi(
            self.manager, self._table, self._clock, lambda: self._settings.broker
        ).routes

    def leased(self) -> LeasedSlots:
        """Current leases and reservations."""
        state = self.manager.overview.state
        now = self._clock.time()
        begun = (booking for booking in state.bookings if booking.reservation.starts <= now)
        reserved = {uuid for booking in begun for uuid in booking.uuids}
        pids = self._observer.leased_pids(state)
        return LeasedSlots(state.leased(), reserved, pids, _reserved_later(state, now))

    def change_settings(self, settings: BrokerFeatureSettings) -> None:
        """Apply other settings from now on."""
        self._settings = settings
        self._tracker.maximum = settings.broker.processes_maximum
        self.manager.change_broker(self._broker())

    def start(self) -> None:
        """Start serving the queue."""
        self._thread.start()

    def stop(self) -> None:
        """Save and close; leases continue without the agent."""
        self._stop.set()
        self.manager.woken.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)
        self.manager.close()

    def _serve(self) -> None:
        while not self._stop.is_set():
            try:
                self.manager.turn()
            except Exception:  # noqa: BLE001 - leases are unchanged; the next turn may succeed.
                self._log.exception("broker_failed")
                self._stop.wait(self._interval_seconds)
            self.manager.woken.wait(self._interval_seconds)

    def _notify_webhooks(self, event: BrokerEvent) -> None:
        if self._settings.broker.tell_webhooks and event.kind in _WEBHOOK_KINDS:
            self._notify(notice_body(event, self._clock.wall_time(), platform.node()))

    def _broker(self) -> Broker:
        return Broker(self._settings.broker, self._settings.placement)

    def _begun(self, boot: str) -> BrokerTransition:
        """Initial state; recovers unknown leases from running processes."""
        if self._repository.set_aside is not None:
            self._log.error("broker_set_aside", moved_to=str(self._repository.set_aside))
        now = self._clock.time()
        saved = self._repository.load()
        if saved is None:
            empty = BrokerState(boot, now, usage=ShareUsage(now))
            return BrokerTransition(empty.joined_by(self._recovered()))
        shift = None
        clock = self._repository.clock
        if clock is not None and saved.boot != boot:
            shift = clock.shift_to(SavedClock(boot, now, self._clock.wall_time()))
        step = self._broker().after_restart(saved, now, boot, shift)
        if not self._repository.unread:
            return step
        return BrokerTransition(step.state.joined_by(self._recovered()), step.events)

    def _recovered(self) -> Iterator[Lease]:
        socket = Path(self._settings.path.api_socket).resolve()
        return found_leases(self._table, user_name, str(socket))


def _reserved_later(state: BrokerState, now: Nanoseconds) -> Mapping[str, str]:
    """First future reservation by slot uuid, as a clause."""
    later = sorted(
        (booking for booking in state.bookings if booking.reservation.starts > now),
        key=lambda booking: (-booking.reservation.starts, booking.id),
    )
    return {
        uuid: f"reservation {booking.id} of {booking.reservation.user}, which begins in "
        f"{approximate_duration(booking.reservation.starts - now)}"
        for booking in later
        for uuid in booking.uuids
    }
