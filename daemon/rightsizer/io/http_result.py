"""Result of an HTTP request: an answer, or a failure and what may have happened."""

import re
from datetime import UTC
from enum import StrEnum
from typing import Any, TypeAlias

from rightsizer.model.frozen import dataclass, field


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

    For a client with a parser it is what that made of it.
    """

    status: int
    body: Any
    size_bytes: int = field(default=0, compare=False)
    """Of the body, unpacked."""


Result: TypeAlias = Response | Failure


def retry_after_seconds(header: str | None, now_seconds: float) -> float | None:
    """How long a peer asks to be left alone, in seconds or as a date; `None` if it does not."""
    if header is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", header.strip()):
        return float(header)
    # 1 MB for the few that give a date.
    from email.utils import parsedate_to_datetime  # noqa: PLC0415

    try:
        until = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, until.replace(tzinfo=until.tzinfo or UTC).timestamp() - now_seconds)


def is_about_a_file(error: BaseException) -> bool:
    """Whether a certificate or its key cannot be read, which is met while connecting."""
    found = error.args[-1] if error.args else None
    return isinstance(found, OSError) and found.filename is not None


def cause(error: BaseException) -> str:
    """What the operating system said, without urllib3's words around it."""
    inner = error.__cause__ or (error.args[-1] if error.args else None)
    found = inner if isinstance(inner, OSError) else error
    if isinstance(found, OSError):
        said = found.strerror or str(found) or type(found).__name__
        return said[0].lower() + said[1:]
    if not error.args:
        return str(error) or type(error).__name__
    return str(error.args[-1])
