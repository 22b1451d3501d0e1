"""Queue of new connections of a guarded server: what guessers cost beside their passwords."""

import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from rightsizer.web.settings import PasswordSettings

_ADDRESSES_MAXIMUM: Final = 1024
_PATIENCE_SECONDS: Final = 0.5


class ConnectionQueue:
    """Lets connections in one after another while others take their share of a core.

    A handshake and a refusal cost a thousand times what a guesser pays for them. The CPU of a
    connection that was given nothing is waited for by all that come after it; addresses that were
    given something go first. Where nothing is refused there is nothing to wait for.
    """

    def __init__(
        self,
        settings: PasswordSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._clock = settings, clock
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._waiting: list[tuple[bool, int]] = []
        """Whether its address is unknown, and its number: the least goes first."""
        self._free_at = clock()
        self._known: OrderedDict[str, None] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def has_room(self, address: str) -> bool:
        """Whether one more may wait, after a moment if need be; a known address has twice the room.

        Those that are not accepted meanwhile wait in the kernel.
        """
        with self._changed:
            fold = 2 if address in self._known else 1
            most = fold * self._settings.waiting_maximum
            return self._changed.wait_for(lambda: len(self._waiting) < most, _PATIENCE_SECONDS)

    def enter(self, address: str) -> bool:
        """Wait for a turn; `False` where none came in time."""
        with self._changed:
            ticket = (address not in self._known, next(self._numbers))
            self._waiting.append(ticket)
            deadline = self._clock() + self._settings.wait_seconds
            try:
                while (rest := self._rest(ticket)) > 0.0:
                    left = deadline - self._clock()
                    if left <= 0.0:
                        return False
                    self._changed.wait(min(rest, left))
                return True
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    def leave(self, address: str, cpu_seconds: float, *, was_answered: bool) -> None:
        """Note what a connection took, and whether it was given what it asked for."""
        with self._changed:
            if was_answered:
                self._known[address] = None
                self._known.move_to_end(address)
                if len(self._known) > _ADDRESSES_MAXIMUM:
                    self._known.popitem(last=False)
            else:
                begin = max(self._free_at, self._clock())
                self._free_at = begin + cpu_seconds / self._settings.share_ratio
            self._changed.notify_all()

    def _rest(self, ticket: tuple[bool, int]) -> float:
        if min(self._waiting) != ticket:
            return self._settings.wait_seconds
        return self._free_at - self._clock()
