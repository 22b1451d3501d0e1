"""Settings of mail: server, sender and recipients."""

import re
from enum import StrEnum
from typing import Annotated, Final

from rightsizer.model.values import CONSTANT, Spec
from rightsizer.notify.routing import ReceiverSettings

_ADDRESS: Final = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*", re.ASCII)
"""As browsers take it; quoted names are not for machines."""


class MailEncryption(StrEnum):
    """How the connection to the server is protected."""

    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


class MailSettings(ReceiverSettings, frozen=True):
    """Receiver of recommendations by mail.

    Raises:
        ValueError: server, sender or recipients are missing, or a password would be sent in plain.

    Attributes:
        server: Host of the mail server.
        port: Its port.
        encryption: `starttls`, `tls` from the start, or `none`.
        username: User to log in as; empty to send without.
        password_file: File with the user's password; a name without a directory is a systemd
            credential.
        sender: Address that mail comes from.
        recipients: Addresses that mail goes to.
        timeout_seconds: Time for an answer of the server.
    """

    server: str = ""
    port: Annotated[int, Spec(within=(1, 65535))] = 587
    encryption: MailEncryption = MailEncryption.STARTTLS
    username: str = ""
    password_file: str = ""
    sender: str = ""
    recipients: tuple[str, ...] = ()
    timeout_seconds: Annotated[float, Spec(within=(0.1, 60.0)), CONSTANT] = 10.0

    def __post_init__(self) -> None:
        """Reject settings that can never work."""
        super().__post_init__()
        for key, value in (("server", self.server), ("sender", self.sender)):
            if not value:
                raise ValueError(f"{key}: is missing")
        if not self.recipients:
            raise ValueError("recipients: name at least one address")
        for key, address in (
            ("sender", self.sender),
            *(("recipients", recipient) for recipient in self.recipients),
        ):
            if not _ADDRESS.fullmatch(address):
                raise ValueError(f"{key}: '{address}' is no address; write it like gpu@example.org")
        if bool(self.username) != bool(self.password_file):
            raise ValueError("username and password_file belong together")
        if self.username and self.encryption is MailEncryption.NONE:
            raise ValueError("encryption: none would send the password in plain; use starttls")
