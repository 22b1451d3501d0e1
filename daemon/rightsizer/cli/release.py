"""`rightsizer release` and `rightsizer resume`: ask the running agent to release its GPUs."""

import argparse
import threading
from collections.abc import Callable
from typing import Final

from rightsizer.console.agent_client import add_agent_flags, client_of
from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command, add_flags, help_of
from rightsizer.console.flags import duration, duration_text
from rightsizer.io.clock import Clock, SystemClock
from rightsizer.io.codec import JsonObject
from rightsizer.model.errors import RightsizerError
from rightsizer.model.units import nanoseconds, utc_text
from rightsizer.telemetry.source import ReleasableResource

_HELP: Final = help_of(__file__)

_NAMES: Final = {
    ReleasableResource.GPUS: "the GPUs: every handle is closed and nothing is read",
    ReleasableResource.COUNTERS: "the profiling counters: all else is read on",
}
_POLL_SECONDS: Final = 0.1
_HELD: Final = tuple(map(str, ReleasableResource))


def _configure_release(parser: argparse.ArgumentParser) -> None:
    usual = str(ReleasableResource.GPUS)
    parser.add_argument("held", nargs="?", choices=_HELD, default=usual, help="what to release")
    wait = {"type": duration_text, "default": "10s"}
    add_flags(parser.add_argument, _HELP["when"], for_=duration_text, wait=wait)
    add_format_flag(parser, "times in seconds")
    add_agent_flags(parser)


def _configure_resume(parser: argparse.ArgumentParser) -> None:
    what = "what to reopen; everything without it"
    parser.add_argument("held", nargs="?", choices=_HELD, help=what)
    add_format_flag(parser, "names")
    add_agent_flags(parser)


def _release(arguments: argparse.Namespace) -> int:
    client = client_of(arguments)
    held = ReleasableResource(arguments.held)

    def ask() -> JsonObject | None:
        releases: list[JsonObject] = client.get("/api/v1/releases")["releases"]
        return next((document for document in releases if document["held"] == held), None)

    client.post("/api/v1/release", {"held": held, "for": arguments.for_})
    document = wait_until_done(held, ask, duration(arguments.wait), SystemClock())
    back = f"'rightsizer resume {held}'"
    if document["until"] is None:
        end = f"It stays so until {back}, or until the agent restarts."
    else:
        until = utc_text(document["until"], "%H:%M:%S")
        end = f"It is taken back at {until}, or before by {back}."
    show(arguments, "Released", document, [f"Let go of {_NAMES[held]}.", end])
    return 0


def _resume(arguments: argparse.Namespace) -> int:
    document = client_of(arguments).post("/api/v1/resume", {"held": arguments.held})
    resumed = document["resumed"]
    taken = f"Taken back: {' and '.join(resumed)}."
    nothing = "Nothing to take back: it was not let go."
    show(arguments, "Resumed", document, [taken if resumed else nothing])
    return 0


def wait_until_done(
    held: ReleasableResource,
    ask: Callable[[], JsonObject | None],
    patience_seconds: float,
    clock: Clock,
) -> JsonObject:
    """Wait until a release is complete; `ask` returns its present state, or `None` without one.

    Raises:
        RightsizerError: it is not complete in time, or was resumed.
    """
    deadline = clock.time() + nanoseconds(patience_seconds)
    never = threading.Event()
    while True:
        document = ask()
        if document is None:
            fault = f"the {held} were taken back before all of them were let go"
            why = "the time of --for was over, or 'rightsizer resume' was run"
            raise RightsizerError(f"{fault}: {why}; ask again")
        if document["is_done"]:
            return document
        now = clock.time()
        if now >= deadline:
            fault = (
                f"the {held} are not let go after {patience_seconds:g} s: {document['still_held']}"
            )
            remedy = f"wait longer with --wait, or drop it by 'rightsizer resume {held}'"
            raise RightsizerError(f"{fault}; the request stands: {remedy}")
        clock.wait_until(min(now + nanoseconds(_POLL_SECONDS), deadline), never)


RELEASE = Command("release", _configure_release, _release, _HELP["description"])
RESUME = Command("resume", _configure_resume, _resume)
