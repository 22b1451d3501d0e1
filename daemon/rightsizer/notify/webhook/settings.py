"""Settings of a webhook: address, selection of advice, secrets."""

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from rightsizer.io.http_settings import HttpSettings, checked_url, read_token_file
from rightsizer.model.values import CONSTANT, Spec
from rightsizer.notify.routing import ReceiverSettings


class WebhookFormat(StrEnum):
    """Format of the messages."""

    JSON = "json"
    """One request per change of advice."""
    ALERTMANAGER = "alertmanager"
    """Alerts for the Alertmanager API v2."""
    SLACK = "slack"
    """Messages of Slack's incoming webhooks."""
    TEAMS = "teams"
    """Adaptive cards of a Microsoft Teams workflow."""


class WebhookSettings(ReceiverSettings, frozen=True):
    """Receiver of recommendations.

    Raises:
        ValueError: there is no address, two, or one that no client can use; or quiet hours for an
            Alertmanager.

    Attributes:
        url: Address to post to; for `alertmanager`, Alertmanager's base URL, including any
            sub-path.
        url_file: File with the address, in place of `url`, if that is a secret.
        format: `json` for one request per change, `alertmanager` for alerts, `slack` and `teams`
            for messages that join the changes of a run, by owner.
        token_file: File with a bearer token; a name without a directory is a systemd credential.
        headers_file: File with additional headers, one `Name: value` a line, for other
            authentication.
        instance: Label `instance` of alerts, as Prometheus has it for this agent, such as
            `node-1:19400`; empty for the node's name.
        resend_seconds: Interval between resends of a firing alert, which expires after four missed.
            Source: Prometheus: rules.alert.resend-delay, and alerts that end four of them later
    """

    url: str = ""
    url_file: str = ""
    format: WebhookFormat = WebhookFormat.JSON
    token_file: str = ""
    headers_file: str = ""
    instance: str = ""
    resend_seconds: Annotated[float, Spec(within=(1.0, 3600.0)), CONSTANT] = 60.0
    http: HttpSettings = HttpSettings()

    def __post_init__(self) -> None:
        """Reject settings that can never work."""
        super().__post_init__()
        if bool(self.url) == bool(self.url_file):
            raise ValueError("a webhook has either url or url_file")
        if self.url:
            checked_address(self.url, self.format)
        if self.quiet_hours and self.format is WebhookFormat.ALERTMANAGER:
            raise ValueError("quiet_hours: an Alertmanager has its own, mute_time_intervals")


_CHATS: Final = {
    "hooks.slack.com": WebhookFormat.SLACK,
    "discord.com": None,
    "discordapp.com": None,
    "chat.googleapis.com": None,
}
"""Services whose webhooks accept only messages in their own format."""


def checked_address(url: str, form: WebhookFormat = WebhookFormat.JSON) -> str:
    """Return the address if requests can be posted to it; it may have a query.

    Raises:
        ValueError: it cannot; the message never contains the path, which may be secret.
    """
    parts = urlsplit(url)
    if (host := parts.hostname) in _CHATS and _CHATS[host] is not form:
        other = _CHATS[host]
        remedy = f"set format: {other}" if other else "let an Alertmanager tell it"
        raise ValueError(f"{host} takes no {form} of ours; {remedy}")
    try:
        checked_url(f"{parts.scheme}://{parts.netloc}")
        parts.port  # noqa: B018 - access validates it.
    except ValueError:
        has_password = parts.password is not None or parts.username is not None
        raise ValueError(
            "the address has a password in it; use token_file or headers_file"
            if has_password
            else "it is not an address; write it like 'https://hooks.example.org/advice'"
        ) from None
    return url


def read_address(settings: WebhookSettings, environment: Mapping[str, str] = os.environ) -> str:
    """Read the current address.

    Raises:
        OSError: its file cannot be read.
        ValueError: the file holds no address.
    """
    if settings.url:
        return settings.url
    path = _path(settings.url_file, environment)
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
        return checked_address(text, settings.format)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_token(token_file: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Read the current bearer token; `None` if no file is configured.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file does not hold a token.
    """
    return read_token_file(_path(token_file, environment)) if token_file else None


def read_headers(
    settings: WebhookSettings, environment: Mapping[str, str] = os.environ
) -> Mapping[str, str]:
    """Read the current additional headers.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is no header; the message has its number but not its content.
    """
    if not settings.headers_file:
        return {}
    path = _path(settings.headers_file, environment)
    headers = {}
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise ValueError(f"{path}:{number}: not a header; write it like 'X-Api-Key: value'")
        headers[name.strip()] = value.strip()
    return headers


def _path(file: str, environment: Mapping[str, str]) -> Path:
    folder = environment.get("CREDENTIALS_DIRECTORY")
    return Path(folder) / file if folder and os.sep not in file else Path(file)
