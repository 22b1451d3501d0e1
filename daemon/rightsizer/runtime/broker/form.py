"""Tickets, leases and reservations as JSON, and back.

Read as the ledger's records are: what an older program did not know has its default, what a newer
one added is left out.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any, TypeVar

from rightsizer.placement.broker_event import EventKind
from rightsizer.placement.broker_state import Booking
from rightsizer.placement.ending import Ending
from rightsizer.placement.fair_share import Usage
from rightsizer.placement.kin import Kin
from rightsizer.placement.lease import Client, Lease, Reservation, Ticket
from rightsizer.placement.lease_record import LeaseRecord
from rightsizer.placement.request import Interconnect, Request

__all__ = ["booking_from", "ending_from", "record_from", "text_of", "ticket_from", "usage_from"]

_Form = Mapping[str, Any]
_Made = TypeVar("_Made")


def text_of(item: Ticket | LeaseRecord | Booking | Ending | Usage) -> str:
    """One line of JSON. What a lease holds at the moment is left out: it is measured anew."""
    if isinstance(item, LeaseRecord):
        item = replace(item, measured_bytes=())
    return json.dumps(asdict(item), default=sorted, sort_keys=True)


def ticket_from(form: _Form) -> Ticket:
    """A ticket.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is none.
    """
    return _made(Ticket, form, client=_client(form), request=_request(form))


def record_from(form: _Form) -> LeaseRecord:
    """A lease, as `ticket_from` reads tickets."""
    told = frozenset(EventKind(each) for each in form["told"])
    tuples = {name: tuple(form[name]) for name in ("weights", "totals", "peak_bytes")}
    return _made(
        LeaseRecord,
        form,
        lease=_lease(form["lease"]),
        told=told,
        measured_bytes=(),
        kin=_kin(form.get("kin", {})),
        **tuples,
    )


def booking_from(form: _Form) -> Booking:
    """A reservation with its seats, as `ticket_from` reads tickets."""
    wish = form["reservation"]
    reservation = _made(Reservation, wish, request=_request(wish))
    tuples = {name: tuple(form.get(name, ())) for name in ("weights", "unavailable")}
    return _made(Booking, form, reservation=reservation, uuids=tuple(form["uuids"]), **tuples)


def ending_from(form: _Form) -> Ending:
    """Who ended something, as `ticket_from` reads tickets."""
    return Ending(str(form["id"]), int(form["uid"]), int(form["at"]), str(form["message"]))


def usage_from(form: _Form) -> Usage:
    """Usage by user, as `ticket_from` reads tickets."""
    return Usage(int(form["as_of"]), {str(k): float(v) for k, v in form["gpu_seconds"].items()})


def _lease(form: _Form) -> Lease:
    return _made(
        Lease,
        form,
        client=_client(form),
        request=_request(form),
        uuids=tuple(form["uuids"]),
        memory_bytes=tuple(form["memory_bytes"]),
    )


def _kin(form: _Form) -> Kin:
    processes = ((int(pid), int(started)) for pid, started in form.get("processes", ()))
    return Kin(tuple(processes), tuple(map(int, form.get("sessions", ()))))


def _client(form: _Form) -> Client:
    client = form["client"]
    return _made(Client, client, groups=tuple(client.get("groups", ())))


def _request(form: _Form) -> Request:
    request = form["request"]
    return _made(Request, request, interconnect=Interconnect(request["interconnect"]))


def _made(kind: type[_Made], form: _Form, **parts: Any) -> _Made:
    known = {each.name for each in fields(kind)}  # type: ignore[arg-type]  # All are dataclasses.
    return kind(**{name: value for name, value in form.items() if name in known} | parts)
