"""`rightsizer run`: wait for GPUs, and run a command on them."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rightsizer.broker.child_process import (
    CANNOT_RUN,
    NOT_FOUND,
    ChildProcess,
    ExitSignal,
    exit_on_signals,
)
from rightsizer.broker.client import LeaseClient, LeaseSupervisor
from rightsizer.broker.launch import bind, has_mps, launch_of
from rightsizer.broker.request import add_request_flags, words_of
from rightsizer.console.agent_client import add_agent_flags, client_of
from rightsizer.console.command import Command, add_flags, harmless
from rightsizer.console.flags import duration
from rightsizer.io.local import LocalClient
from rightsizer.model.errors import RightsizerError, UsageError

_FAILED: Final = 125
"""Of this command itself, as env(1) and timeout(1) have it."""
_DESCRIPTION: Final = """\
Wait until the agent can lend GPUs, run a command on them, and give them back at its end. The agent
has to have its broker on (docs/broker.md).

  rightsizer run --gpus 2 --time-limit 4h -- python train.py

The command sees the GPUs by CUDA_VISIBLE_DEVICES, and runs on CPUs and memory near to them. They
are its own as long as anything that it has started is there. Nothing is ever ended by the agent.

The exit status is the command's, or 128 and the signal that ended it; 125 where nothing was lent,
126 and 127 where the command cannot be run or is not found.
"""


_TURN: Final = """
--priority N: larger goes first; operators alone may ask for more than 0
--time-limit TIME: how long it will take at most, as in 4h; a short one goes ahead more often. Later
  you are told, and nothing is ended
--reservation ID: use what was reserved
"""
_WAITING: Final = """
--no-wait: fail where nothing is free
--wait-at-most TIME: fail where nothing is free within this time, as in 2h
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """What is wanted, how long to wait, and what to run."""
    add_request_flags(parser)
    add_flags(parser.add_argument, _TURN, priority={"type": int, "default": 0})
    waiting = parser.add_mutually_exclusive_group()
    add_flags(waiting.add_argument, _WAITING, wait_at_most=duration)
    parser.add_argument("--quiet", action="store_true", help="tell nothing but faults")
    add_agent_flags(parser)
    parser.add_argument("program", nargs="+", metavar="COMMAND", help="what to run, after --")


def run(arguments: argparse.Namespace) -> int:
    """Wait, run, give back; the status to end with."""
    try:
        return _run(arguments)
    except RightsizerError as error:
        for line in str(error).splitlines():
            _say(line)
        return _FAILED


def _run(arguments: argparse.Namespace) -> int:
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
                # An interrupted client leaves no ticket behind, nor an unused lease.
                lease_client.give_back()
                raise
    except ExitSignal as signaled:
        signaled.leave()
    return _held(client, lease_client, lease, arguments.program)


def _held(
    client: LocalClient, lease_client: LeaseClient, lease: Any, command: Sequence[str]
) -> int:
    """Run the command on a lease, and give that back after its last process."""
    mps = lease["is_shared"] and has_mps(os.environ, Path("/proc"))
    allowed, socket = os.sched_getaffinity(0), str(client.path)
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
    print(f"rightsizer: {harmless(text)}", file=sys.stderr, flush=True)


COMMAND = Command("run", configure, run, _DESCRIPTION)
