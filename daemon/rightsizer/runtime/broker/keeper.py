"""Watches over a lease while its command runs, and passes on what its holder is told."""

import threading
from collections.abc import Callable
from typing import Final

from rightsizer.domain.errors import EndedError, RightsizerError, UsageError
from rightsizer.edge.local import LocalClient
from rightsizer.runtime.broker.paths import LEASES_PATH

__all__ = ["Keeper"]

_EVERY_SECONDS: Final = 5.0
_NOT_KEPT: Final = (
    "what runs goes on, and no GPU is kept for it any more; others get them unless it is seen there"
)


class Keeper(threading.Thread):
    """Asks now and then; an agent that is away meanwhile is no trouble."""

    def __init__(
        self,
        client: LocalClient,
        lease_id: str,
        say: Callable[[str], None],
        every_seconds: float = _EVERY_SECONDS,
    ) -> None:
        """A keeper who begins with `start`.

        Args:
            client: The agent.
            lease_id: Of the lease.
            say: Takes a line for its holder.
            every_seconds: How often to ask.
        """
        super().__init__(name="lease", daemon=True)
        self._client, self._path = client, f"{LEASES_PATH}/{lease_id}"
        self._say, self._every_seconds = say, every_seconds
        self._ended = threading.Event()

    def run(self) -> None:
        """Tell each message once, until the lease is over."""
        told: tuple[str, ...] = ()
        while not self._ended.wait(self._every_seconds):
            try:
                messages = tuple(self._client.get(self._path)["messages"])
            except EndedError as error:
                self._say(f"{error}: {_NOT_KEPT}")
                return
            except UsageError:
                self._say(
                    "the agent does not know this lease any more: what runs goes on, and its GPUs "
                    "are not given to others as long as it is seen on them"
                )
                return
            except RightsizerError:
                continue
            # An agent that was started anew has forgotten what it told.
            for message in messages[len(told) :] if messages[: len(told)] == told else messages:
                self._say(message)
            told = messages

    def end(self) -> None:
        """Ask no more; whoever is asked at the moment is not waited for."""
        self._ended.set()
