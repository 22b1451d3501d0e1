"""Command `rightsizer run`: waits for GPUs, across agent restarts, and runs a command on them."""

import argparse
import os
import random
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rightsizer.broker.child_process import (
    CANNOT_RUN,
    NOT_FOUND,
    ChildProcess,
    ExitSignal,
    exit_on_signals,
)
from rightsizer.broker.launch import bind, has_mps, launch_of
from rightsizer.broker.request import LEASES_PATH, add_request_flags, words_of
from rightsizer.console.agent_client import add_agent_flags, client_of
from rightsizer.console.command import Command, add_flags, help_of, printable
from rightsizer.console.flags import duration
from rightsizer.io.local import LocalClient
from rightsizer.model.errors import (
    AgentAbsentError,
    AgentBusyError,
    EndedError,
    RightsizerError,
    UsageError,
)
from rightsizer.model.units import format_duration

_HELP: Final = help_of(__file__)
_ID_BYTES: Final = 6
_FIRST_PAUSE_SECONDS: Final = 0.05
_LONGEST_PAUSE_SECONDS: Final = 15.0
_LONGEST_PAUSE_WITHOUT_AGENT_SECONDS: Final = 2.0
"""Polling for an absent agent is cheap, and the node's GPUs are idle until it is back."""
_TRIES_BEFORE_THE_FIRST_ANSWER: Final = 12
_MOST_DOUBLINGS: Final = 12
"""Far beyond the longest pause; more would overflow a float after days without an agent."""
_SPREAD: Final = 0.25
_AWAY: Final = "the agent does not answer; its place in the queue is kept, and it is asked again"
_EVERY_SECONDS: Final = 5.0
_NOT_KEPT: Final = (
    "what runs goes on, and no GPU is kept for it any more; others get them unless it is seen there"
)
_FAILED: Final = 125
"""Failure of this command itself, as in env(1) and timeout(1)."""


class LeaseClient:
    """Requests one lease; its id makes repeated requests idempotent."""

    def __init__(
        self,
        client: LocalClient,
        body: Mapping[str, Any],
        *,
        say: Callable[[str], None],
        time: Callable[[], float],
        sleep: Callable[[float], object],
    ) -> None:
        self._client = client
        self._say = say
        self._time = time
        self._sleep = sleep
        self.id = secrets.token_hex(_ID_BYTES)
        self._body = {**body, "id": self.id}
        self._said = ""
        self._failures = 0
        self._longest_pause_seconds = _LONGEST_PAUSE_SECONDS

    def wait(self, *, waits: bool = True, longest_seconds: float | None = None) -> Any:
        """Wait for the grant and return it; `waits=False` gives up after the queue was served once.

        Raises:
            UsageError: refused, withdrawn or not granted in time; the request is canceled.
            RightsizerError: no agent runs here, or it could not be reached.
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
            self._sleep(pause * (1 + _SPREAD * random.random()))  # noqa: S311 - jitter.
            answer = self._again(answer)
        return answer

    def give_back(self) -> None:
        """Cancel the request or end the lease; an absent agent notices by itself."""
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
        """Next answer, or the last one again if there is none."""
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
            # The ticket is unknown, so the agent lost its file: submit it again.
            return self._client.post(LEASES_PATH, self._body)

    def _pause(self, longest_seconds: float = _LONGEST_PAUSE_SECONDS) -> None:
        if longest_seconds != self._longest_pause_seconds:
            # A restarted agent is busy with all clients, but not for long.
            self._failures = 0
            self._longest_pause_seconds = longest_seconds
        doublings = min(self._failures, _MOST_DOUBLINGS)
        pause = min(longest_seconds, _FIRST_PAUSE_SECONDS * 2**doublings)
        self._failures += 1
        self._sleep(pause * (1 + random.random()))  # noqa: S311 - jitter.

    def _give_up(self, why: str) -> None:
        self.give_back()
        raise UsageError(why)

    def _say_once(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._say(text)


class LeaseSupervisor(threading.Thread):
    """Polls a lease and prints its notices; tolerates an absent agent."""

    def __init__(self, client: LocalClient, lease_id: str, say: Callable[[str], None]) -> None:
        super().__init__(name="lease", daemon=True)
        self._client = client
        self._path = f"{LEASES_PATH}/{lease_id}"
        self._say = say
        self._ended = threading.Event()

    def run(self) -> None:
        """Print each message once, until the lease ends."""
        printed: tuple[str, ...] = ()
        while not self._ended.wait(_EVERY_SECONDS):
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
            # A restarted agent has no old messages.
            is_continued = messages[: len(printed)] == printed
            for message in messages[len(printed) :] if is_continued else messages:
                self._say(message)
            printed = messages

    def end(self) -> None:
        """Stop polling, without waiting for the current request."""
        self._ended.set()


def _configure(parser: argparse.ArgumentParser) -> None:
    add_request_flags(parser)
    add_flags(parser.add_argument, _HELP["turn"], priority={"type": int, "default": 0})
    waiting = parser.add_mutually_exclusive_group()
    add_flags(waiting.add_argument, _HELP["waiting"], wait_at_most=duration)
    parser.add_argument("--quiet", action="store_true", help="print only errors")
    add_agent_flags(parser)
    parser.add_argument("program", nargs="+", metavar="COMMAND", help="what to run, after --")


def _run(arguments: argparse.Namespace) -> int:
    try:
        return _wait_and_run(arguments)
    except RightsizerError as error:
        for line in str(error).splitlines():
            _say(line)
        return _FAILED


def _wait_and_run(arguments: argparse.Namespace) -> int:
    client = client_of(arguments)
    tell = (lambda _: None) if arguments.quiet else _say
    body = _body(arguments)
    lease_client = LeaseClient(client, body, say=tell, time=time.monotonic, sleep=time.sleep)
    try:
        with exit_on_signals():
            try:
                lease = lease_client.wait(
                    waits=not arguments.no_wait, longest_seconds=arguments.wait_at_most
                )["lease"]
                tell(f"lease {lease['id']}: {', '.join(lease['labels'])}")
            except BaseException:
                # An interrupted client must leave neither a ticket nor an unused lease.
                lease_client.give_back()
                raise
    except ExitSignal as signaled:
        signaled.leave()
    return _held(client, lease_client, lease, arguments.program)


def _held(
    client: LocalClient, lease_client: LeaseClient, lease: Any, command: Sequence[str]
) -> int:
    mps = lease["is_shared"] and has_mps(os.environ, Path("/proc"))
    allowed = os.sched_getaffinity(0)
    socket = str(client.path)
    launch = launch_of(lease, os.environ, allowed, has_mps=mps, socket=socket)
    child = ChildProcess(command, {**os.environ, **launch.variables})
    try:
        child.start(lambda: bind(launch, _say))
    except OSError as error:
        lease_client.give_back()
        _say(f"{command[0]}: {error.strerror}")
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CANNOT_RUN
    supervisor = LeaseSupervisor(client, lease["id"], _say)
    supervisor.start()
    ended = child.wait(
        lambda status: _say(
            f"{command[0]} has ended with {status}, and what it started has not: lease "
            f"{lease['id']} lasts until that ends; interrupt to leave it alone, it keeps the lease"
        )
    )
    supervisor.end()
    if ended.is_all:
        lease_client.give_back()
    return ended.status


def _body(arguments: argparse.Namespace) -> dict[str, Any]:
    body = words_of(arguments)
    if arguments.time_limit is not None:
        try:
            duration(arguments.time_limit)
        except argparse.ArgumentTypeError as error:
            raise UsageError(f"--time-limit: {error}") from None
        body["for"] = arguments.time_limit
    if arguments.reservation:
        body["reservation"] = arguments.reservation
    return {**body, "priority": arguments.priority}


def _say(text: str) -> None:
    print(f"rightsizer: {printable(text)}", file=sys.stderr, flush=True)


COMMAND = Command("run", _configure, _run, _HELP["description"])
