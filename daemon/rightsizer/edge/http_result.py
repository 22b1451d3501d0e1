"""What comes of an HTTP request: an answer, or a failure that says what may have happened."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

__all__ = ["Failure", "FailureKind", "Response", "Result"]


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


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that was not answered well, and why."""

    kind: FailureKind
    message: str
    status: int | None = None
    retry_after_seconds: float | None = None
    """How long the peer asked to be left alone."""


@dataclass(frozen=True, slots=True)
class Response:
    """A successful answer; `body` is parsed JSON, `None` where that was empty, or plain text."""

    status: int
    body: Any


Result: TypeAlias = Response | Failure
