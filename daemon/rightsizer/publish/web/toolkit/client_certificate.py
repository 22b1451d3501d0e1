"""What a client's certificate says of who he is."""

import ssl
from collections.abc import Iterator, Sequence
from typing import Any, Final

__all__ = ["alternative_names", "identity_of", "is_allowed"]

_KINDS: Final = ("DNS", "email", "IP Address", "URI")


def alternative_names(connection: ssl.SSLSocket) -> tuple[str, ...]:
    """The subject alternative names of the certificate that was verified; none without one."""
    return tuple(_names(connection.getpeercert() or {}))


def identity_of(connection: ssl.SSLSocket) -> str | None:
    """What to call the client: an alternative name, else the subject; `None` without either."""
    certificate: Any = connection.getpeercert()
    if not certificate:
        return None
    parts = [f"{key}={value}" for part in certificate.get("subject", ()) for key, value in part]
    return f"certificate:{next(_names(certificate), ','.join(parts))}"


def is_allowed(connection: ssl.SSLSocket, allowed: Sequence[str]) -> bool:
    """Whether one of the certificate's names is allowed; all are where none is named."""
    return not allowed or not set(allowed).isdisjoint(alternative_names(connection))


def _names(certificate: Any) -> Iterator[str]:
    for kind, value in certificate.get("subjectAltName", ()):
        if kind in _KINDS:
            # OpenSSL pads IPv6 addresses with zeros that nobody writes.
            yield _plain_address(value) if kind == "IP Address" else value


def _plain_address(value: str) -> str:
    import ipaddress  # noqa: PLC0415 - 1 MB for the few that come by address.

    try:
        return str(ipaddress.ip_address(value.strip()))
    except ValueError:
        return str(value)
