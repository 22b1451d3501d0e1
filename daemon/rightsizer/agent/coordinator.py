"""The coordinator: one snapshot a tick, the service manager's watchdog, log of the source."""

import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from rightsizer.io.clock import Clock
from rightsizer.io.systemd import Notifier
from rightsizer.model.metric_family import series_key
from rightsizer.model.report import Report
from rightsizer.model.snapshot import Slow, Snapshot
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds
from rightsizer.telemetry.source import SnapshotSource

_STATUS_EVERY: Final = nanoseconds(60.0)


class Heartbeat:
    """Tells that the agent is ready, that it lives, and each minute what it sees."""

    def __init__(self, notifier: Notifier, clock: Clock) -> None:
        self._notifier, self._clock = notifier, clock
        self._watchdog_due = self._status_due = 0
        self._is_ready = False

    def beat(self, report: Report) -> bool:
        """Tell what is due after a sample; whether the minute's status was."""
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


_TELL_AFTER: Final[Nanoseconds] = 30 * NANOSECONDS_PER_SECOND
"""GPUs become slow one after another; by then it shows which, and what is put off."""
_TELL_EVERY: Final[Nanoseconds] = 600 * NANOSECONDS_PER_SECOND
_REMEDY: Final = (
    "readings come at the pace that the driver allows; see what else keeps it busy, or switch "
    "what it is slow at off in sources.nvml.disabled_collectors"
)


class SlowDriverLog:
    """Says so in the log when GPUs become slow, when more is affected, and when none is."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        """Nothing was said."""
        self._log = log
        self._told: set[tuple[str, str]] = set()
        self._tell_at: Nanoseconds | None = None

    def tell(self, snapshot: Snapshot) -> None:
        """Say what is new since the last time; further GPUs and collectors now and then."""
        slow = snapshot.slow
        if not slow:
            if self._told:
                self._log.info("driver_recovered", pace="normal")
            self._told.clear()
            self._tell_at = None
            return
        if self._tell_at is None:
            self._tell_at = snapshot.time + _TELL_AFTER
        found = {(uuid, name) for uuid, of in slow.items() for name in ("", *of.postponed)}
        if found <= self._told or snapshot.time < self._tell_at:
            return
        self._told |= found
        self._tell_at = snapshot.time + _TELL_EVERY
        postponed = sorted({name for of in slow.values() for name in of.postponed})
        self._log.warning(
            "driver_slow",
            gpus=",".join(str(each.index) for each in snapshot.devices if each.uuid in slow),
            longest_round_seconds=round(max(of.round_seconds for of in slow.values()), 1),
            asked_less_often=",".join(postponed),
            remedy=_REMEDY,
        )


def slow_driver_gauges(snapshot: Snapshot) -> dict[str, float]:
    """The gauges of a driver that is slow, by series; nothing of a source without a driver."""
    slow: Mapping[str, Slow] = snapshot.slow
    postponed = Counter(name for of in slow.values() for name in of.postponed)
    return {
        **{
            series_key("rightsizer_device_slow", uuid=device.uuid): float(device.uuid in slow)
            for device in snapshot.devices
            if device.mig is None
        },
        **{
            series_key("rightsizer_device_round_duration_seconds", uuid=uuid): of.round_seconds
            for uuid, of in slow.items()
        },
        **{
            series_key("rightsizer_collector_postponed_devices", collector=name): float(count)
            for name, count in postponed.items()
        },
    }


_FIGURE: Final = re.compile(r"\d[\d.]*")
"""How long a call has hung is another number each time, and no other trouble."""


class SourceLog:
    """Knows what was said last."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log
        self._troubles: dict[str, Nanoseconds] = {}
        self._trouble: str | None = None
        self._released: str | None = None
        self._slow = SlowDriverLog(log)

    def tell(self, snapshot: Snapshot) -> None:
        """Say what has changed since the last snapshot."""
        self._tell_released(snapshot.released)
        self._tell_trouble(snapshot.trouble, snapshot.time)
        self._slow.tell(snapshot)

    def _tell_released(self, released: str | None) -> None:
        """What was let go on request, and that it was taken back."""
        if released != self._released:
            if released is not None:
                self._log.info("released", what=released)
            else:
                self._log.info("resumed")
            self._released = released

    def _tell_trouble(self, trouble: str | None, now: Nanoseconds) -> None:
        """That there are no devices and why, and that there are again.

        A driver that hangs here and there has the same reasons in turns: each is told now and then.
        """
        told = None if trouble is None else _FIGURE.sub("", trouble)
        if told != self._trouble:
            self._trouble = told
            if told is None:
                self._log.info("devices_found")
                self._troubles.clear()
            elif now >= self._troubles.get(told, now):
                self._log.warning("devices_absent", reason=trouble)
                self._troubles[told] = now + _TELL_EVERY


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
