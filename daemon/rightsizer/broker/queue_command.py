"""`rightsizer queue`: leases, waiting tickets and reservations of this node."""

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from rightsizer.broker.paths import BROKER_PATH
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
    yield from _table(
        {
            "id": each["id"],
            "user": each["user"],
            "process": str(each["pid"]),
            "GPUs": ", ".join(each["labels"]),
            "shared": "yes" if each["is_shared"] else "no",
            "for": format_duration(max(0.0, now - each["granted"])),
            "ends": _until(each["ends"], now),
        }
        for each in leases
    )
    for each in leases:
        labels = dict(zip(each["uuids"], each["labels"], strict=True))
        for uuid, why in each.get("lost", {}).items():
            yield f"  Lease {each['id']} has lost {labels[uuid]}: {why}."


def _queue(form: Any, now: float) -> Iterator[str]:
    if not form["queue"]:
        yield "  Queue empty."
        return
    yield from _table(
        {
            "": str(place),
            "id": each["id"],
            "user": each["user"],
            "GPUs": " of ".join(filter(None, (str(each["gpus"]), each["mig_profile"]))),
            "memory": "all" if (held := each["memory_bytes"]) is None else f"{held / GIB:.1f} GiB",
            "limit": _NOTHING
            if (limit := each["limit_seconds"]) is None
            else format_duration(limit),
            "waits": format_duration(max(0.0, now - each["asked"])),
            "for": each["why"] or "the broker's next look",
        }
        for place, each in enumerate(form["queue"], 1)
    )
    if form["promised"] is not None:
        yield ""
        yield f"The first of them starts in {_until(form['promised'], now)} at the latest."


def _reservations(reservations: Any, now: float) -> Iterator[str]:
    return _table(
        {
            "id": each["id"],
            "user": each["user"],
            "GPUs": str(len(each["uuids"])),
            "begins": _until(each["starts"], now),
            "ends": _until(each["ends"], now),
            "": _remark(each),
        }
        for each in reservations
    )


def _remark(reservation: Any) -> str:
    if (replaced := reservation.get("replaces")) is not None:
        return f"in place of lease {replaced}, which has lost a GPU"
    return "may not be free in time" if reservation["is_at_risk"] else ""


def _table(rows: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """Rows by the same headings; nothing where there are none."""
    if found := list(rows):
        yield from aligned(
            list(found[0]), [list(row.values()) for row in found], left=list(found[0])
        )


def _until(at: float | None, now: float) -> str:
    if at is None:
        return _NOTHING
    return "now" if at <= now else format_duration(at - now)


COMMAND = Command("queue", configure, run)
