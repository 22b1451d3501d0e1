"""Commands `rightsizer queue`, `reserve` and `cancel`."""

import argparse
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from rightsizer.broker.request import (
    BROKER_PATH,
    LEASES_PATH,
    RESERVATIONS_PATH,
    add_request_flags,
    words_of,
)
from rightsizer.console.agent_client import add_agent_flags, client_of
from rightsizer.console.command import Command, add_flags, answer, help_of, say
from rightsizer.console.flags import duration, moment
from rightsizer.io.terminal import aligned
from rightsizer.model.errors import RefusedError, RightsizerError, UsageError
from rightsizer.model.units import GIB, format_duration, seconds

_HELP: Final = help_of(__file__)
_NOTHING: Final = "-"


def _configure_queue(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="answer in JSON; times in seconds")
    add_agent_flags(parser)


def _show_queue(arguments: argparse.Namespace) -> int:
    document = client_of(arguments).get(BROKER_PATH)
    say(json.dumps(document, indent=1) if arguments.json else queue_text(document, time.time()))
    return 0


def queue_text(document: Any, now: float) -> str:
    """Format the agent's answer at a time in seconds since the epoch."""
    lines = ["Leases", *_leases(document["leases"], now), "", "Queue", *_queue(document, now)]
    if document["reservations"]:
        lines += ["", "Reservations", *_reservations(document["reservations"], now)]
    if document["trouble"] is not None and document["queue"]:
        lines += ["", f"Nothing is granted now: {document['trouble']}."]
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


def _queue(document: Any, now: float) -> Iterator[str]:
    if not document["queue"]:
        yield "  Queue empty."
        return
    yield from _table(
        {
            "": str(place),
            "id": each["id"],
            "user": each["user"],
            "GPUs": " of ".join(filter(None, (str(each["gpus"]), each["mig_profile"]))),
            "memory": "all" if (held := each["memory_bytes"]) is None else f"{held / GIB:.1f} GiB",
            "limit": format_duration(limit) if (limit := each["limit_seconds"]) else _NOTHING,
            "waits": format_duration(max(0.0, now - each["asked"])),
            "for": each["why"] or "the broker's next look",
        }
        for place, each in enumerate(document["queue"], 1)
    )
    if document["promised"] is not None:
        yield ""
        yield f"The first of them starts in {_until(document['promised'], now)} at the latest."


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
    if found := list(rows):
        names = list(found[0])
        yield from aligned(names, [list(row.values()) for row in found], left=names)


def _until(at: float | None, now: float) -> str:
    if at is None:
        return _NOTHING
    return "now" if at <= now else format_duration(at - now)


def _configure_reserve(parser: argparse.ArgumentParser) -> None:
    add_request_flags(parser)
    add_flags(parser.add_argument, _HELP["length"], for_={"type": duration, "required": True})
    begin = parser.add_mutually_exclusive_group()
    add_flags(begin.add_argument, _HELP["begin"], in_=duration, at=moment)
    add_flags(parser.add_argument, _HELP["answer"], user={"default": ""})
    add_agent_flags(parser)


def _configure_cancel(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", help="of a lease, a ticket or a reservation (rightsizer queue)")
    add_agent_flags(parser)


def _reserve(arguments: argparse.Namespace) -> int:
    ahead = arguments.in_ or 0.0
    if arguments.at is not None and (ahead := seconds(arguments.at) - time.time()) < 0:
        raise UsageError("--at: is in the past; leave it out to begin now")
    body = {
        **words_of(arguments),
        "in": _written(ahead),
        "for": _written(arguments.for_),
        "user": arguments.user or None,
    }
    try:
        document: Any = client_of(arguments).post(RESERVATIONS_PATH, body)
    except RefusedError as error:
        # Valid request; it may succeed at another time or for fewer GPUs.
        raise RightsizerError(str(error)) from None
    answer(arguments, document, _sentence(document["message"]))
    return 0


def _cancel(arguments: argparse.Namespace) -> int:
    client = client_of(arguments)
    try:
        document = client.delete(f"{RESERVATIONS_PATH}/{arguments.id}")
    except UsageError as error:
        if "there is no" not in str(error):
            raise
        document = client.delete(f"{LEASES_PATH}/{arguments.id}")
    say(_sentence(document["message"]))
    return 0


def _written(duration_seconds: float) -> str:
    """Format a duration for the agent, in milliseconds."""
    return f"{round(duration_seconds * 1000)}ms" if duration_seconds else "0s"


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


QUEUE = Command("queue", _configure_queue, _show_queue)
RESERVE = Command("reserve", _configure_reserve, _reserve, _HELP["description"])
CANCEL = Command("cancel", _configure_cancel, _cancel)
