"""What the service manager hears of the agent as it samples."""

from typing import Final

from rightsizer.agent.notify import Notifier
from rightsizer.io.clock import Clock
from rightsizer.model.report import Report
from rightsizer.model.units import nanoseconds

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
