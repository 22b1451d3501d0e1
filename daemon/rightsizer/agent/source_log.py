"""What the log says of the source of readings: each change once."""

import re
from typing import Final

from structlog.typing import FilteringBoundLogger

from rightsizer.agent.slow_driver import SlowDriverLog
from rightsizer.model.snapshot import Snapshot
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds

_TELL_EVERY: Final[Nanoseconds] = 600 * NANOSECONDS_PER_SECOND
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
