"""HTTP requests as seen by handlers, their JSON bodies, and responses."""

import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, Self, TypeAlias

from msgspec import Struct

from rightsizer.io.codec import encode
from rightsizer.model.errors import UsageError
from rightsizer.model.units import DAY_SECONDS, format_duration, parse_duration


class SocketPeer(Struct, frozen=True):
    """A process on this machine."""

    pid: int
    """0 if it is in an invisible process namespace."""
    uid: int
    gid: int


class WebRequest(Struct, frozen=True):
    """An HTTP request."""

    method: str
    path: str
    query: Mapping[str, list[str]] = {}
    accept: str = ""
    accept_encoding: str = ""
    body: bytes = b""
    peer: SocketPeer | None = None
    """Peer over the local socket; `None` over TCP."""
    identity: str | None = None
    """Authenticated client over TCP: `user:NAME` or `certificate:NAME`."""
    is_cross_site: bool = False
    """Whether a browser sends it for a page of another site."""
    named: Mapping[str, str] = {}
    """Path parts by the names of the route."""


class WebResponse(Struct, frozen=True):
    """An HTTP response."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = {}

    @classmethod
    def of_text(
        cls, text: str, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
    ) -> Self:
        """Create a response with a line of plain text."""
        # Quoted requests may contain lone surrogates.
        body = f"{text}\n".encode(errors="backslashreplace")
        return cls(body, status=status, headers=headers or {})

    @classmethod
    def of_json(cls, value: object) -> Self:
        """Create a response with a document."""
        return cls(encode(value) + b"\n", "application/json; charset=utf-8")


class Admission(Struct, frozen=True):
    """Result of authentication: a refusal, or the client's identity."""

    refusal: WebResponse | None = None
    identity: str | None = None
    """Authenticated client, if any."""
    headers: Mapping[str, str] = {}
    """Configured headers of every response."""


Answer: TypeAlias = Callable[[WebRequest], WebResponse]
"""Turns a request into its response."""

_LONGEST_SECONDS: Final = 366 * DAY_SECONDS


def fields_of(body: bytes, names: tuple[str, ...], example: str = "...") -> Mapping[str, Any]:
    """Parse the fields of a request; `example` is a value of the first, for the error message.

    Raises:
        UsageError: the body is no JSON object, or has unknown fields.
    """
    try:
        fields = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise UsageError(f'the body is no JSON object; write it like {{"{names[0]}": "{example}"}}')
    for name in fields:
        if name not in names:
            raise UsageError(f"'{name}' is not a field; choose from {', '.join(names)}")
    return fields


def text_of(fields: Mapping[str, Any], name: str, longest: int) -> str:
    """Return a line of text; empty if omitted.

    Raises:
        UsageError: it is no line of text, or too long.
    """
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UsageError(f"{name}: {json.dumps(value)} is no text")
    text = " ".join(value.encode(errors="replace").decode().split())
    if len(text) > longest:
        raise UsageError(f"{name}: longer than {longest} characters; shorten it")
    return text


def duration_of(value: object, example: str = "7d", remedy: str = "") -> float | None:
    """Return the seconds of the duration `for`; `None` if omitted.

    Raises:
        UsageError: it is no duration, not positive, or longer than a year.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise UsageError(f"for: {json.dumps(value)} is not a duration; write it like '{example}'")
    try:
        duration_seconds = parse_duration(value)
    except ValueError as error:
        raise UsageError(f"for: {error}") from None
    if not 0 < duration_seconds <= _LONGEST_SECONDS:
        longest = format_duration(_LONGEST_SECONDS)
        raise UsageError(f"for: '{value}' is not between 0 s and {longest}{remedy}")
    return duration_seconds
