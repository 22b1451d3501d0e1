"""Authenticator of requests: who may connect, who asks, and how often."""

import base64
import binascii
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from rightsizer.web.message import WebResponse
from rightsizer.web.passwords import Passwords, PasswordVerdict
from rightsizer.web.tls import ServerContext
from rightsizer.web.web_config import RateLimit, WebConfig

_CLIENTS_MAXIMUM: Final = 1024
"""More addresses at once have the full bucket of a newcomer now and then."""


class RateLimiter:
    """Counts requests by address, so that whoever asks too often starves nobody but himself."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # When each address's bucket would have been empty; the longest unseen first.
        self._empty_since: OrderedDict[str, float] = OrderedDict()

    def allows(self, limit: RateLimit | None, client: str) -> bool:
        """Whether a client may have this request answered; it is counted if so."""
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


_ROUNDING: Final = 1e-9


_UNAUTHORIZED: Final = WebResponse.of_text(
    "Unauthorized",
    HTTPStatus.UNAUTHORIZED,
    {"WWW-Authenticate": 'Basic realm="rightsizer", charset="UTF-8"'},
)
_TOO_OFTEN: Final = WebResponse.of_text(
    "Too Many Requests", HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": "1"}
)


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """Who is at the other end of a connection, by what he shows."""

    address: str
    certificate: str | None = None
    """A name from the certificate that was verified."""
    authorization: str = ""


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a request goes on to the site."""

    refusal: WebResponse | None = None
    identity: str | None = None
    """Who asks, where he has proved it."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """What the operator wants every answer to carry."""


class Authenticator:
    """Holds every request against the web configuration that is in force."""

    def __init__(
        self,
        current: Callable[[], WebConfig],
        passwords: Passwords,
        limiter: RateLimiter | None = None,
    ) -> None:
        """A guard over a configuration that may change at any time.

        Args:
            current: The configuration; asked for at each connection and each request.
            passwords: Checks the users' passwords.
            limiter: Counts requests.
        """
        self._current, self._passwords = current, passwords
        self._limiter = limiter or RateLimiter()

    @property
    def context(self) -> ServerContext | None:
        """How a new connection is to be secured."""
        return self._current().tls

    def keeps(self, context: ServerContext | None) -> bool:
        """Whether a connection that was secured so would be so today, but for its certificates."""
        now = self._current().tls
        return _policy(now) == _policy(context)

    def admit(self, caller: ClientIdentity) -> Admission:
        """Whether a request is answered, and as whose."""
        config = self._current()
        if not self._limiter.allows(config.rate_limit, caller.address):
            return Admission(_TOO_OFTEN, headers=config.headers)
        if not config.users:
            return Admission(identity=caller.certificate, headers=config.headers)
        return self._authenticated(config, caller)

    def _authenticated(self, config: WebConfig, caller: ClientIdentity) -> Admission:
        credentials = _credentials(caller.authorization)
        if credentials is None:
            return Admission(_UNAUTHORIZED, headers=config.headers)
        name, password = credentials
        verdict = self._passwords.check(config.users, name, password, caller.address)
        if verdict is PasswordVerdict.RIGHT:
            return Admission(identity=f"user:{name}", headers=config.headers)
        refusal = _TOO_OFTEN if verdict is PasswordVerdict.BUSY else _UNAUTHORIZED
        return Admission(refusal, headers=config.headers)


def _policy(context: ServerContext | None) -> object:
    return None if context is None else context.policy


def _credentials(authorization: str) -> tuple[str, bytes] | None:
    """Name and password of an `Authorization` header (RFC 7617)."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (name.decode(), password) if colon else None
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
