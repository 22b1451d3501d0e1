"""A strict mail server on loopback: replies, limits and headers as RFC 5321 and 5322 have them."""

import base64
import re
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any, Final, cast

_LINE_MAXIMUM_BYTES: Final = 1000
"""With its end, RFC 5321, 4.5.3.1.6."""
_HEADERS: Final = {"From", "To", "Subject", "Date", "Message-ID"}


@dataclass
class Mailbox:
    """Accepted mail, and the faults to show, one a connection."""

    port: int = 0
    mail: list[EmailMessage] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """A reply to the end of the data, such as `554 no`, or `cut`."""
    unknown: list[str] = field(default_factory=list)
    """Recipients that it refuses."""
    farewell: str = "221 bye"
    users: list[tuple[str, str]] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


class _Handler(socketserver.StreamRequestHandler):
    mailbox: Mailbox
    context: ssl.SSLContext | None
    user: tuple[str, str] | None

    def handle(self) -> None:
        """Serve one connection."""
        self._is_encrypted = False
        self._is_known = self.user is None
        self._recipients: list[str] = []
        self._reply("220 mail.example.org")
        while line := self.rfile.readline(_LINE_MAXIMUM_BYTES):
            verb, _, rest = line.decode("ascii").strip().partition(" ")
            if verb.upper() == "QUIT":
                self._reply(self.mailbox.farewell)
                return
            if not self._answer(verb.upper(), rest):
                return

    def finish(self) -> None:
        """Close the connection, which encryption has replaced."""
        super().finish()
        self.connection.close()

    def _answer(self, verb: str, rest: str) -> bool:
        if verb in {"EHLO", "HELO"}:
            offers = ["mail.example.org"]
            if self.context is not None and not self._is_encrypted:
                offers.append("STARTTLS")
            if self.user is not None and self._is_encrypted:
                offers.append("AUTH PLAIN")
            self._reply(*[f"250-{offer}" for offer in offers[:-1]], f"250 {offers[-1]}")
        elif verb == "STARTTLS" and self.context is not None:
            self._reply("220 go ahead")
            self._encrypt(self.context)
        elif verb == "AUTH":
            _, name, password = base64.b64decode(rest.rsplit(maxsplit=1)[-1]).decode().split("\0")
            self.mailbox.users.append((name, password))
            self._is_known = (name, password) == self.user
            self._reply("235 welcome" if self._is_known else "535 5.7.8 who is that")
        elif not self._is_known:
            self._reply("530 5.7.0 log in")
        elif verb == "MAIL":
            self._recipients = []
            self._reply(
                "250 ok" if re.match(r"FROM:<[^<>\s]+@[^<>\s]+>", rest, re.IGNORECASE) else "501 no"
            )
        elif verb == "RCPT":
            name = rest[len("TO:<") : rest.index(">")]
            is_known = name not in self.mailbox.unknown
            self._recipients += [name] if is_known else []
            self._reply("250 ok" if is_known else "550 5.1.1 nobody of that name")
        elif verb == "DATA":
            return self._take()
        else:
            self._reply("250 ok" if verb in {"RSET", "NOOP"} else "502 unknown")
        return True

    def _take(self) -> bool:
        self._reply("354 go on")
        lines = []
        while (line := self.rfile.readline()) != b".\r\n":
            if len(line) > _LINE_MAXIMUM_BYTES or not line.endswith(b"\r\n"):
                self.mailbox.complaints.append(f"line of {len(line)} bytes")
            lines.append(line.removeprefix(b"."))
        box = self.mailbox
        fault = box.faults.pop(0) if box.faults else ""
        if fault == "cut":
            return False
        if fault:
            self._reply(fault)
            return True
        mail = message_from_bytes(b"".join(lines), policy=policy.default)
        if missing := _HEADERS - set(mail.keys()):
            box.complaints.append(f"no {sorted(missing)}")
        box.mail.append(mail)
        box.recipients.append(self._recipients)
        self._reply("250 taken")
        return True

    def _encrypt(self, context: ssl.SSLContext) -> None:
        self.connection = context.wrap_socket(self.connection, server_side=True)
        self.rfile = cast(Any, self.connection.makefile("rb"))
        self.wfile = cast(Any, self.connection.makefile("wb", buffering=0))
        self._is_encrypted = True

    def _reply(self, *lines: str) -> None:
        self.wfile.write("".join(f"{line}\r\n" for line in lines).encode())


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that gives up on a certificate is no fault of the server."""


@contextmanager
def mail_server(
    context: ssl.SSLContext | None = None, user: tuple[str, str] | None = None
) -> Iterator[Mailbox]:
    """A mail server within the block; it must have found no fault.

    Args:
        context: Certificate for STARTTLS; without one it is not offered.
        user: The only user, with the password; without one nobody logs in.
    """
    box = Mailbox()
    handler: Any = type("Handler", (_Handler,), {"mailbox": box, "context": context, "user": user})
    with _Server(("127.0.0.1", 0), handler) as server:
        box.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield box
        finally:
            server.shutdown()
            thread.join()
    assert not box.complaints
