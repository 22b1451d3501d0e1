"""When the broker's state is written: at once where it matters, and else now and then."""

from typing import Final

import structlog

from rightsizer.domain.errors import HistoryError
from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.edge.clock import Clock
from rightsizer.placement.broker_state import BrokerState
from rightsizer.runtime.broker.store import BrokerStore, has_new_kin, must_save

__all__ = ["Saving"]

_EVERY: Final = nanoseconds(60.0)
_KIN_EVERY: Final = nanoseconds(5.0)
"""A lease whose processes come and go each second must not write the disk as often."""


class Saving:
    """Writes states of a desk, under its lock."""

    def __init__(self, store: BrokerStore, clock: Clock) -> None:
        """Nothing was written yet."""
        self._store, self._clock = store, clock
        self._saved: Nanoseconds = 0
        self._are_kin_unsaved = False
        self._log = structlog.get_logger(component="broker")

    def save(self, state: BrokerState) -> None:
        """Write a state.

        Raises:
            HistoryError: it cannot be saved.
        """
        now = self._clock.time()
        self._store.save(state, self._clock.wall_time() - (now - state.as_of))
        self._saved, self._are_kin_unsaved = now, False

    def follow(self, before: BrokerState, after: BrokerState) -> None:
        """Write a state where it matters now, or none was written for long.

        Raises:
            HistoryError: it matters and cannot be saved.
        """
        if must_save(before, after):
            self.save(after)
            return
        self._are_kin_unsaved |= has_new_kin(before, after)
        now = self._clock.time()
        if now - self._saved < (_KIN_EVERY if self._are_kin_unsaved else _EVERY):
            return
        try:
            self.save(after)
        except HistoryError as error:
            # What a crash would lose is a little of who used how much, and who came last.
            self._saved = now
            self._log.warning("broker_not_saved", error=str(error))
