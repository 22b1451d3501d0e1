"""How often one client may ask: a bucket of tokens for each address."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from rightsizer.publish.web.toolkit.web_config import RateLimit

__all__ = ["RateLimiter"]

_CLIENTS_MAXIMUM: Final = 1024
"""More addresses at once have the full bucket of a newcomer now and then."""


class RateLimiter:
    """Counts requests by address, so that whoever asks too often starves nobody but himself."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # When each address's bucket would have been empty; the longest unseen first.
        self._empty_since: OrderedDict[str, float] = OrderedDict()

    def allows(self, limit: RateLimit | None, client: str) -> bool:
        """Whether a client may have this request answered; it is counted if so."""
        if limit is None:
            return True
        now = self._clock()
        with self._lock:
            full = now - limit.burst * limit.interval_seconds
            empty_since = max(self._empty_since.get(client, full), full)
            is_allowed = now - empty_since >= limit.interval_seconds * (1.0 - _ROUNDING)
            if is_allowed:
                empty_since += limit.interval_seconds
            self._empty_since[client] = empty_since
            self._empty_since.move_to_end(client)
            if len(self._empty_since) > _CLIENTS_MAXIMUM:
                self._empty_since.popitem(last=False)
        return is_allowed


_ROUNDING: Final = 1e-9
