"""Webhooks: changes of advice from the outbox as JSON, or open advice as alerts."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final
from urllib.parse import parse_qsl, urlsplit

from rightsizer.io.codec import JsonObject
from rightsizer.io.http import HttpClient
from rightsizer.io.http_result import Failure, FailureKind
from rightsizer.model.advice import AdviceEvent, AdviceEventKind
from rightsizer.notify.delivery import Delivery, DeliveryContext, Outbox, OutboxTable
from rightsizer.notify.webhook.client import webhook_client
from rightsizer.notify.webhook.encoder import alerts_of, change_of, is_firing, needs_delivery
from rightsizer.notify.webhook.settings import (
    WebhookFormat,
    WebhookSettings,
    read_address,
    read_headers,
)

WEBHOOK_OUTBOX: Final[OutboxTable[str]] = OutboxTable(
    "webhook_outbox", "body", encode=str, decode=str, destination="destination"
)
_ALERTS: Final = "/api/v2/alerts"
_ALERTS_A_REQUEST: Final = 64
"""Prometheus's batch size."""


class Webhook(Delivery[str]):
    """Sends changes from the outbox as JSON, or currently open advice as alerts.

    Alerts need no outbox: as in Prometheus, each run sends all that fire or ended recently, so
    that an agent or Alertmanager that lost state has all of it a run later.
    """

    _trouble = "webhook_trouble"
    _counters: ClassVar = {
        "rightsizer_webhook_requests_total": "tried",
        "rightsizer_webhook_failures_total": "failed",
        "rightsizer_webhook_dropped_total": "dropped",
    }
    _gauges = ("rightsizer_webhooks_pending", "rightsizer_webhook_last_success_timestamp_seconds")

    def __init__(
        self, name: str, settings: WebhookSettings, outbox: Outbox[str], context: DeliveryContext
    ) -> None:
        """Create the webhook with the settings' outbox limit."""
        destination = key_of(settings)
        super().__init__(name, outbox, context, settings=settings, destination=destination)
        self._settings = settings
        self._is_json = settings.format is WebhookFormat.JSON
        self._client: tuple[str, HttpClient] | None = None

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Put changes into the outbox; alerts are built from open advice when sent."""
        if self._is_json:
            unwanted = {AdviceEventKind.DECIDED}
            if not self._settings.send_resolved:
                unwanted.add(AdviceEventKind.CLOSED)
            wanted = [
                change_of(event, self._context.node)
                for event in events
                if event.kind not in unwanted and self._settings.wants(event.advice)
            ]
            # After a crash the same events may be offered again.
            waiting = {entry.body for entry in self._pending()}
            self._outbox.put([body for body in wanted if body not in waiting], self._destination)

    def notify(self, body: str) -> None:
        """Put another JSON message into the outbox; Alertmanagers take none."""
        if self._is_json:
            self._outbox.put([body], self._destination)

    @property
    def _labels(self) -> Mapping[str, str]:
        return {"webhook": self.report.name}

    def _send(self) -> Failure | None:
        if self._is_json:
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
            if settings.wants(advice)
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

    def _post(self, body: str) -> Failure | None:
        return self._request(json.loads(body))

    def _request(self, body: Any) -> Failure | None:
        """Post JSON; duplicates are harmless: changes have a `delivery`, alerts are idempotent."""
        failure = self._answer(body)
        sent = self.report.sent
        failed = self.report.failed
        self._count(sent=sent + (failure is None), failed=failed + (failure is not None))
        return failure

    def _answer(self, body: Any) -> Failure | None:
        try:
            parts = urlsplit(read_address(self._settings))
        except (OSError, ValueError) as error:
            return Failure(FailureKind.CREDENTIAL, str(error))
        path = parts.path if self._is_json else parts.path.rstrip("/") + _ALERTS
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

    def _explain(self, failure: Failure) -> str:
        return f"{self.report.name}: {failure.message}"


def key_of(settings: WebhookSettings) -> str:
    """Return the destination in the outbox: stable across restarts, and not secret."""
    text = f"{settings.format}|{settings.name}|{settings.url}|{settings.url_file}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def webhooks_of(
    settings: Sequence[WebhookSettings], outbox: Outbox[str], context: DeliveryContext
) -> tuple[Webhook, ...]:
    """Create the webhooks of the settings; drop messages pending for other destinations."""
    outbox.keep_only(map(key_of, settings))
    count: Counter[str] = Counter()
    found = []
    for each in settings:
        # Never the path, which may be secret, nor a quote, which would break a series' key.
        name = each.name or urlsplit(each.url).netloc or each.url_file.rpartition("/")[2]
        name = name.replace('"', "'")
        count[name] += 1
        unique = name if count[name] == 1 else f"{name} {count[name]}"
        found.append(Webhook(unique, each, outbox, context))
    return tuple(found)
