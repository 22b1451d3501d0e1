"""The coordinator: one snapshot a tick, and the service manager's watchdog."""

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import rightsizer
from rightsizer.io.clock import Clock
from rightsizer.io.log import logger
from rightsizer.io.systemd import Notifier
from rightsizer.io.thread import outlive_shortages
from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    Nanoseconds,
    Report,
    Snapshot,
    format_duration,
    nanoseconds,
    seconds,
    series_key,
)
from rightsizer.telemetry.source import SnapshotSource

_STATUS_EVERY: Final = nanoseconds(60.0)
_COMPLAIN_EVERY: Final = 60 * NANOSECONDS_PER_SECOND
_HANG: Final = 120 * NANOSECONDS_PER_SECOND
"""Source: twice the longest deadline that `sources.nvml.deadline` admits."""


class Heartbeat:
    """Notifies systemd: ready once, watchdog, and a status line each minute."""

    def __init__(self, notifier: Notifier, clock: Clock) -> None:
        self._notifier = notifier
        self._clock = clock
        self._watchdog_due = self._status_due = 0
        self._is_ready = False

    def notify(self, report: Report) -> bool:
        """Send the notifications that are due; return whether the status was among them."""
        now = self._clock.time()
        if not self._is_ready:
            self._is_ready = self._notifier.ready() or True
        interval = self._notifier.watchdog_interval
        if interval is not None and now >= self._watchdog_due:
            self._notifier.watchdog()
            self._watchdog_due = now + interval
        if now < self._status_due:
            return False
        open_advice = sum(advice.is_open for advice in report.advice)
        self._notifier.status(f"Devices sampled: {len(report.devices)}; open advice: {open_advice}")
        self._status_due = now + _STATUS_EVERY
        return True


class InstalledPackage:
    """Files of this program, which an upgrade may replace while the agent runs."""

    def __init__(self, file: Path = Path(rightsizer.__file__)) -> None:
        """Remember the installed `file`, which every upgrade writes again."""
        self._file = file
        self._loaded = self._installed()

    def check(self) -> None:
        """Log once that other files are there: parts that are loaded later may not fit."""
        if (installed := self._installed()) != self._loaded:
            self._loaded = installed
            logger("agent").warning(
                "package_replaced",
                remedy="restart the agent: it still runs the former version, and the page or "
                "features that it loads from now on may fail",
            )

    def _installed(self) -> tuple[int, int] | None:
        try:
            status = self._file.stat()
        except OSError:
            return None
        return status.st_ino, status.st_mtime_ns


def driver_metrics(snapshot: Snapshot) -> dict[str, float]:
    """Abandoned workers, and devices and collectors that a slow driver delays."""
    metrics = {"rightsizer_workers_abandoned": float(snapshot.abandoned_workers)}
    for device in snapshot.devices:
        if device.mig is None:
            key = series_key("rightsizer_device_slow", uuid=device.uuid)
            metrics[key] = float(device.uuid in snapshot.slow)
    for uuid, of in snapshot.slow.items():
        key = series_key("rightsizer_device_round_duration_seconds", uuid=uuid)
        metrics[key] = of.round_seconds
    postponed = Counter(name for of in snapshot.slow.values() for name in of.postponed)
    for name, count in postponed.items():
        key = series_key("rightsizer_collector_postponed_devices", collector=name)
        metrics[key] = float(count)
    return metrics


class Coordinator:
    """Ticks until it is stopped or its source ends."""

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
        self._log = logger("coordinator")
        self._complained: Nanoseconds | None = None
        self._ticked = clock.time()
        self.failed_ticks = 0
        """Ticks without a snapshot, or whose snapshot could not be accounted for."""
        self.samples = 0
        self.late_samples = 0
        """Samples taken more than an interval after they were due."""

    def metrics(self) -> dict[str, float]:
        """Samples taken, failed and late since the start."""
        return {
            "rightsizer_samples_total": float(self.samples),
            "rightsizer_samples_failed_total": float(self.failed_ticks),
            "rightsizer_samples_late_total": float(self.late_samples),
        }

    def hang(self) -> str | None:
        """How long no tick has ended, if too long; whatever the driver does, each soon ends."""
        since = self._clock.time() - self._ticked
        if since <= _HANG + self._interval:
            return None
        return f"hangs: no tick has ended for {format_duration(seconds(since))}"

    def run(self, stop: threading.Event) -> None:
        """Tick once an interval; skip ticks missed during a slow one."""
        outlive_shortages(lambda: self._run(stop))

    def _run(self, stop: threading.Event) -> None:
        due = self._clock.time()
        while not stop.is_set() and self._tick():
            self._ticked = self._clock.time()
            due += self._interval
            if (late := self._clock.time() - due) > 0:
                self.late_samples += 1
                due += late - late % self._interval + self._interval
            if self._clock.wait_until(due, stop):
                return

    def _tick(self) -> bool:
        try:
            if (snapshot := self._source.read()) is None:
                return False
            self.samples += 1
            self._on_snapshot(snapshot)
        except Exception:  # noqa: BLE001 - no failure of a tick may end the agent.
            self.failed_ticks += 1
            now = self._clock.time()
            # Rate-limited: every tick would log the same.
            if self._complained is None or now - self._complained >= _COMPLAIN_EVERY:
                self._complained = now
                self._log.exception("tick_failed", failed_ticks=self.failed_ticks)
        return True
