"""Notification service: Grafana and webhooks, each imported only if configured."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from rightsizer.host.node_name import node_name
from rightsizer.io.clock import Clock
from rightsizer.io.database import Database
from rightsizer.io.worker import attempt_all
from rightsizer.model.advice import Advice, AdviceEvent
from rightsizer.notify.delivery import Delivery, DeliveryContext, Outbox
from rightsizer.notify.grafana.settings import GrafanaSettings
from rightsizer.notify.webhook.settings import WebhookSettings


class NotificationSettings(Protocol):
    """Settings of an agent or a fleet service."""

    @property
    def grafana(self) -> GrafanaSettings:
        """Settings of the annotations."""

    @property
    def webhooks(self) -> tuple[WebhookSettings, ...]:
        """Receivers of changes and alerts."""


class NotificationService:
    """The configured deliveries; a failed one does not delay the others."""

    def __init__(  # noqa: PLR0913 - the outside world is injected.
        self,
        settings: NotificationSettings,
        database: Database,
        advice: Callable[[], Sequence[Advice]],
        *,
        clock: Clock,
        warn: Callable[[str, str], None],
        sleep: Callable[[float], object],
        titles: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """Create the configured deliveries; `titles` returns display names of devices by UUID.

        `warn` takes an event's name and a message, once per trouble. `sleep` returns true to end
        retries.
        """
        self._context = DeliveryContext(advice, clock, warn, sleep, titles, node_name())
        self._database = database
        self._settings = settings
        self._annotations = self._grafana(settings.grafana)
        self._webhooks = self._webhooks_of(settings.webhooks)

    @property
    def _deliveries(self) -> tuple[Delivery[Any], ...]:
        return (*self._annotations, *self._webhooks)

    def change_settings(self, settings: NotificationSettings) -> None:
        """Rebuild the deliveries whose settings differ; pending messages stay in the outboxes.

        Raises:
            RightsizerError: pending messages cannot be read; nothing has changed.
        """
        before = self._settings
        annotations = self._annotations
        webhooks = self._webhooks
        if before.grafana != settings.grafana:
            annotations = self._grafana(settings.grafana)
        if before.webhooks != settings.webhooks:
            webhooks = self._webhooks_of(settings.webhooks)
        self._settings = settings
        self._annotations = annotations
        self._webhooks = webhooks

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Pass events to every delivery; fast, without network."""
        attempt_all(partial(delivery.offer, events) for delivery in self._deliveries)

    def notify(self, body: str) -> None:
        """Pass another JSON message to the webhooks; fast, without network."""
        attempt_all(partial(delivery.notify, body) for delivery in self._deliveries)

    def deliver(self) -> None:
        """Let every delivery send its pending messages; raise the first failure at the end."""
        attempt_all(delivery.deliver for delivery in self._deliveries)

    def metrics(self) -> dict[str, float]:
        """Attempts, failures, pending messages and last successes by series."""
        return {name: value for each in self._deliveries for name, value in each.metrics().items()}

    def _grafana(self, settings: GrafanaSettings) -> tuple[Delivery[Any], ...]:
        if not settings.url:
            return ()
        from rightsizer.notify.grafana.service import AnnotationOutbox, GrafanaAnnotations  # noqa: PLC0415

        return (GrafanaAnnotations(settings, AnnotationOutbox(self._database), self._context),)

    def _webhooks_of(self, settings: tuple[WebhookSettings, ...]) -> tuple[Delivery[Any], ...]:
        if not settings:
            return ()
        from rightsizer.notify.webhook.service import WEBHOOK_OUTBOX, webhooks_of  # noqa: PLC0415

        return webhooks_of(settings, Outbox(self._database, WEBHOOK_OUTBOX), self._context)
