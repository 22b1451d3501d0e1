"""HTTP API of leases and reservations on the local socket; the kernel identifies clients."""

import re
import secrets
from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from typing import Any, Final

from msgspec.structs import replace

from rightsizer.broker.lease import LeaseOwner, Reservation, Ticket
from rightsizer.broker.lease_encoder import booking_document, broker_document, lease_answer_document
from rightsizer.broker.lease_manager import BrokerOverview, LeaseManager
from rightsizer.broker.operators import groups_of_user
from rightsizer.broker.process_tracker import orphans
from rightsizer.broker.request import ROUTES, WORDS, request_of
from rightsizer.broker.settings import BrokerSettings
from rightsizer.broker.transitions import BrokerTransition
from rightsizer.host.process_table import ProcessTable, user_name
from rightsizer.io.clock import Clock, wall_offset
from rightsizer.model.values import RightsizerError, UsageError, nanoseconds
from rightsizer.web.message import (
    Answer,
    SocketPeer,
    WebRequest,
    WebResponse,
    duration_of,
    fields_of,
    text_of,
)
from rightsizer.web.router import Route

_TICKET_FIELDS: Final = (*WORDS, "id", "priority", "for", "reservation")
_RESERVATION_FIELDS: Final = (*WORDS, "id", "user", "in", "for")
_ID: Final = re.compile(r"[a-z0-9]{8,32}")
_LONGEST_NAME: Final = 256
_ID_BYTES: Final = 6


def client_of(
    peer: SocketPeer | None,
    table: ProcessTable,
    asked_groups: Collection[str] = (),
    groups_of: Callable[[str], frozenset[str]] = groups_of_user,
) -> LeaseOwner:
    """Identify the requesting process.

    Reads its start before and after its user, to detect that its pid was reused in between.

    Looks up membership of only `asked_groups`, with `groups_of` (by default the system's groups).

    Raises:
        UsageError: the process cannot be identified.
    """
    if peer is None:
        raise UsageError("the caller is unknown; ask over the agent's local socket")
    before = table.row(peer.pid)
    uid = table.user(peer.pid)
    after = table.row(peer.pid)
    if peer.pid == 0 or before is None or after is None:
        raise UsageError(
            f"process {peer.pid} cannot be seen by the agent, or has ended; ask from outside of "
            "containers, or let the agent see the host's processes"
        )
    if before.started_ticks != after.started_ticks or uid != peer.uid:
        raise UsageError(f"process {peer.pid} is not the one that has asked; ask again")
    user = user_name(peer.uid)
    # Groups of a directory service need network requests.
    groups = groups_of(user) & set(asked_groups) if asked_groups else ()
    return LeaseOwner(peer.uid, user, peer.pid, before.started_ticks, tuple(sorted(groups)))


def why_not_served(
    client: LeaseOwner,
    settings: BrokerSettings,
    groups_of: Callable[[str], frozenset[str]] = groups_of_user,
) -> str | None:
    """Reason why a client may not request GPUs, or `None`; `groups_of` as in `client_of`."""
    if settings.is_operator(client) or not (settings.users or settings.groups):
        return None
    may_ask = client.user in settings.users
    if may_ask or (settings.groups and groups_of(client.user) & set(settings.groups)):
        return None
    return (
        f"{client.user} may not ask for GPUs here; an operator can say so by broker.users or "
        "broker.groups of the agent's configuration"
    )


class BrokerApi:
    """Routes that answer immediately; clients poll, so that none blocks a thread."""

    def __init__(
        self,
        manager: LeaseManager,
        table: ProcessTable,
        clock: Clock,
        settings: Callable[[], BrokerSettings],
    ) -> None:
        self._manager = manager
        self._table = table
        self._clock = clock
        self._settings = settings

    @property
    def routes(self) -> tuple[Route, ...]:
        """Routes for the local socket."""
        acts = self._ask, self._look_up, self._end, self._all, self._reserve, self._cancel
        return tuple(
            Route(method, path, self._handle(act, method), is_local=True, is_for_users=True)
            for (method, path), act in zip(ROUTES, acts, strict=True)
        )

    def _handle(self, act: Callable[[LeaseOwner, WebRequest], WebResponse], method: str) -> Answer:
        def handle(request: WebRequest) -> WebResponse:
            settings = self._settings()
            # Clients poll every second: do not query a directory service each time.
            groups = () if method == "GET" else settings.operator_groups
            client = client_of(request.peer, self._table, groups)
            # A client that lost its permission can still inspect and return its leases.
            why_not = why_not_served(client, settings) if method == "POST" else None
            if why_not is not None:
                return WebResponse.of_text(why_not, HTTPStatus.CONFLICT)
            try:
                return act(client, request)
            except UsageError:
                raise
            except RightsizerError as error:
                return WebResponse.of_text(str(error), HTTPStatus.SERVICE_UNAVAILABLE)

        return handle

    def _ask(self, client: LeaseOwner, request: WebRequest) -> WebResponse:
        fields = fields_of(request.body, _TICKET_FIELDS, "2")
        ticket = Ticket(
            id=_id_of(fields),
            client=client,
            request=request_of(_words_of(fields)),
            asked=self._clock.time(),
            priority=_whole(fields, "priority"),
            limit_seconds=duration_of(fields.get("for")),
            reservation=text_of(fields, "reservation", _LONGEST_NAME) or None,
        )
        step = self._manager.ask(ticket)
        return _refusal(step) or self._answer(ticket.id, client)

    def _look_up(self, client: LeaseOwner, request: WebRequest) -> WebResponse:
        item_id = request.named["id"]
        owner = _owner_of(self._manager.overview, item_id)
        if owner is not None and owner != client.uid:
            client = client_of(request.peer, self._table, self._settings().operator_groups)
        return self._answer(item_id, client)

    def _end(self, client: LeaseOwner, request: WebRequest) -> WebResponse:
        item_id = request.named["id"]
        state = self._manager.overview.state
        record = state.lease(item_id)
        if state.ticket(item_id) is None and record is None:
            return _unknown("lease", item_id)
        step = self._manager.end(item_id, client)
        message = step.events[-1].message
        if record is not None and client.pid != record.lease.client.pid:
            message = "; ".join(filter(None, (message, orphans(record, self._table))))
        return _refusal(step) or WebResponse.of_json({"id": item_id, "message": message})

    def _all(self, client: LeaseOwner, request: WebRequest) -> WebResponse:
        del client, request
        return WebResponse.of_json(
            broker_document(self._manager.overview, wall_offset(self._clock))
        )

    def _reserve(self, client: LeaseOwner, request: WebRequest) -> WebResponse:
        fields = fields_of(request.body, _RESERVATION_FIELDS, "2")
        if (lasts_seconds := duration_of(fields.get("for"))) is None:
            raise UsageError("for: say how long to reserve, as in '4h'")
        ahead = fields.get("in")
        wait = nanoseconds(0.0 if ahead == "0s" else duration_of(ahead) or 0.0)
        relative = Reservation(
            id=_id_of(fields),
            user=text_of(fields, "user", _LONGEST_NAME) or client.user,
            request=request_of(_words_of(fields)),
            starts=wait,
            ends=wait + nanoseconds(lasts_seconds),
        )
        step = self._manager.reserve(
            lambda now: replace(relative, starts=now + relative.starts, ends=now + relative.ends),
            client,
        )
        if (refusal := _refusal(step)) is not None:
            return refusal
        booking = step.state.booking(relative.id)
        document = {} if booking is None else booking_document(booking, wall_offset(self._clock))
        return WebResponse.of_json({**document, "message": step.events[-1].message})

    def _cancel(self, client: LeaseOwner, request: WebRequest) -> WebResponse:
        item_id = request.named["id"]
        if self._manager.overview.state.booking(item_id) is None:
            return _unknown("reservation", item_id)
        step = self._manager.cancel(item_id, client)
        document = {"id": item_id, "message": step.events[-1].message}
        return _refusal(step) or WebResponse.of_json(document)

    def _answer(self, item_id: str, client: LeaseOwner) -> WebResponse:
        overview = self._manager.overview
        now = self._clock.time()
        owner = _owner_of(overview, item_id)
        messages = self._manager.messages_for(item_id)
        if owner is None or not (owner == client.uid or self._settings().is_operator(client)):
            return _unknown("lease", item_id)
        offset = wall_offset(self._clock)
        document = lease_answer_document(overview, item_id, now, offset, messages)
        if document is not None:
            return WebResponse.of_json(document)
        if (ending := overview.state.ending(item_id)) is not None:
            return WebResponse.of_text(ending.message, HTTPStatus.GONE)
        return _unknown("lease", item_id)


def _owner_of(overview: BrokerOverview, item_id: str) -> int | None:
    """Owner's uid of a ticket or lease, including one ended by another client."""
    state = overview.state
    record = state.lease(item_id)
    ticket = state.ticket(item_id)
    ending = state.ending(item_id)
    if (item := record.lease if record else ticket) is not None:
        return item.client.uid
    return None if ending is None else ending.uid


def _refusal(step: BrokerTransition) -> WebResponse | None:
    if not step.is_refused:
        return None
    return WebResponse.of_text(step.events[-1].message, HTTPStatus.CONFLICT)


def _unknown(what: str, item_id: str) -> WebResponse:
    text = f"there is no {what} '{item_id[:_LONGEST_NAME]}'; see `rightsizer queue`"
    return WebResponse.of_text(text, HTTPStatus.NOT_FOUND)


def _words_of(fields: Mapping[str, Any]) -> dict[str, str]:
    """Extract the request's words as text; accepts JSON numbers and booleans."""
    words: dict[str, str] = {}
    for name in WORDS:
        if (value := fields.get(name)) is None:
            continue
        if isinstance(value, bool):
            words[name] = str(value).lower()
        elif isinstance(value, int):
            # Bounded, since Python refuses to format integers with thousands of digits.
            words[name] = str(value) if abs(value) < 10**30 else "9" * 31
        else:
            words[name] = text_of(fields, name, _LONGEST_NAME)
    return words


def _whole(fields: Mapping[str, Any], name: str) -> int:
    if (value := fields.get(name)) is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 10**6:
        raise UsageError(f"{name}: is no whole number; leave it out, or write it like 0 or -1")
    return value


def _id_of(fields: Mapping[str, Any]) -> str:
    if not (given := text_of(fields, "id", _LONGEST_NAME)):
        return secrets.token_hex(_ID_BYTES)
    if _ID.fullmatch(given) is None:
        raise UsageError("id: write 8 to 32 small letters and digits, or leave it out")
    return given
