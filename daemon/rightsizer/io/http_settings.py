"""Settings of HTTP clients: timeout and retries; addresses and tokens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Struct

from rightsizer.model.settings import CONSTANT, Spec


class HttpSettings(Struct, frozen=True):
    """Timeouts, retries and limits of the HTTP client.

    Attributes:
        timeout_seconds: Time limit for the server to accept a connection, and to answer.
        tries: Maximum attempts for an idempotent request.
        backoff_seconds: Delay before the second attempt; doubles with each further one.
        retry_after_maximum_seconds: Maximum delay accepted from a Retry-After header; with a longer
            one the request fails.
        response_maximum_bytes: Maximum size of a response; a larger one is rejected.
        ca_file: PEM file with the certificate authorities to trust; empty for the system's.
    """

    timeout_seconds: Annotated[float, Spec(within=(0.1, 60.0))] = 5.0
    tries: Annotated[int, Spec(within=(1, 10))] = 3
    backoff_seconds: Annotated[float, Spec(within=(0.0, 30.0)), CONSTANT] = 0.5
    retry_after_maximum_seconds: Annotated[float, Spec(within=(0.0, 300.0)), CONSTANT] = 10.0
    response_maximum_bytes: Annotated[int, Spec(within=(1024, None)), CONSTANT] = 8 * 2**20
    ca_file: str = ""


class ServerSettings(Struct, frozen=True):
    """HTTP server to post to.

    Raises:
        ValueError: the address is none that a client can use.

    Attributes:
        url: Address to post to.
        token_file: File with a bearer token.
    """

    url: str = ""
    token_file: str = ""

    def __post_init__(self) -> None:
        if self.url:
            checked_url(self.url, "url: ")


def checked_url(url: str, key: str = "") -> str:
    """Return the address if a client can use it.

    Raises:
        ValueError: not `http` or `https`, or contains a password; `key` prefixes the message.
    """
    if fault := _fault_of(url):
        raise ValueError(key + fault)
    return url


def _fault_of(url: str) -> str:
    parts = urlsplit(url)
    # Do not repeat what may be a secret.
    shown = "what has an @ in it" if "@" in url else f"'{url.partition('?')[0]}'"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        is_bare = "@" not in url and re.fullmatch(r"[\w.-]+(:\d+)?(/[\w./-]*)?", url)
        meant = f"http://{url}" if is_bare else "https://prometheus.example.org"
        return f"{shown} is not an address; write it like '{meant}'"
    try:
        parts.port  # noqa: B018 - reading it validates it.
    except ValueError:
        return f"{shown} has no port after its last colon; write it like 'http://node:9400'"
    if parts.username is not None or parts.password is not None:
        return f"the address of '{parts.hostname}' has a password in it; use a token"
    if parts.query or parts.fragment:
        return f"{shown} has a query in it; end it at the path"
    return ""


def read_token_file(path: Path, hint: str = "it must be one line") -> str:
    """Read the bearer token in a file.

    Raises:
        OSError: the file cannot be read.
        ValueError: no valid token in it; the message ends with the hint.
    """
    token = path.read_text(encoding="utf-8", errors="replace").strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(f"{path} does not hold a token; {hint}")
    return token
