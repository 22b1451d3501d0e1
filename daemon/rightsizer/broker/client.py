"""Client of the broker: requests a lease, waits across restarts of the agent, renews it."""

import random
import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.broker.request import LEASES_PATH
from rightsizer.io.local import LocalClient
from rightsizer.model.errors import (
    AgentAbsentError,
    AgentBusyError,
    EndedError,
    RightsizerError,
    UsageError,
)
from rightsizer.model.units import format_duration

_ID_BYTES: Final = 6
_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 15.0
_LONGEST_PAUSE_WITHOUT_AGENT_SECONDS: Final = 2.0
"""Polling for one is cheap, and its GPUs are idle until then."""
_TRIES_BEFORE_THE_FIRST_ANSWER: Final = 12
_MOST_DOUBLINGS: Final = 12
"""Well past the longest pause: days without an agent make a number that no float holds."""
_SPREAD: Final = 0.25
_AWAY: Final = "the agent does not answer; its place in the queue is kept, and it is asked again"
_EVERY_SECONDS: Final = 5.0
_NOT_KEPT: Final = (
    "what runs goes on, and no GPU is kept for it any more; others get them unless it is seen there"
)


class LeaseClient:
    """Requests one lease; its id makes a repeated request harmless."""

    def __init__(
        self,
        client: LocalClient,
        body: Mapping[str, Any],
        *,
        say: Callable[[str], None],
        time: Callable[[], float],
        sleep: Callable[[float], object],
    ) -> None:
        self._client, self._say, self._time, self._sleep = client, say, time, sleep
        self.id = secrets.token_hex(_ID_BYTES)
        self._body = {**body, "id": self.id}
        self._said = ""
        self._failures = 0
        self._longest_pause_seconds = _LONGEST_PAUSE_SECONDS

    def wait(self, *, waits: bool = True, longest_seconds: float | None = None) -> Any:
        """The answer that grants the lease; `waits`: whether at all, once the queue was served.

        Raises:
            UsageError: it was refused, withdrawn or not granted in time; the request is canceled.
            RightsizerError: no agent runs here, or it could not be asked.
        """
        begun = self._time()
        answer = self._first()
        while not answer["is_granted"]:
            if answer["why"] is not None and self._failures == 0:
                place = f"{answer['place']} of {answer['waiting']}"
                place = place if answer["place"] else "the last"
                self._say_once(f"waits as {place}: {answer['why']}")
            waited = self._time() - begun
            if not waits and answer["why"] is not None:
                self._give_up(f"nothing was free at once: {answer['why']}")
            pause = answer["ask_again_seconds"]
            if longest_seconds is not None:
                if waited >= longest_seconds:
                    longest = format_duration(longest_seconds)
                    self._give_up(f"nothing was free within {longest}: {answer['why']}")
                pause = min(pause, longest_seconds - waited)
            self._sleep(pause * (1 + _SPREAD * random.random()))  # noqa: S311 - to ask apart.
            answer = self._again(answer)
        return answer

    def give_back(self) -> None:
        """Cancel the request or end the lease; an agent that is away notices by itself."""
        for _ in range(3):
            try:
                self._client.delete(f"{LEASES_PATH}/{self.id}")
            except AgentBusyError:
                self._sleep(_FIRST_PAUSE_SECONDS)
            except RightsizerError:
                return
            else:
                return

    def _first(self) -> Any:
        """The first answer; an absent agent, or a refusal, raises at once."""
        while True:
            try:
                answer = self._client.post(LEASES_PATH, self._body)
            except AgentBusyError:
                if self._failures >= _TRIES_BEFORE_THE_FIRST_ANSWER:
                    raise
                self._pause()
            else:
                self._failures = 0
                return answer

    def _again(self, last: Any) -> Any:
        """The next answer, or the last one where there is none."""
        try:
            answer = self._poll()
        except (AgentAbsentError, AgentBusyError) as error:
            is_away = isinstance(error, AgentAbsentError)
            if self._failures > 1:
                self._say_once(_AWAY)
            self._pause(_LONGEST_PAUSE_WITHOUT_AGENT_SECONDS if is_away else _LONGEST_PAUSE_SECONDS)
            return {**last, "ask_again_seconds": 0.0}
        self._failures = 0
        return answer

    def _poll(self) -> Any:
        try:
            return self._client.get(f"{LEASES_PATH}/{self.id}")
        except EndedError:
            raise
        except UsageError:
            # A ticket that the agent does not know was lost with its file.
            return self._client.post(LEASES_PATH, self._body)

    def _pause(self, longest_seconds: float = _LONGEST_PAUSE_SECONDS) -> None:
        if longest_seconds != self._longest_pause_seconds:
            # An agent that has come back is busy with all clients, not for long.
            self._failures, self._longest_pause_seconds = 0, longest_seconds
        doublings = min(self._failures, _MOST_DOUBLINGS)
        pause = min(longest_seconds, _FIRST_PAUSE_SECONDS * 2**doublings)
        self._failures += 1
        self._sleep(pause * (1 + random.random()))  # noqa: S311 - to ask apart.

    def _give_up(self, why: str) -> None:
        self.give_back()
        raise UsageError(why)

    def _say_once(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._say(text)


class LeaseSupervisor(threading.Thread):
    """Polls a lease and prints its notices; an agent may be away meanwhile."""

    def __init__(
        self,
        client: LocalClient,
        lease_id: str,
        say: Callable[[str], None],
        every_seconds: float = _EVERY_SECONDS,
    ) -> None:
        super().__init__(name="lease", daemon=True)
        self._client, self._path = client, f"{LEASES_PATH}/{lease_id}"
        self._say, self._every_seconds = say, every_seconds
        self._ended = threading.Event()

    def run(self) -> None:
        """Print each message once, until the lease is over."""
        known: tuple[str, ...] = ()
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
            # A restarted agent has forgotten its messages.
            for message in messages[len(known) :] if messages[: len(known)] == known else messages:
                self._say(message)
            known = messages

    def end(self) -> None:
        """Stop polling, without waiting for the current poll."""
        self._ended.set()
