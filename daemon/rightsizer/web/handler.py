"""Handler of one HTTP connection: bounded request heads, answers, compression."""

from __future__ import annotations

import gzip
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from typing import TYPE_CHECKING, Final, TypeAlias
from urllib.parse import parse_qs, urlsplit

from rightsizer.exposition.negotiation import accepts_gzip
from rightsizer.web.authenticator import Admission
from rightsizer.web.local_socket import peer_of
from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.tls import ServerContext, complete_handshake, identity_of

if TYPE_CHECKING:
    from rightsizer.web.listener import WebListener


class HeadError(Exception):
    """A request that is refused as it is read; the message says why, by default the status."""

    def __init__(self, message: str = "", status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message)
        self.status = status


class RequestHead:
    """Reads lines of a head for `http.client`, and no more than is reasonable."""

    def __init__(
        self,
        source: BufferedIOBase,
        limit_bytes: int,
        timeout_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._left_bytes = source, limit_bytes
        self._clock, self._deadline = clock, clock() + timeout_seconds

    def readline(self, limit: int) -> bytes:
        """The next line.

        Raises:
            LineTooLong: the head is longer than what is taken.
            HeadError: it is not a header (RFC 9112, section 5), or goes on with the former.
            TimeoutError: the client takes too long over all of it.
        """
        if self._clock() > self._deadline:
            raise TimeoutError
        line = self._source.readline(min(limit, self._left_bytes + 1))
        self._left_bytes -= len(line)
        if self._left_bytes < 0:
            raise LineTooLong("head")
        if line.startswith((b" ", b"\t")):
            raise HeadError("a header goes on in the next line")
        if line not in _ENDS and not _FIELD.fullmatch(line):
            raise HeadError("a header is not NAME: VALUE in printable characters")
        return line


_ENDS: Final = frozenset({b"", b"\n", b"\r\n"})
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_REQUEST_LINE: Final = re.compile(_TOKEN + rb" [!-~]+ [A-Z]+/[0-9]\.[0-9]\r?\n")
"""RFC 9112, section 3."""
_FIELD: Final = re.compile(_TOKEN + rb":[\t -~\x80-\xff]*\r?\n")
"""Section 5."""
_LENGTH_DIGITS: Final = 18


Answer: TypeAlias = Callable[[WebRequest], WebResponse]
"""What turns a request into its answer."""

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
_OTHER_SITES: Final = ("cross-site", "same-site")
_LINE_LIMIT_BYTES: Final = 16384
_COMPRESSED_FROM_BYTES: Final = 1024
_GZIP_LEVEL: Final = 3


class Handler(BaseHTTPRequestHandler):
    """Speaks HTTP/1.1 with keep-alive; says nothing of itself but its name."""

    protocol_version = "HTTP/1.1"
    wbufsize = 65536
    server: WebListener

    def version_string(self) -> str:
        """The server's name without any version."""
        return "rightsizer"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name.
        """Log nothing; a scrape every few seconds is not news."""

    def setup(self) -> None:
        """Be less patient with a client that has yet to say something."""
        timeout_seconds = self.server.settings.request_timeout_seconds
        self._context: ServerContext | None = None
        self._certificate: str | None = None
        self._headers: Mapping[str, str] = {}
        if self.request.family != socket.AF_UNIX:
            self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if isinstance(self.request, ssl.SSLSocket):
            complete_handshake(self.request, timeout_seconds)
            self._certificate = identity_of(self.request)
            if isinstance(self.request.context, ServerContext):
                self._context = self.request.context
        super().setup()
        self.connection.settimeout(timeout_seconds)

    def handle_one_request(self) -> None:
        """Read one request and answer it, or close the connection."""
        try:
            self.raw_requestline = self.rfile.readline(_LINE_LIMIT_BYTES + 1)
            self.connection.settimeout(self.server.settings.request_timeout_seconds)
            if not self.raw_requestline:
                self.close_connection = True
            elif len(self.raw_requestline) > _LINE_LIMIT_BYTES:
                self.requestline = self.request_version = self.command = ""
                self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
            elif not _REQUEST_LINE.fullmatch(self.raw_requestline):
                self.requestline = self.request_version = self.command = ""
                self.send_error(
                    HTTPStatus.BAD_REQUEST, "the first line is not METHOD TARGET HTTP/1.1"
                )
            else:
                self._read_and_answer()
            self.connection.settimeout(self.server.settings.keep_alive_seconds)
        except (TimeoutError, ConnectionError):
            self.close_connection = True

    def _read_and_answer(self) -> None:
        try:
            if self.parse_request():
                self._answer(self._body())
        except HeadError as error:
            self.send_error(error.status, str(error) or None)

    def parse_request(self) -> bool:
        """Read the head; what is too long or takes too long is not read to its end."""
        settings, source = self.server.settings, self.rfile
        self.rfile = RequestHead(  # type: ignore[assignment] # Only lines are read of it.
            source, settings.head_limit_bytes, settings.request_timeout_seconds
        )
        try:
            is_read = super().parse_request()
        finally:
            self.rfile = source
        hosts = len(self.headers.get_all("Host", [])) if is_read else 1
        # A proxy may believe another one than this server; HTTP before 1.1 may do without.
        if hosts > 1:
            raise HeadError("Host is given twice")
        if not hosts and self.request_version == "HTTP/1.1":
            raise HeadError("Host is missing")
        return is_read

    def handle_expect_100(self) -> bool:
        """Let the client send its body, for which it waits."""
        goes_on = super().handle_expect_100()
        self.wfile.flush()
        return goes_on

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request in a line of text, by default the status's, and close the connection."""
        del explain
        self.close_connection = True
        status = HTTPStatus(code)
        self._send(WebResponse.of_text(message or status.phrase, status))

    def _body(self) -> bytes:
        """The body, wanted or not: the next request is found after it."""
        if "Transfer-Encoding" in self.headers:
            raise HeadError(status=HTTPStatus.LENGTH_REQUIRED)
        length, *others = self.headers.get_all("Content-Length", ["0"])
        if others:
            # A proxy may believe the other one, and take the rest of the body for a request.
            raise HeadError("Content-Length is given twice")
        if not (length.isascii() and length.isdigit() and len(length) <= _LENGTH_DIGITS):
            raise HeadError("Content-Length is not a number")
        if int(length) > self.server.settings.body_limit_bytes:
            raise HeadError(status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise HeadError("the body is shorter than Content-Length says")
        return body

    def _answer(self, body: bytes) -> None:
        try:
            target = urlsplit(self.path)
        except ValueError:
            raise HeadError("the request's target is not a URL") from None
        if self.server.guard is not None and not self.server.guard.keeps(self._context):
            # It would not be let in like this any more; a client that may comes again.
            self.close_connection = True
            return
        admission = self._admission()
        self._headers = admission.headers
        # Another guess is a new connection, which waits for its turn.
        self.close_connection |= admission.refusal is not None
        request = WebRequest(
            self.command,
            target.path,
            parse_qs(target.query),
            self.headers.get("Accept", ""),
            self.headers.get("Accept-Encoding", ""),
            body,
            peer_of(self.connection),
            admission.identity,
            self._is_cross_site(),
        )
        response = admission.refusal or self._worked_out(request)
        if response.status < HTTPStatus.BAD_REQUEST:
            self.server.prove(self.connection)
        self._send(response)

    def _worked_out(self, request: WebRequest) -> WebResponse:
        self.server.connections.mark(self.connection, is_working=True)
        try:
            return _compressed(self.server.answer(request), request.accept_encoding)
        finally:
            self.server.connections.mark(self.connection, is_working=False)

    def _admission(self) -> Admission:
        """Whether this request is answered; a client of the local socket needs no password."""
        if self.server.guard is None:
            return Admission()
        address, authorization = self.client_address[0], self.headers.get("Authorization", "")
        return self.server.guard.admit(str(address), self._certificate, authorization)

    def _is_cross_site(self) -> bool:
        origin = self.headers.get("Origin")
        try:
            is_foreign = origin is not None and urlsplit(origin).netloc != self.headers.get("Host")
        except ValueError:
            is_foreign = True
        return is_foreign or self.headers.get("Sec-Fetch-Site") in _OTHER_SITES

    def _send(self, response: WebResponse) -> None:
        # The base class would leave the status line out for a client of HTTP/0.9.
        self.request_version = self.protocol_version
        self.send_response(response.status)
        headers = SECURITY_HEADERS | dict(response.headers) | dict(self._headers)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("Cache-Control", "no-store")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)
        # Head and body leave together, so that a small answer is sent whole or not at all.
        self.wfile.flush()


def _compressed(response: WebResponse, accept_encoding: str) -> WebResponse:
    headers = {"Vary": "Accept-Encoding"} | dict(response.headers)
    body = response.body
    if (
        len(body) >= _COMPRESSED_FROM_BYTES
        and "Content-Encoding" not in headers
        and accepts_gzip(accept_encoding)
    ):
        body = gzip.compress(body, _GZIP_LEVEL, mtime=0)
        headers["Content-Encoding"] = "gzip"
    return WebResponse(body, response.content_type, response.status, headers)
