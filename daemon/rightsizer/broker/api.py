"""HTTP API of leases and reservations on the local socket.

With the caller's identity from the kernel.
"""

import grp
import os
import pwd
import re
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Final

from rightsizer.broker.lease import LeaseOwner, Reservation, Ticket
from rightsizer.broker.lease_encoder import answer_form, booking_form, broker_form
from rightsizer.broker.lease_manager import BrokerOverview, LeaseManager
from rightsizer.broker.place_api import BROKER_PATH, LEASES_PATH, RESERVATIONS_PATH
from rightsizer.broker.process_tracker import orphans
from rightsizer.broker.request_parser import WORDS, request_of
from rightsizer.broker.settings import BrokerSection
from rightsizer.broker.transitions import BrokerTransition
from rightsizer.host.process_table import ProcessTable, user_name
from rightsizer.io.clock import Clock
from rightsizer.model.errors import RightsizerError, UsageError
from rightsizer.model.units import Nanoseconds, nanoseconds
from rightsizer.web.message import (
    SocketPeer,
    WebRequest,
    WebResponse,
    duration_of,
    fields_of,
    text_of,
)
from rightsizer.web.router import Handle, Route, Router


def client_of(
    peer: SocketPeer | None,
    table: ProcessTable,
    asked_groups: Collection[str] = (),
    groups_of: Callable[[str], frozenset[str]] | None = None,
) -> LeaseOwner:
    """The process that asks.

    Its start is read before and after its user: a process that has taken over the number of one
    that ended in between is not taken for it.

    Args:
        peer: What the kernel says of the socket's other end.
        table: The processes.
        asked_groups: Those of which it matters whether its user is in them.
        groups_of: The groups of a user by name; the system's unless told otherwise.

    Raises:
        UsageError: it cannot be told.
    """
    if peer is None:
        raise UsageError("nobody can tell who asks; ask over the agent's local socket")
    before, uid, after = table.row(peer.pid), table.user(peer.pid), table.row(peer.pid)
    if peer.pid == 0 or before is None or after is None:
        raise UsageError(
            f"process {peer.pid} cannot be seen by the agent, or has ended; ask from outside of "
            "containers, or let the agent see the host's processes"
        )
    if before.started_ticks != after.started_ticks or uid != peer.uid:
        raise UsageError(f"process {peer.pid} is not the one that has asked; ask again")
    user = user_name(peer.uid)
    # Groups of a directory service take a look over the network.
    groups = (groups_of or _groups_of)(user) & set(asked_groups) if asked_groups else ()
    return LeaseOwner(peer.uid, user, peer.pid, before.started_ticks, tuple(sorted(groups)))


def why_not_served(
    client: LeaseOwner,
    settings: BrokerSection,
    groups_of: Callable[[str], frozenset[str]] | None = None,
) -> str | None:
    """Why somebody may not ask for GPUs; `None` where he may.

    Args:
        client: Who asks.
        settings: Say who may.
        groups_of: The groups of a user by name; the system's unless told otherwise.
    """
    if settings.is_operator(client) or not (settings.users or settings.groups):
        return None
    if client.user in settings.users:
        return None
    if settings.groups and (groups_of or _groups_of)(client.user) & set(settings.groups):
        return None
    return (
        f"{client.user} may not ask for GPUs here; an operator can say so by broker.users or "
        "broker.groups of the agent's configuration"
    )


def _groups_of(user: str) -> frozenset[str]:
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        return frozenset()
    return frozenset(map(_group_name, os.getgrouplist(user, entry.pw_gid)))


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


_ASKED: Final = (*WORDS, "id", "priority", "for", "reservation")
_RESERVED: Final = (*WORDS, "id", "user", "in", "for")
_ID: Final = re.compile(r"[a-z0-9]{8,32}")
_LONGEST_NAME: Final = 256
_ID_BYTES: Final = 6


@dataclass(frozen=True, slots=True)
class BrokerApiContext:
    """What the routes draw from where GPUs are lent."""

    desk: LeaseManager
    table: ProcessTable
    clock: Clock
    settings: Callable[[], BrokerSection]


class BrokerApi:
    """Answers at once; whoever waits asks again, so that nobody holds a thread."""

    def __init__(self, office: BrokerApiContext) -> None:
        """Routes over an office."""
        self._office = office

    @property
    def routes(self) -> tuple[Route, ...]:
        """Where they are served."""
        lease, reservation = f"{LEASES_PATH}/{{id}}", f"{RESERVATIONS_PATH}/{{id}}"
        served = (
            ("POST", LEASES_PATH, _ask),
            ("GET", lease, _look_at),
            ("DELETE", lease, _end),
            ("GET", BROKER_PATH, _all),
            ("POST", RESERVATIONS_PATH, _reserve),
            ("DELETE", reservation, _cancel),
        )
        return tuple(
            Route(method, path, self._open(act, method), is_local=True)
            for method, path, act in served
        )

    def _open(
        self, act: Callable[[BrokerApiContext, LeaseOwner, WebRequest], WebResponse], method: str
    ) -> Handle:
        def handle(site: Router, request: WebRequest) -> WebResponse:
            del site
            office = self._office
            settings = office.settings()
            # Whoever waits looks once a second: no directory service is asked each time.
            groups = () if method == "GET" else settings.operator_groups
            client = client_of(request.peer, office.table, groups)
            # Whoever may not ask any more can still look at what he has, and give it back.
            is_asking = method == "POST"
            why_not = why_not_served(client, settings) if is_asking else None
            if why_not is not None:
                return WebResponse.of_text(why_not, HTTPStatus.CONFLICT)
            try:
                return act(office, client, request)
            except UsageError:
                raise
            except RightsizerError as error:
                return WebResponse.of_text(str(error), HTTPStatus.SERVICE_UNAVAILABLE)

        return handle


def _ask(office: BrokerApiContext, client: LeaseOwner, request: WebRequest) -> WebResponse:
    fields = fields_of(request.body, _ASKED, "2")
    ticket = Ticket(
        id=_id_of(fields),
        client=client,
        request=request_of(_words_of(fields)),
        asked=office.clock.time(),
        priority=_whole(fields, "priority"),
        limit_seconds=duration_of(fields.get("for")),
        reservation=text_of(fields, "reservation", _LONGEST_NAME) or None,
    )
    step = office.desk.ask(ticket)
    return _refusal(step) or _answer(office, ticket.id, client)


def _look_at(office: BrokerApiContext, client: LeaseOwner, request: WebRequest) -> WebResponse:
    asked = request.named["id"]
    owner = _owner_of(office.desk.standing, asked)
    if owner is not None and owner != client.uid:
        client = client_of(request.peer, office.table, office.settings().operator_groups)
    return _answer(office, asked, client)


def _end(office: BrokerApiContext, client: LeaseOwner, request: WebRequest) -> WebResponse:
    asked = request.named["id"]
    state = office.desk.standing.state
    record = state.lease(asked)
    if state.ticket(asked) is None and record is None:
        return _unknown("lease", asked)
    step = office.desk.end(asked, client)
    message = step.events[-1].message
    if record is not None and client.pid != record.lease.client.pid:
        message = "; ".join(filter(None, (message, orphans(record, office.table))))
    return _refusal(step) or WebResponse.of_json({"id": asked, "message": message})


def _all(office: BrokerApiContext, client: LeaseOwner, request: WebRequest) -> WebResponse:
    del client, request
    return WebResponse.of_json(broker_form(office.desk.standing, _offset(office)))


def _reserve(office: BrokerApiContext, client: LeaseOwner, request: WebRequest) -> WebResponse:
    fields = fields_of(request.body, _RESERVED, "2")
    lasts_seconds = duration_of(fields.get("for"))
    if lasts_seconds is None:
        raise UsageError("for: say how long to reserve, as in '4h'")
    ahead = fields.get("in")
    wait = nanoseconds(0.0 if ahead == "0s" else duration_of(ahead) or 0.0)
    wish = Reservation(
        id=_id_of(fields),
        user=text_of(fields, "user", _LONGEST_NAME) or client.user,
        request=request_of(_words_of(fields)),
        starts=wait,
        ends=wait + nanoseconds(lasts_seconds),
    )
    step = office.desk.reserve(
        lambda now: replace(wish, starts=now + wish.starts, ends=now + wish.ends), client
    )
    if (refusal := _refusal(step)) is not None:
        return refusal
    booking = step.state.booking(wish.id)
    form = {} if booking is None else booking_form(booking, _offset(office))
    return WebResponse.of_json({**form, "message": step.events[-1].message})


def _cancel(office: BrokerApiContext, client: LeaseOwner, request: WebRequest) -> WebResponse:
    asked = request.named["id"]
    if office.desk.standing.state.booking(asked) is None:
        return _unknown("reservation", asked)
    step = office.desk.cancel(asked, client)
    return _refusal(step) or WebResponse.of_json({"id": asked, "message": step.events[-1].message})


def _answer(office: BrokerApiContext, item_id: str, client: LeaseOwner) -> WebResponse:
    """How a ticket or a lease stands, to its owner and to operators."""
    standing = office.desk.standing
    owner = _owner_of(standing, item_id)
    is_allowed = owner is not None and (
        owner == client.uid or office.settings().is_operator(client)
    )
    messages = office.desk.messages_for(item_id)
    now = office.clock.time()
    if not is_allowed:
        return _unknown("lease", item_id)
    form = answer_form(standing, item_id, now, _offset(office), messages)
    if form is not None:
        return WebResponse.of_json(form)
    ending = standing.state.ending(item_id)
    if ending is not None:
        return WebResponse.of_text(ending.message, HTTPStatus.GONE)
    return _unknown("lease", item_id)


def _owner_of(standing: BrokerOverview, item_id: str) -> int | None:
    """The uid of whoever has a ticket or a lease, or had it before somebody ended it."""
    state = standing.state
    record, ticket, ending = state.lease(item_id), state.ticket(item_id), state.ending(item_id)
    if record is not None:
        return record.lease.client.uid
    if ticket is not None:
        return ticket.client.uid
    return None if ending is None else ending.uid


def _refusal(step: BrokerTransition) -> WebResponse | None:
    if not step.is_refused:
        return None
    return WebResponse.of_text(step.events[-1].message, HTTPStatus.CONFLICT)


def _unknown(what: str, item_id: str) -> WebResponse:
    text = f"there is no {what} '{item_id[:_LONGEST_NAME]}'; see `rightsizer queue`"
    return WebResponse.of_text(text, HTTPStatus.NOT_FOUND)


def _words_of(fields: Mapping[str, Any]) -> dict[str, str]:
    """What is asked for in words; numbers and switches may be written as such."""
    words: dict[str, str] = {}
    for name in WORDS:
        value = fields.get(name)
        if value is None:
            continue
        if isinstance(value, bool):
            words[name] = str(value).lower()
        elif isinstance(value, int):
            # The longest that is looked at; Python writes no number of ten thousand digits.
            words[name] = str(value) if abs(value) < 10**30 else "9" * 31
        else:
            words[name] = text_of(fields, name, _LONGEST_NAME)
    return words


def _whole(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 10**6:
        raise UsageError(f"{name}: is no whole number; leave it out, or write it like 0 or -1")
    return value


def _id_of(fields: Mapping[str, Any]) -> str:
    given = text_of(fields, "id", _LONGEST_NAME)
    if not given:
        return secrets.token_hex(_ID_BYTES)
    if _ID.fullmatch(given) is None:
        raise UsageError("id: write 8 to 32 small letters and digits, or leave it out")
    return given


def _offset(office: BrokerApiContext) -> Nanoseconds:
    return office.clock.wall_time() - office.clock.time()
