"""Authentication of requests: users, password checks of bounded cost, limits, queues."""

import base64
import binascii
import hashlib
import hmac
import itertools
import secrets
import socket
import ssl
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, auto
from functools import partial
from http import HTTPStatus
from typing import Final

from msgspec import Struct

from rightsizer.web.message import Admission, WebResponse
from rightsizer.web.settings import PasswordSettings
from rightsizer.web.tls import ServerContext, complete_handshake, identity_of, wrap_connection
from rightsizer.web.web_config import RateLimit, WebConfig

_ADDRESSES_MAXIMUM: Final = 1024
_PATIENCE_SECONDS: Final = 0.5


class ConnectionQueue:
    """Admits connections one after another while others use their share of a core.

    A handshake and a refusal cost the server a thousand times what they cost an attacker. The CPU
    time of refused connections delays all later ones; addresses that have been answered before go
    first. Without refusals there is no delay.
    """

    def __init__(self, settings: PasswordSettings) -> None:
        self._settings = settings
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self.waiting: list[tuple[bool, int]] = []
        """Whether an address is unknown, and a ticket number; the lowest goes first."""
        self._free_at = time.monotonic()
        self._known: OrderedDict[str, None] = OrderedDict()

    def has_room(self, address: str) -> bool:
        """Whether another connection may wait; known addresses have twice the room.

        Waits briefly for room; meanwhile new connections wait in the kernel.
        """
        with self._changed:
            fold = 2 if address in self._known else 1
            maximum = fold * self._settings.waiting_maximum
            return self._changed.wait_for(lambda: len(self.waiting) < maximum, _PATIENCE_SECONDS)

    def enter(self, address: str) -> bool:
        """Wait for a turn; return `False` on timeout."""
        with self._changed:
            ticket = (address not in self._known, next(self._numbers))
            self.waiting.append(ticket)
            deadline = time.monotonic() + self._settings.wait_seconds
            try:
                while (rest := self._rest(ticket)) > 0.0:
                    left = deadline - time.monotonic()
                    if left <= 0.0:
                        return False
                    self._changed.wait(min(rest, left))
                return True
            finally:
                self.waiting.remove(ticket)
                self._changed.notify_all()

    def leave(self, address: str, cpu_seconds: float, *, was_answered: bool) -> None:
        """Record the CPU time of a connection, and whether it was answered."""
        with self._changed:
            if was_answered:
                self._known[address] = None
                self._known.move_to_end(address)
                if len(self._known) > _ADDRESSES_MAXIMUM:
                    self._known.popitem(last=False)
            else:
                begin = max(self._free_at, time.monotonic())
                self._free_at = begin + cpu_seconds / self._settings.share_ratio
            self._changed.notify_all()

    def _rest(self, ticket: tuple[bool, int]) -> float:
        if min(self.waiting) != ticket:
            return self._settings.wait_seconds
        return self._free_at - time.monotonic()


class FairQueue:
    """Queue of turns; refuses clients if the wait or the queue is too long."""

    def __init__(self, waiting_maximum: int, waiting_per_client: int, wait_seconds: float) -> None:
        self._maximum = waiting_maximum
        self._per_client = waiting_per_client
        self._wait_seconds = wait_seconds
        self._changed = threading.Condition()
        # The first entry has the turn.
        self._queue: deque[tuple[str, object]] = deque()

    @contextmanager
    def turn(self, client: str) -> Iterator[bool]:
        """Wait for a turn and hold it for the block; yields `False` if there is none."""
        ticket = (client, object())
        with self._changed:
            is_queued = self._has_room(client)
            if is_queued:
                self._queue.append(ticket)
            has_turn = is_queued and self._changed.wait_for(
                lambda: self._queue[0] is ticket, self._wait_seconds
            )
        try:
            yield has_turn
        finally:
            if is_queued:
                with self._changed:
                    self._queue.remove(ticket)
                    self._changed.notify_all()

    def _has_room(self, client: str) -> bool:
        waiting_count = sum(waiting == client for waiting, _ in self._queue)
        # The client with the turn no longer waits.
        is_first = bool(self._queue) and self._queue[0][0] == client
        return waiting_count - is_first < self._per_client and len(self._queue) <= self._maximum


_LONGEST_BYTES: Final = 72
"""bcrypt ignores bytes beyond; so did the program that made the hash."""
_UNKNOWN_USER: Final = b"QOauhQNbBCuQDKes6eFzPe3JbmNeyqFmBMLtIfBZ9v8nKcpdxBVoi"
"""Salt and digest of a password that nobody has."""


class PasswordVerdict(Enum):
    """Result of a password check."""

    RIGHT = auto()
    WRONG = auto()
    BUSY = auto()
    """Not checked: too many are waiting."""


class Passwords:
    """Checks passwords against bcrypt hashes; thread-safe.

    Right and wrong passwords are cached separately, so that guesses cannot evict a client's own
    password, which would then wait for its check behind all guesses.
    """

    def __init__(
        self,
        settings: PasswordSettings,
        *,
        clock: Callable[[], float] = time.perf_counter,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings = settings
        self._clock = clock
        self._pause = pause
        self._secret = secrets.token_bytes()
        self._right: dict[bytes, None] = {}
        self._wrong: dict[bytes, None] = {}
        self._turns = FairQueue(
            settings.waiting_maximum, settings.waiting_per_client, settings.wait_seconds
        )

    def check(
        self, users: Mapping[str, bytes], name: str, password: bytes, client: str
    ) -> PasswordVerdict:
        """Check a name and password against the users (hashes by name)."""
        # An unknown name takes as long as a known one.
        costliest = max((hashed[:7] for hashed in users.values()), key=lambda head: head[4:6])
        hashed = users.get(name) or costliest + _UNKNOWN_USER
        key = self._key(name.encode(), hashed, password)
        if key in self._right:
            return PasswordVerdict.RIGHT
        if key in self._wrong:
            return PasswordVerdict.WRONG
        with self._turns.turn(client) as has_turn:
            if not has_turn:
                return PasswordVerdict.BUSY
            # Another request with the same password may have been checked meanwhile.
            if key in self._right:
                return PasswordVerdict.RIGHT
            started = self._clock()
            if _matches(password, hashed) and name in users:
                self._remember(key, self._right)
                return PasswordVerdict.RIGHT
            self._remember(key, self._wrong)
            seconds = self._clock() - started
            rest = seconds / self.settings.share_ratio - seconds
            self._pause(min(rest, self.settings.pause_maximum_seconds))
            return PasswordVerdict.WRONG

    def _remember(self, key: bytes, cache: dict[bytes, None]) -> None:
        """Add a key and evict the oldest beyond the limit; requires the turn."""
        cache[key] = None
        if len(cache) > self.settings.remembered_maximum:
            del cache[next(iter(cache))]

    def _key(self, *parts: bytes) -> bytes:
        """Return a keyed digest, from which a password cannot be recovered."""
        digest = hmac.new(self._secret, digestmod=hashlib.sha256)
        for part in parts:
            digest.update(len(part).to_bytes(8) + part)
        return digest.digest()


def _matches(password: bytes, hashed: bytes) -> bool:
    # Imported on use: not needed without users.
    import bcrypt  # noqa: PLC0415

    try:
        return bcrypt.checkpw(password[:_LONGEST_BYTES], hashed)
    except ValueError:
        return False


_CLIENTS_MAXIMUM: Final = 1024
"""With more concurrent addresses, evicted ones regain a full bucket."""
_ROUNDING: Final = 1e-9


class RateLimiter:
    """Token buckets by address, so that a frequent client cannot starve others."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # Time at which each bucket would have been empty; least recently seen first.
        self._empty_since: OrderedDict[str, float] = OrderedDict()

    def allows(self, limit: RateLimit | None, client: str) -> bool:
        """Whether a request is within the limit; if so, it is counted."""
        if limit is None:
            return True
        now = self._clock()
        with self._lock:
            full = now - limit.burst * limit.interval_seconds
            empty_since = max(self._empty_since.get(client, full), full)
            is_allowed = now - empty_since >= limit.interval_seconds * (1.0 - _ROUNDING)
            if is_allowed:
                empty_since += limit.interval_seconds
            self._empty_since[client] = empty_since
            self._empty_since.move_to_end(client)
            if len(self._empty_since) > _CLIENTS_MAXIMUM:
                self._empty_since.popitem(last=False)
        return is_allowed


_UNAUTHORIZED: Final = WebResponse.of_text(
    "Unauthorized",
    HTTPStatus.UNAUTHORIZED,
    {"WWW-Authenticate": 'Basic realm="rightsizer", charset="UTF-8"'},
)
_TOO_OFTEN: Final = WebResponse.of_text(
    "Too Many Requests", HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": "1"}
)


class ConnectionSecurity(Struct, frozen=True):
    """Security of a connection, and the identity in its verified client certificate."""

    context: ServerContext | None = None
    certificate: str | None = None


class Authenticator:
    """Checks requests against the web configuration in force."""

    def __init__(self, current: Callable[[], WebConfig], passwords: Passwords) -> None:
        self._current = current
        self._passwords = passwords
        self._limiter = RateLimiter()
        self.connections = ConnectionQueue(passwords.settings)

    @property
    def context(self) -> ServerContext | None:
        """TLS context for new connections, or `None`."""
        return self._current().tls

    def wrap(
        self, connection: socket.socket, replace: Callable[[socket.socket, socket.socket], None]
    ) -> socket.socket:
        """Wrap the connection for TLS if configured; the handshake follows later.

        Raises:
            OSError: the client is gone.
        """
        context = self.context
        return connection if context is None else wrap_connection(connection, context, replace)

    def handshake(self, connection: socket.socket, timeout_seconds: float) -> ConnectionSecurity:
        """Perform the TLS handshake of a connection.

        Raises:
            OSError: the handshake failed, timed out, or the client is not allowed.
        """
        if not isinstance(connection, ssl.SSLSocket):
            return ConnectionSecurity()
        complete_handshake(connection, timeout_seconds)
        context = connection.context
        return ConnectionSecurity(
            context if isinstance(context, ServerContext) else None, identity_of(connection)
        )

    def is_current(self, context: ServerContext | None) -> bool:
        """Whether a connection's TLS policy is still in force; certificates may have rotated."""
        now = self._current().tls
        return (now and now.policy) == (context and context.policy)

    def admit(self, address: str, certificate: str | None, authorization: str) -> Admission:
        """Authenticate and limit a request.

        `certificate` is a name from the client's verified certificate.
        """
        config = self._current()
        admission = partial(Admission, headers=config.headers)
        if not self._limiter.allows(config.rate_limit, address):
            return admission(_TOO_OFTEN)
        if not config.users:
            return admission(identity=certificate)
        if (credentials := _credentials(authorization)) is None:
            return admission(_UNAUTHORIZED)
        name, password = credentials
        verdict = self._passwords.check(config.users, name, password, address)
        if verdict is PasswordVerdict.RIGHT:
            return admission(identity=f"user:{name}")
        return admission(_TOO_OFTEN if verdict is PasswordVerdict.BUSY else _UNAUTHORIZED)


def _credentials(authorization: str) -> tuple[str, bytes] | None:
    """Parse name and password of an `Authorization` header (RFC 7617)."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (name.decode(), password) if colon else None
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
