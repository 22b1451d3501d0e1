"""JSON codec of tickets, leases, reservations, endings and usage."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any, TypeVar

from rightsizer.broker.lease import (
    EventKind,
    GpuRequest,
    Interconnect,
    Lease,
    LeaseEnding,
    LeaseOwner,
    LeaseProcesses,
    LeaseRecord,
    Reservation,
    Ticket,
)
from rightsizer.broker.state import Booking, ShareUsage

_Form = Mapping[str, Any]
_Made = TypeVar("_Made")


def text_of(item: Ticket | LeaseRecord | Booking | LeaseEnding | ShareUsage) -> str:
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


def ending_from(form: _Form) -> LeaseEnding:
    """Who ended something, as `ticket_from` reads tickets."""
    return LeaseEnding(str(form["id"]), int(form["uid"]), int(form["at"]), str(form["message"]))


def usage_from(form: _Form) -> ShareUsage:
    """Usage by user, as `ticket_from` reads tickets."""
    return ShareUsage(
        int(form["as_of"]), {str(k): float(v) for k, v in form["gpu_seconds"].items()}
    )


def _lease(form: _Form) -> Lease:
    return _made(
        Lease,
        form,
        client=_client(form),
        request=_request(form),
        uuids=tuple(form["uuids"]),
        memory_bytes=tuple(form["memory_bytes"]),
    )


def _kin(form: _Form) -> LeaseProcesses:
    processes = ((int(pid), int(started)) for pid, started in form.get("processes", ()))
    return LeaseProcesses(tuple(processes), tuple(map(int, form.get("sessions", ()))))


def _client(form: _Form) -> LeaseOwner:
    client = form["client"]
    return _made(LeaseOwner, client, groups=tuple(client.get("groups", ())))


def _request(form: _Form) -> GpuRequest:
    request = form["request"]
    return _made(GpuRequest, request, interconnect=Interconnect(request["interconnect"]))


def _made(kind: type[_Made], form: _Form, **parts: Any) -> _Made:
    known = {each.name for each in fields(kind)}  # type: ignore[arg-type]  # All are dataclasses.
    return kind(**{name: value for name, value in form.items() if name in known} | parts)
