"""Mail: sends the changes of a run as one message."""

import json
import smtplib
import ssl
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from typing import Final

from rightsizer.io.http_result import Failure, FailureKind
from rightsizer.model.values import seconds
from rightsizer.notify.delivery import DeliveryContext, Outbox
from rightsizer.notify.mail.settings import MailEncryption, MailSettings
from rightsizer.notify.message import Message, message_of
from rightsizer.notify.receiver import Receiver, destination_of
from rightsizer.notify.routing import RoutedReceiver
from rightsizer.notify.webhook.settings import read_token

_JOINED: Final = 100
"""Changes of a mail: a run opens far fewer, and a reader skims that many."""
_PERMANENT: Final = 500
"""Reply codes from which a server will not take the same message later (RFC 5321, 4.2.1)."""
_REJECTED_STATUS: Final = 422
"""As HTTP rejects content, so that later mail is not held up."""


class Mail(Receiver):
    """Sends changes from the outbox to its recipients."""

    _joined = _JOINED

    def __init__(
        self,
        name: str,
        settings: MailSettings,
        routed: RoutedReceiver,
        outbox: Outbox[str],
        context: DeliveryContext,
    ) -> None:
        """Create the receiver with the settings' outbox limit."""
        super().__init__(name, routed, key_of(settings), outbox, context)
        self._settings = settings

    def _send(self) -> Failure | None:
        return self._send_entries(self._due())

    def _post(self, bodies: Sequence[str]) -> Failure | None:
        changes = [json.loads(body) for body in bodies]
        message = message_of(changes, self._settings.external_url, self._context.claim)
        return self._counted(self._attempt(message))

    def _attempt(self, message: Message) -> Failure | None:
        settings = self._settings
        try:
            password = read_token(settings.password_file)
        except (OSError, ValueError) as error:
            return Failure(FailureKind.CREDENTIAL, str(error))
        try:
            refused = self._sent(self._written(message), password)
        except smtplib.SMTPAuthenticationError as error:
            return Failure(FailureKind.CREDENTIAL, f"{settings.server} refused the user: {error}")
        except smtplib.SMTPDataError as error:
            return self._refusal(error, error.smtp_code)
        except smtplib.SMTPRecipientsRefused as error:
            return self._refusal(error, min(code for code, _ in error.recipients.values()))
        except UnicodeError as error:
            return Failure(FailureKind.CREDENTIAL, f"{settings.server}: {error}")
        except ssl.SSLError as error:
            return Failure(FailureKind.UNTRUSTED, f"{settings.server}: {error}")
        except smtplib.SMTPException as error:
            return Failure(FailureKind.REFUSED, f"{settings.server}: {error}")
        except OSError as error:
            return Failure(FailureKind.AWAY, f"{settings.server}:{settings.port}: {error}")
        if refused:
            self._context.warn(self._trouble, f"{self.report.name} refused {', '.join(refused)}")
        return None

    def _refusal(self, error: smtplib.SMTPException, code: int) -> Failure:
        """Return the refusal of a mail, which a permanent one drops."""
        status = _REJECTED_STATUS if code >= _PERMANENT else None
        return Failure(FailureKind.REFUSED, f"{self._settings.server}: {error}", status)

    def _sent(self, mail: EmailMessage, password: str | None) -> Sequence[str]:
        """Send a mail, and return the recipients that the server refused, unless it refused all."""
        server = self._connected()
        try:
            if password is not None:
                server.login(self._settings.username, password)
            return list(server.send_message(mail))
        finally:
            # What was accepted is sent, whatever becomes of the farewell.
            with suppress(smtplib.SMTPException, OSError):
                server.quit()
            server.close()

    def _connected(self) -> smtplib.SMTP:
        """Return a connection that is encrypted as set, with the system's authorities."""
        settings = self._settings
        host = settings.server, settings.port
        limit = settings.timeout_seconds
        if settings.encryption is MailEncryption.TLS:
            return smtplib.SMTP_SSL(*host, timeout=limit, context=ssl.create_default_context())
        server = smtplib.SMTP(*host, timeout=limit)
        if settings.encryption is MailEncryption.STARTTLS:
            try:
                server.starttls(context=ssl.create_default_context())
            except Exception:
                server.close()
                raise
        return server

    def _written(self, message: Message) -> EmailMessage:
        settings = self._settings
        mail = EmailMessage()
        mail["From"] = settings.sender
        mail["To"] = ", ".join(settings.recipients)
        mail["Subject"] = message.title
        now = datetime.fromtimestamp(seconds(self._clock.wall_time()), UTC)
        mail["Date"] = format_datetime(now)
        mail["Message-ID"] = make_msgid(domain=settings.sender.rpartition("@")[2])
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(message.text)
        return mail

    def _hang_up(self) -> None:
        """Keep no connection."""


def key_of(settings: MailSettings) -> str:
    """Return its destination in the outbox."""
    return destination_of("mail", settings.name, settings.server, ",".join(settings.recipients))


def name_of(settings: MailSettings) -> str:
    """Return its name for metrics and log."""
    return settings.name or settings.recipients[0]
