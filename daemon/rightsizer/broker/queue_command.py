"""Commands `rightsizer queue`, `reserve` and `cancel`."""

import argparse
import time
from collections.abc import Iterator
from typing import Any, Final

from rightsizer.broker.request import (
    BROKER_PATH,
    LEASES_PATH,
    RESERVATIONS_PATH,
    add_request_flags,
    words_of,
)
from rightsizer.console.agent_client import add_agent_flags, client_of
from rightsizer.console.answer import add_format_flag, show
from rightsizer.console.command import Command, add_flags, help_of, say
from rightsizer.console.flags import duration, moment
from rightsizer.model.errors import RefusedError, RightsizerError, UsageError
from rightsizer.model.units import elapsed_text, format_duration, seconds
from rightsizer.report.blocks import Block, CellKind, Table, section, table

_HELP: Final = help_of(__file__)


def _configure_queue(parser: argparse.ArgumentParser) -> None:
    add_format_flag(parser, "times in seconds")
    add_agent_flags(parser)


def _show_queue(arguments: argparse.Namespace) -> int:
    document = client_of(arguments).get(BROKER_PATH)
    blocks = queue_blocks(document, time.time())
    show(arguments, "GPU queue", document, blocks, may_color=False)
    return 0


def queue_blocks(document: Any, now: float) -> Iterator[Block]:
    """Yield the agent's answer at a time in seconds since the epoch."""
    leases = document["leases"]
    yield section("Leases", _leases(leases, now) if leases else "No active leases.", *_lost(leases))
    queue = _queue(document["queue"], now) if document["queue"] else "Queue empty."
    promised = _until(document["promised"], now)
    start = f"The first of them starts in {promised} at the latest." if promised else ""
    yield section("Queue", queue, start)
    yield section("Reservations", _reservations(document["reservations"], now))
    if document["trouble"] is not None and document["queue"]:
        yield f"Nothing is granted now: {document['trouble']}."


def _leases(leases: Any, now: float) -> Table:
    rows = (
        (
            lease["id"],
            lease["user"],
            str(lease["pid"]),
            ", ".join(lease["labels"]),
            "yes" if lease["is_shared"] else "no",
            elapsed_text(now - lease["granted"]),
            _until(lease["ends"], now),
        )
        for lease in leases
    )
    return table(("id", "user", "process", "GPUs", "shared", "for", "ends"), rows)


def _lost(leases: Any) -> Iterator[str]:
    for lease in leases:
        labels = dict(zip(lease["uuids"], lease["labels"], strict=True))
        for uuid, why in lease.get("lost", {}).items():
            yield f"Lease {lease['id']} has lost {labels[uuid]}: {why}."


def _queue(tickets: Any, now: float) -> Table:
    rows = (
        (
            str(place),
            ticket["id"],
            ticket["user"],
            " of ".join(filter(None, (str(ticket["gpus"]), ticket["mig_profile"]))),
            "all" if ticket["memory_bytes"] is None else ticket["memory_bytes"],
            ticket["limit_seconds"] or None,
            elapsed_text(now - ticket["asked"]),
            ticket["why"] or "the broker's next look",
        )
        for place, ticket in enumerate(tickets, 1)
    )
    memory = ("memory", CellKind.GIB)
    limit = ("limit", CellKind.DURATION)
    return table(("", "id", "user", "GPUs", memory, limit, "waits", "for"), rows)


def _reservations(reservations: Any, now: float) -> Table:
    rows = (
        (
            reservation["id"],
            reservation["user"],
            str(len(reservation["uuids"])),
            _until(reservation["starts"], now),
            _until(reservation["ends"], now),
            _remark(reservation),
        )
        for reservation in reservations
    )
    return table(("id", "user", "GPUs", "begins", "ends", "remark"), rows)


def _remark(reservation: Any) -> str:
    if (replaced := reservation.get("replaces")) is not None:
        return f"in place of lease {replaced}, which has lost a GPU"
    return "may not be free in time" if reservation["is_at_risk"] else ""


def _until(at: float | None, now: float) -> str | None:
    if at is None:
        return None
    return "now" if at <= now else format_duration(at - now)


def _configure_reserve(parser: argparse.ArgumentParser) -> None:
    add_request_flags(parser)
    add_flags(parser.add_argument, _HELP["length"], for_={"type": duration, "required": True})
    begin = parser.add_mutually_exclusive_group()
    add_flags(begin.add_argument, _HELP["begin"], in_=duration, at=moment)
    add_flags(parser.add_argument, _HELP["answer"], user={"default": ""})
    add_format_flag(parser, "times in seconds")
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
    show(arguments, "Reservation", document, [_sentence(document["message"])])
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
