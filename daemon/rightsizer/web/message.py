"""A request as handlers see it, and their answer."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self


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
    """Who asks, over the local socket; `None` over TCP, where nobody can tell."""
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
        cls,
        text: str,
        status: HTTPStatus = HTTPStatus.OK,
        headers: Mapping[str, str] | None = None,
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
