"""The heartbeat: one snapshot a tick, on a steady clock, whatever the driver does.

The coordinator never calls the driver; its source answers within a deadline.
"""

import threading
from collections.abc import Callable
from typing import Final

import structlog

from rightsizer.io.clock import Clock
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.telemetry.source import SnapshotSource

_COMPLAIN_EVERY: Final = 60 * NANOSECONDS_PER_SECOND


class Coordinator:
    """Ticks until it is stopped or its source has no more."""

    def __init__(
        self,
        source: SnapshotSource,
        clock: Clock,
        interval: Nanoseconds,
        on_snapshot: Callable[[Snapshot], None],
    ) -> None:
        self._source = source
        self._clock = clock
        self._interval = interval
        self._on_snapshot = on_snapshot
        self._log = structlog.get_logger(component="coordinator")
        self._complained: Nanoseconds | None = None
        self.failed_ticks = 0
        """Ticks that gave no snapshot, or whose snapshot could not be accounted for."""
        self.samples = 0
        self.late_samples = 0
        """Samples that came more than an interval after they were due."""

    def run(self, stop: threading.Event) -> None:
        """Tick; ticks that a slow one has overrun are left out, not made up for."""
        due = self._clock.time()
        while not stop.is_set():
            if not self._tick():
                return
            due += self._interval
            late = self._clock.time() - due
            if late > 0:
                self.late_samples += 1
                due += late - late % self._interval + self._interval
            if self._clock.wait_until(due, stop):
                return

    def _tick(self) -> bool:
        try:
            snapshot = self._source.read()
            if snapshot is None:
                return False
            self.samples += 1
            self._on_snapshot(snapshot)
        except Exception:  # noqa: BLE001 - nothing that a tick meets may end the agent.
            self.failed_ticks += 1
            self._complain()
        return True

    def _complain(self) -> None:
        """Say what went wrong, at most once a minute; every tick would say the same."""
        now = self._clock.time()
        if self._complained is None or now - self._complained >= _COMPLAIN_EVERY:
            self._complained = now
            self._log.exception("tick_failed", failed_ticks=self.failed_ticks)
