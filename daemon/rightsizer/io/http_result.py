"""Result of an HTTP request: a response, or a failure with its possible effects."""

import re
from datetime import UTC
from enum import StrEnum
from typing import Any, Final, TypeAlias

from msgspec import Struct


class FailureKind(StrEnum):
    """Why a request did not succeed."""

    AWAY = "away"
    """No connection: nothing was sent."""
    UNTRUSTED = "untrusted"
    """TLS handshake failed: nothing was sent."""
    CREDENTIAL = "credential"
    """Token unreadable: nothing was sent."""
    INTERRUPTED = "interrupted"
    """Sent, but no complete answer: it may have been carried out."""
    REFUSED = "refused"
    """Answered with an error status."""
    MALFORMED = "malformed"
    """Success with an unexpected body."""


class Excess(StrEnum):
    """Limit of the client that the answer exceeded."""

    TIME = "time"
    SIZE = "size"


class Failure(Struct, frozen=True):
    """Failed request, with the reason."""

    kind: FailureKind
    message: str
    status: int | None = None
    retry_after_seconds: float | None = None
    """Delay requested by the server."""
    excess: Excess | None = None
    """Set if the answer took too long or was too large."""
    answer: str = ""
    """Body of a refusal, longer than the message."""


class Response(Struct, frozen=True):
    """Successful answer; `body` is parsed JSON, `None` if empty, or plain text.

    With a parser, `body` is the parser's result.
    """

    status: int
    body: Any
    size_bytes: int = 0
    """Size of the body, uncompressed."""


_UNKNOWN_AUTHORITIES: Final = frozenset({18, 19, 20, 21})
"""Verification errors of OpenSSL (x509_vfy.h) of certificates that nobody trusted has signed."""
_RFC_5280_FAULTS: Final = range(80, 95)
"""Those that only VERIFY_X509_STRICT reports."""

Result: TypeAlias = Response | Failure


def retry_after_seconds(header: str | None, now_seconds: float) -> float | None:
    """Delay requested by a server, in seconds or as a date; `None` without one."""
    if header is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", header.strip()):
        return float(header)
    # Takes 1 MB, and few servers send a date.
    from email.utils import parsedate_to_datetime  # noqa: PLC0415

    try:
        until = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max(0.0, until.replace(tzinfo=until.tzinfo or UTC).timestamp() - now_seconds)


def is_about_a_file(error: BaseException) -> bool:
    """Whether a certificate or its key is unreadable, an error raised while connecting."""
    inner = error.args[-1] if error.args else None
    return isinstance(inner, OSError) and inner.filename is not None


def cause(error: BaseException) -> str:
    """Message of the operating system, without urllib3's wrapping."""
    inner = error.__cause__ or (error.args[-1] if error.args else None)
    origin = inner if isinstance(inner, OSError) else error
    if isinstance(origin, OSError):
        said = (
            getattr(origin, "verify_message", "")
            or origin.strerror
            or str(origin)
            or type(origin).__name__
        )
        return said if said[1:2].isupper() else said[0].lower() + said[1:]
    if not error.args:
        return str(error) or type(error).__name__
    return str(error.args[-1])


def remedy(error: BaseException, ca_file: str) -> str:
    """What to do about a certificate that is not trusted; empty if its fault says enough."""
    inner = error.args[-1] if error.args else None
    code = getattr(inner, "verify_code", 0)
    if code in _UNKNOWN_AUTHORITIES:
        return "; put its authority into ca_file"
    # Faults of a handshake are of the library SSL.
    if ca_file and getattr(inner, "library", "") != "SSL":
        return f": ca_file {ca_file} must be a PEM file of certificates"
    if code not in _RFC_5280_FAULTS:
        return ""
    return (
        "; Python 3.13 and later require certificates that follow RFC 5280: issue it again, an "
        "authority with `-addext keyUsage=critical,keyCertSign,cRLSign` of `openssl req -x509`"
    )
