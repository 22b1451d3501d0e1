"""Notification service: Grafana, webhooks and mail, each imported only if configured."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from rightsizer.host.node_name import node_name
from rightsizer.io.clock import Clock
from rightsizer.io.database import Database
from rightsizer.io.worker import attempt_all
from rightsizer.model.values import Advice, AdviceEvent
from rightsizer.notify.delivery import Delivery, DeliveryContext, Outbox
from rightsizer.notify.grafana.settings import GrafanaSettings
from rightsizer.notify.mail.settings import MailSettings
from rightsizer.notify.webhook.settings import WebhookSettings


class NotificationSettings(Protocol):
    """Settings of an agent or a fleet service."""

    @property
    def grafana(self) -> GrafanaSettings:
        """Settings of the annotations."""

    @property
    def webhooks(self) -> tuple[WebhookSettings, ...]:
        """Receivers of changes and alerts."""

    @property
    def mails(self) -> tuple[MailSettings, ...]:
        """Receivers by mail."""


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
        claim: str = "rightsizer claim",
    ) -> None:
        """Create the configured deliveries; `titles` returns display names of devices by UUID.

        `claim` is the command that claims a recommendation, before its id.

        `warn` takes an event's name and a message, once per trouble. `sleep` returns true to end
        retries.
        """
        self._context = DeliveryContext(advice, clock, warn, sleep, titles, node_name(), claim)
        self._database = database
        self._settings = settings
        self._annotations = self._grafana(settings.grafana)
        self._receivers = self._receivers_of(settings)

    @property
    def _deliveries(self) -> tuple[Delivery[Any], ...]:
        return (*self._annotations, *self._receivers)

    def change_settings(self, settings: NotificationSettings) -> None:
        """Rebuild the deliveries whose settings differ; pending messages stay in the outboxes.

        Raises:
            RightsizerError: pending messages cannot be read; nothing has changed.
        """
        before = self._settings
        annotations = self._annotations
        receivers = self._receivers
        if before.grafana != settings.grafana:
            annotations = self._grafana(settings.grafana)
        if (before.webhooks, before.mails) != (settings.webhooks, settings.mails):
            receivers = self._receivers_of(settings)
        self._settings = settings
        self._annotations = annotations
        self._receivers = receivers

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Pass events to every delivery; fast, without network."""
        attempt_all(partial(delivery.offer, events) for delivery in self._deliveries)

    def notify(self, body: str) -> None:
        """Pass another JSON message to the receivers; fast, without network."""
        attempt_all(partial(delivery.notify, body) for delivery in self._deliveries)

    def deliver(self) -> None:
        """Let every delivery send its pending messages; raise the first failure at the end."""
        attempt_all(delivery.deliver for delivery in self._deliveries)

    def metrics(self) -> dict[str, float]:
        """Attempts, failures, pending messages and last successes by series."""
        return {
            name: value
            for delivery in self._deliveries
            for name, value in delivery.metrics().items()
        }

    def _grafana(self, settings: GrafanaSettings) -> tuple[Delivery[Any], ...]:
        if not settings.url:
            return ()
        from rightsizer.notify.grafana.service import AnnotationOutbox, GrafanaAnnotations  # noqa: PLC0415

        return (GrafanaAnnotations(settings, AnnotationOutbox(self._database), self._context),)

    def _receivers_of(self, settings: NotificationSettings) -> tuple[Delivery[Any], ...]:
        if not settings.webhooks and not settings.mails:
            return ()
        from rightsizer.notify.receiver import RECEIVER_OUTBOX  # noqa: PLC0415
        from rightsizer.notify.receivers import receivers_of  # noqa: PLC0415

        outbox = Outbox(self._database, RECEIVER_OUTBOX)
        return receivers_of(settings.webhooks, settings.mails, outbox, self._context)
