"""One receiver: its address and secrets, read anew for each run, and what it answers."""

import json
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from rightsizer.edge.http import Failure, FailureKind, HttpClient
from rightsizer.publish.webhook.client import webhook_client
from rightsizer.publish.webhook.settings import (
    WebhookFormat,
    WebhookSettings,
    read_address,
    read_headers,
)

__all__ = ["Receiver"]

_ALERTS: Final = "/api/v2/alerts"


class Receiver:
    """Posts to one webhook; a fault is an answer, never an exception."""

    def __init__(
        self, settings: WebhookSettings, sleep: Callable[[float], object] = time.sleep
    ) -> None:
        self._settings = settings
        self._sleep = sleep
        self._client: tuple[str, HttpClient] | None = None

    def post(self, body: str | list[Any]) -> Failure | None:
        """Send JSON, as text or as a list; what is wrong, `None` where it was taken.

        Sending twice does no harm: a change has its `delivery`, and an alert is what it is.
        """
        try:
            address = read_address(self._settings)
        except (OSError, ValueError) as error:
            return Failure(FailureKind.CREDENTIAL, str(error))
        parts = urlsplit(address)
        path = parts.path
        if self._settings.format is WebhookFormat.ALERTMANAGER:
            path = path.rstrip("/") + _ALERTS
        result = self._to(f"{parts.scheme}://{parts.netloc}").request(
            "POST",
            path or "/",
            query=parse_qsl(parts.query, keep_blank_values=True),
            body=json.loads(body) if isinstance(body, str) else body,
            idempotent=True,
        )
        return result if isinstance(result, Failure) else None

    def hang_up(self) -> None:
        """Let go of connections until the next run."""
        if self._client is not None:
            self._client[1].close()

    def _to(self, base: str) -> HttpClient:
        if self._client is None or self._client[0] != base:
            self.hang_up()
            settings = self._settings
            client = webhook_client(
                base,
                settings.http,
                settings.token_file,
                self._sleep,
                headers=lambda: read_headers(settings),
            )
            self._client = (base, client)
        return self._client[1]
