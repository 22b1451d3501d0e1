"""A request as handlers see it, its JSON body, and their answer."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, Self

from rightsizer.model.errors import UsageError
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.units import DAY_SECONDS, format_duration, parse_duration


@dataclass(frozen=True, slots=True)
class SocketPeer:
    """A process of this machine."""

    pid: int
    """0 where it is in a process namespace that cannot be seen from here."""
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class WebRequest:
    """What was asked."""

    method: str
    path: str
    query: Mapping[str, list[str]] = field(default_factory=dict)
    accept: str = ""
    accept_encoding: str = ""
    body: bytes = b""
    peer: SocketPeer | None = None
    """Who asks, over the local socket; `None` over TCP, where that is not known."""
    identity: str | None = None
    """Who asks, over TCP, where he has proved it: `user:NAME` or `certificate:NAME`."""
    is_cross_site: bool = False
    """Whether a browser asks on behalf of a page of another site."""
    named: Mapping[str, str] = field(default_factory=dict)
    """The parts of the path that its route has names for."""


@dataclass(frozen=True, slots=True)
class WebResponse:
    """What is answered."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_text(
        cls, text: str, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
    ) -> Self:
        """A line of plain text."""
        # A request may name half a character, and is quoted all the same.
        body = f"{text}\n".encode(errors="backslashreplace")
        return cls(body, status=status, headers=headers or {})

    @classmethod
    def of_json(cls, value: Any) -> Self:
        """A value as JSON."""
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return cls(f"{text}\n".encode(), "application/json; charset=utf-8")


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether a request goes on to the site."""

    refusal: WebResponse | None = None
    identity: str | None = None
    """Who asks, where he has proved it."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """What the operator wants every answer to carry."""


_LONGEST_SECONDS: Final = 366 * DAY_SECONDS


def fields_of(body: bytes, known: tuple[str, ...], example: str = "...") -> Mapping[str, Any]:
    """The fields of a request; `example` is a value of the first one, for the error message.

    Raises:
        UsageError: it is no JSON object, or has others.
    """
    try:
        fields = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise UsageError(f'the body is no JSON object; write it like {{"{known[0]}": "{example}"}}')
    for name in fields:
        if name not in known:
            raise UsageError(f"'{name}' is not a field; choose from {', '.join(known)}")
    return fields


def text_of(fields: Mapping[str, Any], name: str, longest: int) -> str:
    """A line of text; empty where it is left out.

    Raises:
        UsageError: it is none, or too long.
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
    """Seconds of the duration `for`; `None` where it is left out.

    Raises:
        UsageError: it is none, or no time at all, or longer than a year.
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
