"""`rightsizer queue`: leases, waiting tickets and reservations of this node."""

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any, Final

from rightsizer.broker.feature import BROKER_PATH
from rightsizer.console.agent_client import add_agent_flags, client_of
from rightsizer.console.command import Command, say
from rightsizer.console.text import aligned
from rightsizer.model.units import GIB, format_duration

_NOTHING: Final = "-"


def configure(parser: argparse.ArgumentParser) -> None:
    """Flags of output and agent."""
    parser.add_argument("--json", action="store_true", help="answer in JSON; times in seconds")
    add_agent_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print leases, queue and reservations."""
    form = client_of(arguments).get(BROKER_PATH)
    say(json.dumps(form, indent=1) if arguments.json else queue_text(form, time.time()))
    return 0


def queue_text(form: Any, now: float) -> str:
    """Text of the agent's answer at a time in seconds since the epoch."""
    lines = ["Leases", *_leases(form["leases"], now), "", "Queue", *_queue(form, now)]
    if form["reservations"]:
        lines += ["", "Reservations", *_reservations(form["reservations"], now)]
    if form["trouble"] is not None and form["queue"]:
        lines += ["", f"Nothing is granted now: {form['trouble']}."]
    return "\n".join(lines)


def _leases(leases: Any, now: float) -> Iterator[str]:
    if not leases:
        yield "  No active leases."
        return
    header = ["id", "user", "process", "GPUs", "shared", "for", "ends"]
    rows = [
        [
            each["id"],
            each["user"],
            str(each["pid"]),
            ", ".join(each["labels"]),
            "yes" if each["is_shared"] else "no",
            format_duration(max(0.0, now - each["granted"])),
            _until(each["ends"], now),
        ]
        for each in leases
    ]
    yield from aligned(header, rows, left=header)


def _queue(form: Any, now: float) -> Iterator[str]:
    if not form["queue"]:
        yield "  Queue empty."
        return
    header = ["", "id", "user", "GPUs", "memory", "limit", "waits", "for"]
    rows = [
        [
            str(place),
            each["id"],
            each["user"],
            _wanted(each),
            "all" if (held := each["memory_bytes"]) is None else f"{held / GIB:.1f} GiB",
            _NOTHING if each["limit_seconds"] is None else format_duration(each["limit_seconds"]),
            format_duration(max(0.0, now - each["asked"])),
            each["why"] or "the broker's next look",
        ]
        for place, each in enumerate(form["queue"], 1)
    ]
    yield from aligned(header, rows, left=header)
    if form["promised"] is not None:
        yield ""
        yield f"The first of them starts in {_until(form['promised'], now)} at the latest."


def _reservations(reservations: Any, now: float) -> Iterator[str]:
    header = ["id", "user", "GPUs", "begins", "ends", ""]
    rows = [
        [
            each["id"],
            each["user"],
            str(len(each["uuids"])),
            _until(each["starts"], now),
            _until(each["ends"], now),
            "may not be free in time" if each["is_at_risk"] else "",
        ]
        for each in reservations
    ]
    yield from aligned(header, rows, left=header)


def _wanted(ticket: Any) -> str:
    profile = ticket["mig_profile"]
    return f"{ticket['gpus']} of {profile}" if profile else str(ticket["gpus"])


def _until(at: float | None, now: float) -> str:
    if at is None:
        return _NOTHING
    return "now" if at <= now else format_duration(at - now)


COMMAND = Command("queue", configure, run)
