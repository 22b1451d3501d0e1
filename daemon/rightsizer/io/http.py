"""HTTP client for JSON and text, with few retries and failures as values."""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit

from msgspec.structs import replace

from rightsizer import __version__
from rightsizer.io.codec import encode
from rightsizer.io.http_result import (
    Excess,
    Failure,
    FailureKind,
    Response,
    Result,
    cause,
    is_about_a_file,
    remedy,
    retry_after_seconds,
)
from rightsizer.io.http_settings import HttpSettings, checked_url

if TYPE_CHECKING:
    import urllib3


_RESERVED: Final = re.compile(rb"([^A-Za-z0-9_.~-])")
_QUOTED: Final = {bytes((byte,)): quote_plus(bytes((byte,))).encode() for byte in range(256)}
_RETRIED_STATUSES: Final = frozenset({429, 502, 503, 504})
_IDEMPOTENT_METHODS: Final = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
_MESSAGE_LENGTH: Final = 300
_ANSWER_LENGTH: Final = 65536
_CHUNK_BYTES: Final = 65536
_PLAIN_ANSWER: Final = "wrong_version_number"
"""OpenSSL's error for an answer that is not TLS."""
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS: Final = frozenset({"Accept", "User-Agent", "Content-Type"})


def form_text(pairs: Iterable[tuple[str, str]]) -> bytes:
    """Encode as `urlencode(pairs)` does, five times as fast for long values.

    `urlencode` handles each character separately; a query about thousands of devices has
    200 KB.
    """
    return b"&".join(_quoted(name) + b"=" + _quoted(value) for name, value in pairs)


def _quoted(text: str) -> bytes:
    parts = _RESERVED.split(text.encode())
    parts[1::2] = map(_QUOTED.__getitem__, parts[1::2])
    return b"".join(parts)


class HttpClient:
    """Client for one server, JSON by default.

    Args:
        base_url: Address that every path is appended to; may have a path itself.
        settings: Timeouts and retries.
        accept: Expected content type; anything but JSON is returned as text.
        token: Returns the bearer token for each request, so that it may rotate; its `OSError`
            or `ValueError` becomes a failure.
        headers: Returns further headers for each request, secret like the token.
        open_headers: Further headers that messages may contain.
        parse: Converts the bytes of a successful body, regardless of `accept`; its exceptions
            reach the caller.
        certificate: Files of the client certificate and its key, if any.
        proxy: Address of the proxy to go through, if any; may contain a password.
        connections: Number of pooled connections, for as many calling threads.
        has_secret_paths: Whether paths and queries are secret too, as for many webhooks.
        sleep: Waits between attempts; if it returns true, like the `wait` of a set event, no
            more attempts are made.
        jitter: Returns a random number from 0 to 1.
        wall_seconds: Time since the epoch, for a `Retry-After` date.

    Raises:
        ValueError: the address is not `http` or `https`, or contains a password.
    """

    def __init__(  # noqa: PLR0913 - the outside world comes in as arguments.
        self,
        base_url: str,
        settings: HttpSettings | None = None,
        *,
        accept: str = _JSON,
        token: Callable[[], str | None] = lambda: None,
        headers: Callable[[], Mapping[str, str]] = dict,
        open_headers: Mapping[str, str] | None = None,
        parse: Callable[[bytes], Any] | None = None,
        certificate: tuple[str, str] | None = None,
        proxy: str | None = None,
        connections: int = 1,
        has_secret_paths: bool = False,
        sleep: Callable[[float], object] = time.sleep,
        jitter: Callable[[], float] = random.random,
        wall_seconds: Callable[[], float] = time.time,
    ) -> None:
        self.base_url = checked_url(base_url).rstrip("/")
        self._settings = settings or HttpSettings()
        self._accept = accept
        self._token = token
        self._parse = parse
        self._further_headers = headers
        self._open_headers = dict(open_headers or {})
        self._certificate = certificate
        self._proxy = proxy
        self._connections = connections
        self._has_secret_paths = has_secret_paths
        self._sleep = sleep
        self._jitter = jitter
        self._wall_seconds = wall_seconds
        self._pool: urllib3.PoolManager | None = None
        self._pool_lock = threading.Lock()

    def request(  # noqa: PLR0913 - what a request has.
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]] = (),
        body: Any = None,
        form: Sequence[tuple[str, str]] | None = None,
        idempotent: bool | None = None,
    ) -> Result:
        """Send a request and read its answer.

        `path` starts with a slash and is appended to the base address; keys of pairs may repeat;
        the body is sent as JSON unless `None`. `idempotent` states whether repeating the request is
        harmless; by default it depends on the method. Other requests are retried only if nothing
        was sent.
        """
        try:
            headers = self._headers(_JSON if body is not None else _FORM if form else None)
        except (OSError, ValueError) as error:
            return Failure(FailureKind.CREDENTIAL, str(error))
        url = self.base_url + path + ("?" + urlencode(query) if query else "")
        payload = None if body is None else encode(body)
        if form:
            payload = form_text(form)
        may_repeat = method in _IDEMPOTENT_METHODS if idempotent is None else idempotent
        result = self._try(method, url, headers, payload)
        for attempt in range(1, self._settings.tries):
            if isinstance(result, Response) or not _is_worth_retrying(result, may_repeat):
                break
            if (pause := result.retry_after_seconds) is None:
                pause = self._settings.backoff_seconds * 2 ** (attempt - 1)
                pause *= 0.5 + self._jitter() / 2
            elif pause > self._settings.retry_after_maximum_seconds:
                break
            if self._sleep(pause):
                break
            result = self._try(method, url, headers, payload)
        if isinstance(result, Response):
            return result
        parts = urlsplit(url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        # Redact secrets that the server may have echoed; messages have only a line or two.
        message = result.message
        answer = result.answer
        for secret in self._secrets(headers, target):
            message = message.replace(secret, "***")
            answer = answer.replace(secret, "***")
        return replace(result, message=message[:_MESSAGE_LENGTH], answer=answer)

    def close(self) -> None:
        """Close idle connections; the next request opens new ones."""
        if self._pool is not None:
            self._pool.clear()

    def _headers(self, content_type: str | None) -> dict[str, str]:
        headers = {"Accept": self._accept, "User-Agent": f"rightsizer/{__version__}"}
        if content_type is not None:
            headers["Content-Type"] = content_type
        if (token := self._token()) is not None:
            if not token.isascii() or not token.isprintable():
                raise ValueError("the token has characters that no header may hold")
            headers["Authorization"] = f"Bearer {token}"
        for name, value in (*self._open_headers.items(), *self._further_headers().items()):
            if not _HEADER_NAME.fullmatch(name) or not value.isascii() or not value.isprintable():
                raise ValueError("a further header has characters that no header may hold")
            headers[name] = value
        return headers

    def _secrets(self, headers: Mapping[str, str], target: str) -> list[str]:
        """Strings that no message may contain, longest first."""
        authorization = headers.get("Authorization", "")
        public_headers = _OWN_HEADERS | self._open_headers.keys()
        secrets = {value for name, value in headers.items() if name not in public_headers}
        secrets.add(authorization.removeprefix("Bearer "))
        if self._has_secret_paths:
            secrets |= {target, target.partition("?")[0], target.partition("?")[2]}
        return sorted(secrets - {"", "/"}, key=lambda secret: (-len(secret), secret))

    def _try(self, method: str, url: str, headers: dict[str, str], payload: bytes | None) -> Result:
        import urllib3  # noqa: PLC0415 - costs 10 MB and 50 ms; most agents never need it.
        from urllib3 import exceptions  # noqa: PLC0415 - the same.

        peer = urlsplit(url).netloc
        try:
            answer = self._pooled().request(
                method,
                url,
                body=payload,
                headers=headers,
                timeout=urllib3.Timeout(self._settings.timeout_seconds),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            with answer:
                raw = self._read(answer)
        except (exceptions.NewConnectionError, exceptions.ConnectTimeoutError) as error:
            return Failure(FailureKind.AWAY, f"{peer} cannot be reached: {cause(error)}")
        except (exceptions.ReadTimeoutError, TimeoutError):
            message = f"{peer} did not answer within {self._settings.timeout_seconds:g} s"
            return Failure(FailureKind.INTERRUPTED, message, excess=Excess.TIME)
        except (exceptions.ProxyError, exceptions.ProxySchemeUnknown) as error:
            proxy = urlsplit(self._proxy or "").netloc.rpartition("@")[2]
            why = cause(getattr(error, "original_error", error))
            message = (
                f"{peer} cannot be reached through the proxy {proxy}: {why}; "
                "NO_PROXY names servers to reach without it"
            )
            return Failure(FailureKind.AWAY, message)
        except (exceptions.SSLError, OSError) as error:
            if _PLAIN_ANSWER in cause(error).lower():
                message = f"{peer} speaks no TLS; write http for https in its address"
                return Failure(FailureKind.MALFORMED, message)
            message = (
                f"{peer} cannot be trusted: {cause(error)}{remedy(error, self._settings.ca_file)}"
            )
            return Failure(FailureKind.UNTRUSTED, message)
        except exceptions.HTTPError as error:
            if is_about_a_file(error):
                files = " and ".join(self._certificate or ())
                message = f"{peer} is shown no certificate: {files}: {cause(error)}"
                return Failure(FailureKind.UNTRUSTED, message)
            return Failure(FailureKind.INTERRUPTED, f"{peer} broke off: {cause(error)}")
        return self._judge(peer, answer, raw)

    def _pooled(self) -> urllib3.PoolManager:
        from rightsizer.io.http_pool import pool_manager  # noqa: PLC0415 - as above.

        with self._pool_lock:
            if self._pool is None:
                certificate, key = self._certificate or (None, None)
                self._pool = pool_manager(
                    self._proxy,
                    num_pools=1,
                    maxsize=self._connections,
                    ca_certs=self._settings.ca_file or None,
                    cert_file=certificate,
                    key_file=key,
                )
            return self._pool

    def _read(self, answer: urllib3.BaseHTTPResponse) -> bytes | None:
        parts: list[bytes] = []
        size = 0
        while chunk := answer.read1(_CHUNK_BYTES):
            size += len(chunk)
            if size > self._settings.response_maximum_bytes:
                return None
            parts.append(chunk)
        return b"".join(parts)

    def _judge(self, peer: str, answer: urllib3.BaseHTTPResponse, raw: bytes | None) -> Result:
        if raw is None:
            maximum_bytes = self._settings.response_maximum_bytes
            message = f"{peer} answered with more than {maximum_bytes} bytes"
            return Failure(FailureKind.MALFORMED, message, excess=Excess.SIZE)
        if 200 <= answer.status < 300:  # noqa: PLR2004 - HTTP's own numbers.
            if self._parse is not None:
                return Response(answer.status, self._parse(raw), len(raw))
            if self._accept != _JSON:
                return Response(answer.status, raw.decode(errors="replace"), len(raw))
            try:
                return Response(answer.status, json.loads(raw) if raw.strip() else None, len(raw))
            except (ValueError, RecursionError):
                message = (
                    f"{peer} answered {answer.status} with something that is not JSON; "
                    "is a login page or a proxy in the way?"
                )
                return Failure(FailureKind.MALFORMED, message, answer.status)
        where = answer.headers.get("Location")
        message = f"{peer} answered {answer.status}"
        if where is not None:
            message += f" and points to {where}; use the address that it points to"
        elif text := " ".join(raw.decode(errors="replace").split()):
            message += f": {text}"
        return Failure(
            FailureKind.REFUSED,
            message,
            answer.status,
            retry_after_seconds(answer.headers.get("Retry-After"), self._wall_seconds()),
            answer=raw[:_ANSWER_LENGTH].decode(errors="replace"),
        )


def _is_worth_retrying(failure: Failure, may_repeat: bool) -> bool:  # noqa: FBT001 - private.
    if failure.kind is FailureKind.AWAY:
        return True
    # A request that timed out would probably time out again.
    is_broken_off = failure.kind is FailureKind.INTERRUPTED and failure.excess is None
    return may_repeat and (is_broken_off or failure.status in _RETRIED_STATUSES)
