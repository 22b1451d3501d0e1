"""Where a server listens, as an operator writes it: `host:port`, `:port`, `[::1]:port`."""

import re
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.errors import UsageError

__all__ = ["Address", "format_address", "parse_address"]

_FORM: Final = re.compile(r"(?:\[(?P<six>[^\[\]]+)\]|(?P<host>[^\[\]:]*)):(?P<port>[0-9]{1,5})")
_PORT_MAXIMUM: Final = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port; an empty host means every interface, port 0 any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return format_address(self.host, self.port)


def format_address(host: str, port: int) -> str:
    """Host and port in one text, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> Address:
    """The address that a text means.

    Raises:
        UsageError: the text is no such address.
    """
    match = _FORM.fullmatch(text.strip())
    if match is None:
        hint = "put an IPv6 host in brackets, like '[::1]:19400'" if text.count(":") > 1 else _FORMS
        raise UsageError(f"'{text}' is not an address; {hint}")
    port = int(match["port"])
    if port > _PORT_MAXIMUM:
        raise UsageError(f"'{text}': port {port} does not exist; the highest is {_PORT_MAXIMUM}")
    return Address(match["six"] or match["host"], port)


_FORMS: Final = "write it like ':19400', '127.0.0.1:19400' or '[::1]:19400'"
