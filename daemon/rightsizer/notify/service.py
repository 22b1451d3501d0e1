"""Notification service: Grafana and webhooks, each loaded where it is configured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from rightsizer.io.clock import Clock
from rightsizer.io.database import Database
from rightsizer.model.advice import Advice, AdviceEvent
from rightsizer.notify.grafana.settings import GrafanaSettings
from rightsizer.notify.webhook.settings import WebhookSettings

if TYPE_CHECKING:
    from rightsizer.notify.grafana.outbox import AnnotationOutbox
    from rightsizer.notify.outbox import Outbox


Tell = Callable[[str, str], None]
"""Takes the name of an event of the log, and what is to be said."""


class NotificationSettings(Protocol):
    """Sections that name who is told of advice."""

    @property
    def grafana(self) -> GrafanaSettings:
        """Where annotations go."""

    @property
    def webhooks(self) -> tuple[WebhookSettings, ...]:
        """Who else is told."""


class NotificationSink(Protocol):
    """One kind of receiver."""

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Take events; quick, without network."""

    def notify(self, body: str) -> None:
        """Take something that is no advice, as JSON; quick, without network."""

    def deliver(self) -> object:
        """Send what waits; may take seconds."""

    def counters(self) -> dict[str, float]:
        """What was sent and what was not, by the names of metrics."""

    def gauges(self) -> dict[str, float]:
        """What waits, by the names of metrics."""


class NotificationService:
    """The sinks that are configured; one that fails keeps no other waiting."""

    def __init__(  # noqa: PLR0913 - the outside world comes in as arguments.
        self,
        settings: NotificationSettings,
        database: Database,
        advice: Callable[[], Sequence[Advice]],
        *,
        clock: Clock,
        tell: Tell,
        sleep: Callable[[float], object],
    ) -> None:
        """The sinks of the first settings.

        Args:
            settings: Addresses, limits, credentials' places.
            database: Keeps what could not be delivered.
            advice: Gives all advice as the ledger has it.
            clock: The agent's.
            tell: Is told of each trouble once.
            sleep: Waits between tries; where it returns true there are no more.
        """
        self._database, self._advice = database, advice
        self._clock, self._tell, self._sleep = clock, tell, sleep
        self._settings = settings
        self._sinks = self._grafana(settings.grafana) | self._webhooks(settings.webhooks)

    # Outboxes outlive the sinks, and most agents load neither.

    @cached_property
    def _annotation_outbox(self) -> AnnotationOutbox:
        from rightsizer.notify.grafana.outbox import AnnotationOutbox  # noqa: PLC0415

        return AnnotationOutbox(self._database)

    @cached_property
    def _webhook_outbox(self) -> Outbox[str]:
        from rightsizer.notify.outbox import Outbox  # noqa: PLC0415
        from rightsizer.notify.webhook.service import WEBHOOK_OUTBOX  # noqa: PLC0415

        return Outbox(self._database, WEBHOOK_OUTBOX)

    def change(self, settings: NotificationSettings) -> None:
        """Rebuild the sinks whose settings differ; what waits for them stays in the outboxes.

        Raises:
            RightsizerError: what waits cannot be read; all stays as it was.
        """
        before, sinks = self._settings, dict(self._sinks)
        if before.grafana != settings.grafana:
            sinks.pop("grafana", None)
            sinks = self._grafana(settings.grafana) | sinks
        if before.webhooks != settings.webhooks:
            sinks.pop("webhooks", None)
            sinks |= self._webhooks(settings.webhooks)
        self._settings, self._sinks = settings, sinks

    def offer(self, events: Sequence[AdviceEvent]) -> None:
        """Tell every sink of events; quick, without network."""
        for sink in self._sinks.values():
            sink.offer(events)

    def notify(self, body: str) -> None:
        """Tell webhooks of something that is no advice, as JSON; quick, without network."""
        for sink in self._sinks.values():
            sink.notify(body)

    def deliver(self) -> None:
        """Let every sink send what waits; the first failure is raised after the last sink."""
        failures = []
        for sink in self._sinks.values():
            try:
                sink.deliver()
            except Exception as failure:  # noqa: BLE001 - one sink's fault is its own.
                failures.append(failure)
        if failures:
            raise failures[0]

    def counters(self) -> dict[str, float]:
        """What was sent and what was not, by the names of metrics."""
        return {
            name: count for sink in self._sinks.values() for name, count in sink.counters().items()
        }

    def gauges(self) -> dict[str, float]:
        """What waits, by the names of metrics."""
        return {
            name: value for sink in self._sinks.values() for name, value in sink.gauges().items()
        }

    def _grafana(self, settings: GrafanaSettings) -> dict[str, NotificationSink]:
        if not settings.url:
            return {}
        from rightsizer.notify.grafana.service import grafana_annotations  # noqa: PLC0415

        def tell(message: str) -> None:
            self._tell("grafana_trouble", message)

        return {
            "grafana": grafana_annotations(
                settings, self._annotation_outbox, self._clock, tell, self._sleep
            )
        }

    def _webhooks(self, settings: tuple[WebhookSettings, ...]) -> dict[str, NotificationSink]:
        if not settings:
            return {}
        from rightsizer.notify.webhook.service import WebhookService  # noqa: PLC0415

        return {
            "webhooks": WebhookService(
                settings,
                self._webhook_outbox,
                self._advice,
                clock=self._clock,
                tell=lambda message: self._tell("webhook_trouble", message),
                sleep=self._sleep,
            )
        }
