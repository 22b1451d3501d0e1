"""What comes of an HTTP request: an answer, or a failure that says what may have happened."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias


class FailureKind(StrEnum):
    """What kept a request from being answered well."""

    AWAY = "away"
    """No connection: nothing was sent."""
    UNTRUSTED = "untrusted"
    """TLS could not be agreed upon: nothing was sent."""
    CREDENTIAL = "credential"
    """The token could not be read: nothing was sent."""
    INTERRUPTED = "interrupted"
    """The request was sent and no whole answer came: it may have been carried out."""
    REFUSED = "refused"
    """An answer with a status that is not a success."""
    MALFORMED = "malformed"
    """A success whose body is not what was asked for."""


class Excess(StrEnum):
    """Which of the client's own bounds an answer went beyond."""

    TIME = "time"
    SIZE = "size"


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that was not answered well, and why."""

    kind: FailureKind
    message: str
    status: int | None = None
    retry_after_seconds: float | None = None
    """How long the peer asked to be left alone."""
    excess: Excess | None = None
    """Where the answer took too long or is too large."""
    answer: str = field(default="", repr=False)
    """What a refusal says, longer than a message has room for."""


@dataclass(frozen=True, slots=True)
class Response:
    """A successful answer; `body` is parsed JSON, `None` where that was empty, or plain text.

    For a client that is told how to parse it is what that made of it.
    """

    status: int
    body: Any
    size_bytes: int = field(default=0, compare=False)
    """Of the body, unpacked."""


Result: TypeAlias = Response | Failure
