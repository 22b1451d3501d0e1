"""Webhooks: changes of advice from the outbox as JSON, or open advice as alerts."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from rightsizer.io.codec import JsonObject
from rightsizer.io.http import HttpClient
from rightsizer.io.http_result import Failure, FailureKind
from rightsizer.model.values import AdviceEvent
from rightsizer.notify.delivery import DeliveryContext, Outbox
from rightsizer.notify.message import message_of, slack_body, teams_body
from rightsizer.notify.receiver import Receiver, destination_of
from rightsizer.notify.routing import RoutedReceiver
from rightsizer.notify.webhook.client import webhook_client
from rightsizer.notify.webhook.encoder import alerts_of, is_firing, needs_delivery
from rightsizer.notify.webhook.settings import (
    WebhookFormat,
    WebhookSettings,
    read_address,
    read_headers,
)

_MESSAGES: Final = {
    WebhookFormat.SLACK: slack_body,
    WebhookFormat.TEAMS: teams_body,
}
_ALERTS: Final = "/api/v2/alerts"
_ALERTS_A_REQUEST: Final = 64
"""Prometheus's batch size."""
_JOINED: Final = 10
"""Changes of a message, which a reader takes in and all services accept."""


class Webhook(Receiver):
    """Sends changes from the outbox as JSON or messages, or currently open advice as alerts.

    Alerts need no outbox: as in Prometheus, each run sends all that fire or ended recently, so
    that an agent or Alertmanager that lost state has all of it a run later.
    """

    def __init__(
        self,
        name: str,
        settings: WebhookSettings,
        routed: RoutedReceiver,
        outbox: Outbox[str],
        context: DeliveryContext,
    ) -> None:
        """Create the webhook with the settings' outbox limit."""
        super().__init__(name, routed, key_of(settings), outbox, context)
        self._settings = settings
        self._has_alerts = settings.format is WebhookFormat.ALERTMANAGER
        self._written = _MESSAGES.get(settings.format)
        self._joined = 1 if self._written is None else _JOINED
        self._client: tuple[str, HttpClient] | None = None

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Put changes into the outbox; alerts are built from open advice when sent."""
        if not self._has_alerts:
            super().offer(events)

    def notify(self, body: str) -> None:
        """Put another JSON message into the outbox; only receivers of JSON take it."""
        if self._settings.format is WebhookFormat.JSON:
            self._outbox.put([body], self.destination)

    def _send(self) -> Failure | None:
        if not self._has_alerts:
            return self._send_entries(self._due())
        alerts = self._alerts()
        starts = range(0, len(alerts), _ALERTS_A_REQUEST)
        requests = (self._request(alerts[at : at + _ALERTS_A_REQUEST]) for at in starts)
        return next(filter(None, requests), None)

    def _alerts(self) -> list[JsonObject]:
        now = self._clock.wall_time()
        settings = self._settings
        titles = self._context.titles()
        return [
            alert
            for advice in self._context.advice()
            if self._routed.wants(advice)
            and needs_delivery(advice, now)
            and (settings.send_resolved or is_firing(advice))
            for alert in alerts_of(
                advice,
                now,
                node=self._context.node,
                titles=titles,
                instance=settings.instance,
                external_url=settings.external_url,
                resend_seconds=settings.resend_seconds,
            )
        ]

    def _post(self, bodies: Sequence[str]) -> Failure | None:
        changes = [json.loads(body) for body in bodies]
        if self._written is None:
            (change,) = changes
            return self._request(change)
        message = message_of(changes, self._settings.external_url, self._context.claim)
        return self._request(self._written(message))

    def _request(self, body: Any) -> Failure | None:
        """Post JSON; duplicates are harmless: changes have a `delivery`, alerts are idempotent."""
        return self._counted(self._answer(body))

    def _answer(self, body: Any) -> Failure | None:
        try:
            parts = urlsplit(read_address(self._settings))
        except (OSError, ValueError) as error:
            return Failure(FailureKind.CREDENTIAL, str(error))
        path = parts.path if not self._has_alerts else parts.path.rstrip("/") + _ALERTS
        result = self._client_of(f"{parts.scheme}://{parts.netloc}").request(
            "POST",
            path or "/",
            query=parse_qsl(parts.query, keep_blank_values=True),
            body=body,
            idempotent=True,
        )
        return result if isinstance(result, Failure) else None

    def _client_of(self, base: str) -> HttpClient:
        if self._client is None or self._client[0] != base:
            self._hang_up()
            http = self._settings.http
            token = self._settings.token_file
            headers = partial(read_headers, self._settings)
            self._client = (base, webhook_client(base, http, token, self._context.sleep, headers))
        return self._client[1]

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client[1].close()


def key_of(settings: WebhookSettings) -> str:
    """Return its destination in the outbox."""
    return destination_of(settings.format, settings.name, settings.url, settings.url_file)


def name_of(settings: WebhookSettings) -> str:
    """Return its name for metrics and log: never the path, which may be secret."""
    return settings.name or urlsplit(settings.url).netloc or settings.url_file.rpartition("/")[2]
