"""Handler of one HTTP connection: bounded request heads, answers, compression."""

from __future__ import annotations

import gzip
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from io import BufferedIOBase
from socketserver import StreamRequestHandler
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

from rightsizer.exposition.negotiation import accepts_gzip
from rightsizer.web.local_socket import peer_of
from rightsizer.web.message import Admission, WebRequest, WebResponse

if TYPE_CHECKING:
    from rightsizer.web.listener import WebListener


class HeadError(Exception):
    """An invalid request head; the message defaults to the status."""

    def __init__(self, message: str = "", status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message or status.phrase)
        self.status = status


class RequestHead(Struct, frozen=True):
    """First line and fields of a request (RFC 9112, sections 3 and 5)."""

    method: str
    target: str
    version: str
    fields: Mapping[str, Sequence[str]]
    """By lower-case name."""

    def value(self, name: str) -> str:
        """Return all values of a field joined; empty if absent."""
        return ", ".join(self.fields.get(name, ()))

    @property
    def is_last(self) -> bool:
        """Whether the client closes the connection after this request."""
        wanted = self.value("connection").lower()
        return wanted == "close" or (self.version < _VERSION and wanted != "keep-alive")


def read_head(
    first_line: bytes,
    source: BufferedIOBase,
    limit_bytes: int,
    timeout_seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> RequestHead:
    """Read the head that begins with a line, within limits of size and time.

    Raises:
        HeadError: it is malformed or too long.
        TimeoutError: the client takes too long.
    """
    if len(first_line) > _LINE_LIMIT_BYTES:
        raise HeadError(status=HTTPStatus.REQUEST_URI_TOO_LONG)
    match = _REQUEST_LINE.fullmatch(first_line)
    if match is None:
        raise HeadError("the first line is not METHOD TARGET HTTP/1.1")
    method, target, version = (part.decode() for part in match.groups())
    if version >= "2":
        raise HeadError(status=HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
    fields: dict[str, list[str]] = {}
    for line in _head_lines(source, limit_bytes, clock, clock() + timeout_seconds):
        field = _FIELD.fullmatch(line)
        if field is None:
            raise HeadError("a header is not NAME: VALUE on one line, in printable characters")
        name, value = (part.decode("latin-1") for part in field.groups())
        fields.setdefault(name.lower(), []).append(value.strip())
    hosts = len(fields.get("host", ()))
    # A proxy may use the other one; HTTP before 1.1 may omit it.
    if hosts > 1:
        raise HeadError("Host is given twice")
    if not hosts and version == _VERSION:
        raise HeadError("Host is missing")
    return RequestHead(method, target, version, fields)


def _head_lines(
    source: BufferedIOBase, limit_bytes: int, clock: Callable[[], float], deadline: float
) -> Iterator[bytes]:
    for _ in range(_LINES_MAXIMUM):
        if clock() > deadline:
            raise TimeoutError
        line = source.readline(limit_bytes + 1)
        limit_bytes -= len(line)
        if limit_bytes < 0:
            break
        if line in _ENDS:
            return
        yield line
    raise HeadError(status=HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)


_VERSION: Final = "1.1"
_LINES_MAXIMUM: Final = 100
_ENDS: Final = frozenset({b"", b"\n", b"\r\n"})
_TOKEN: Final = rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)"
_REQUEST_LINE: Final = re.compile(_TOKEN + rb" ([!-~]+) HTTP/([0-9]\.[0-9])\r?\n")
_FIELD: Final = re.compile(_TOKEN + rb":([\t -~\x80-\xff]*)\r?\n")
_LENGTH_DIGITS: Final = 18


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


class Handler(StreamRequestHandler):
    """HTTP/1.1 with keep-alive; the Server header has no version."""

    wbufsize = 65536
    server: WebListener

    def setup(self) -> None:
        """Use a shorter timeout for clients that have not yet sent a request."""
        timeout_seconds = self.server.settings.request_timeout_seconds
        self._is_open = True
        self._headers: Mapping[str, str] = {}
        if self.request.family != socket.AF_UNIX:
            self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        authenticator = self.server.authenticator
        self._security = (
            None
            if authenticator is None
            else authenticator.handshake(self.request, timeout_seconds)
        )
        super().setup()
        self.connection.settimeout(timeout_seconds)

    def handle(self) -> None:
        """Read and answer requests until either side closes the connection."""
        try:
            while self._is_open:
                self._handle_one()
                self.connection.settimeout(self.server.settings.keep_alive_seconds)
                self.server.await_client(self.connection)
        except (TimeoutError, ConnectionError):
            pass

    def _handle_one(self) -> None:
        settings = self.server.settings
        first_line = self.rfile.readline(_LINE_LIMIT_BYTES + 1)
        self.connection.settimeout(settings.request_timeout_seconds)
        self._is_head = False
        if not first_line:
            self._is_open = False
            return
        try:
            limits = settings.head_limit_bytes, settings.request_timeout_seconds
            head = read_head(first_line, self.rfile, *limits)
            self._is_open = not head.is_last
            self._is_head = head.method == "HEAD"
            self._answer(head, self._body(head))
        except HeadError as error:
            # The start of the next request is unknown.
            self._is_open = False
            self._send(WebResponse.of_text(str(error), error.status))

    def _body(self, head: RequestHead) -> bytes:
        """Read the body, needed or not, to find the next request."""
        if "transfer-encoding" in head.fields:
            raise HeadError(status=HTTPStatus.LENGTH_REQUIRED)
        length, *others = head.fields.get("content-length", ("0",))
        if others:
            # A proxy may use the other one and treat the rest as a request (smuggling).
            raise HeadError("Content-Length is given twice")
        if not (length.isascii() and length.isdigit() and len(length) <= _LENGTH_DIGITS):
            raise HeadError("Content-Length is not a number")
        if int(length) > self.server.settings.body_limit_bytes:
            raise HeadError(status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        if head.value("expect").lower() == "100-continue" and head.version == _VERSION:
            # The client waits for this before it sends the body.
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.wfile.flush()
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise HeadError("the body is shorter than Content-Length says")
        return body

    def _answer(self, head: RequestHead, body: bytes) -> None:
        try:
            # `//host` would be parsed as another server.
            target = urlsplit(re.sub("^//+", "/", head.target))
        except ValueError:
            raise HeadError("the request's target is not a URL") from None
        admission = Admission()
        authenticator = self.server.authenticator
        # Clients of the local socket need no password.
        if authenticator is not None and self._security is not None:
            if not authenticator.is_current(self._security.context):
                # Admission rules have changed: the client must connect again.
                self._is_open = False
                return
            address = self.client_address[0]
            certificate = self._security.certificate
            admission = authenticator.admit(str(address), certificate, head.value("authorization"))
        self._headers = admission.headers
        # Another guess takes a new connection, which has to queue.
        self._is_open &= admission.refusal is None
        request = WebRequest(
            head.method,
            target.path,
            parse_qs(target.query),
            head.value("accept"),
            head.value("accept-encoding"),
            body,
            peer_of(self.connection),
            admission.identity,
            _is_cross_site(head),
        )
        response = admission.refusal or self._answer_to(request)
        if response.status < HTTPStatus.BAD_REQUEST:
            self.server.record_answered(self.connection)
        self._send(response)

    def _answer_to(self, request: WebRequest) -> WebResponse:
        self.server.connections.mark(self.connection, is_working=True)
        try:
            return _compressed(self.server.answer(request), request.accept_encoding)
        finally:
            self.server.connections.mark(self.connection, is_working=False)

    def _send(self, response: WebResponse) -> None:
        headers = {
            "Server": "rightsizer",
            "Date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()),
            **SECURITY_HEADERS,
            **response.headers,
            **self._headers,
            "Content-Type": response.content_type,
            "Content-Length": str(len(response.body)),
            "Cache-Control": "no-store",
            **({} if self._is_open else {"Connection": "close"}),
        }
        lines = [f"HTTP/1.1 {response.status} {response.status.phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.wfile.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        if not self._is_head:
            self.wfile.write(response.body)
        # Head and body in one write, so that a small answer arrives whole or not at all.
        self.wfile.flush()


def _is_cross_site(head: RequestHead) -> bool:
    origin = head.value("origin")
    try:
        is_foreign = bool(origin) and urlsplit(origin).netloc != head.value("host")
    except ValueError:
        is_foreign = True
    return is_foreign or head.value("sec-fetch-site") in _OTHER_SITES


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
